package cli

import (
	"fmt"
	"io"
	"os"
)

// SupervisedVariable makes a process end when its standard input ends: when the process that started it is gone.
const SupervisedVariable = "QUIRE_SUPERVISED"

func Supervised() bool { return os.Getenv(SupervisedVariable) != "" }

// EndWithParent ends this process with the one that supervises it, however that ends.
func EndWithParent(env *Environment) {
	if !Supervised() {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Fprintln(env.Stderr, "sample: the process that started this one is gone")
		os.Exit(ExitFailure)
	}()
}
