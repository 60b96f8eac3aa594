package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
)

func Dispatch(ctx context.Context, env *Environment, args []string) error {
	if len(args) == 0 {
		printOverview(env.Stderr, false)
		return Exit(ExitUsage, nil) // the help has printed the error
	}
	name, args := args[0], args[1:]
	switch name {
	case "help", "--help", "-h":
		if len(args) == 0 || args[0] == "help" {
			printOverview(env.Stdout, name == "help")
			return nil
		}
		sub, err := Find(args[0])
		if err != nil {
			return err
		}
		f := NewFlags(sub.Name)
		sub.Flags(f)
		printHelp(env.Stdout, sub, f, name != "help")
		return nil
	case completeWord:
		printSuggestions(env.Stdout, args)
		return nil
	case "--version", "-v":
		name = "version"
	}
	sub, err := Find(name)
	if err != nil {
		return err
	}
	f := NewFlags(sub.Name)
	sub.Flags(f)
	askedVersion := f.version()
	switch err := f.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		printHelp(env.Stdout, sub, f, true)
		return nil
	case err != nil:
		return Exit(ExitUsage, fmt.Errorf("%s: %w", sub.Name, err))
	case *askedVersion:
		return Dispatch(ctx, env, []string{"version"})
	}
	return sub.Run(ctx, env, f.Set.Args())
}

// UsageHint returns a hint to the usage of a command line.
func UsageHint(args []string) string {
	if len(args) > 0 {
		if sub, err := Find(args[0]); err == nil {
			return fmt.Sprintf("Run \"sample help %s\" for the usage.", sub.Name)
		}
	}
	return `Run "sample help" for the usage.`
}

// ExitCode reports what went wrong, with the hint if the command line is wrong, and returns the code for it.
func ExitCode(ctx context.Context, stderr io.Writer, err error, hint string) int {
	code, known := CodeOf(err)
	if exit := (*ExitError)(nil); err == nil || errors.As(err, &exit) && exit.Err == nil {
		return code
	}
	interrupted := !known && ctx.Err() != nil && errors.Is(err, context.Canceled)
	if interrupted && err.Error() == context.Canceled.Error() { // wrapped or not, it contains nothing more
		err = errors.New("interrupted")
	}
	fmt.Fprintf(stderr, "sample: %s\n", Message(err))
	if interrupted {
		return ExitInterrupted
	}
	if known && code == ExitUsage {
		fmt.Fprintln(stderr, hint)
	}
	return code
}
