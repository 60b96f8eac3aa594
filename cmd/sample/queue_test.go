package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quire/quire/batch/crew"
)

// natsServer starts "sample nats" with more flags, until the script ends, and sets NATS_URL: "nats [FLAG...]".
func natsServer(ts *testscript.TestScript, neg bool, args []string) {
	path, err := exec.LookPath("sample")
	ts.Check(err)
	cmd := exec.Command(path, append([]string{"nats", "--listen", "127.0.0.1:0", "--store", ts.MkAbs("nats-store")},
		args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "NATS_USER="+ts.Getenv("NATS_USER"), "NATS_PASSWORD="+ts.Getenv("NATS_PASSWORD"))
	cmd.Stderr = ts.Stderr()
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	at, ok := strings.CutPrefix(strings.TrimSpace(line), crew.Listening)
	if !ok {
		ts.Fatalf("%q", line)
	}
	ts.Setenv("NATS_URL", "nats://"+at)
}

// name sets a variable to the first line of a file: "name JOB stdout".
func name(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: name VARIABLE FILE")
	}
	line, _, _ := strings.Cut(ts.ReadFile(args[1]), "\n")
	ts.Setenv(args[0], line)
}
