// Command sample generates completions of a set of prompts with a large language model and writes them to files.
//
// Run "sample help" for the subcommands, "sample help run" for the flags of the main one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/load"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/internal/stdio"
	"github.com/quire/quire/vfs"
)

// Exit codes, the same for every subcommand; the help documents them.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitPartial     = 3
	exitInterrupted = 4
	exitDamaged     = 5
)

// environment is what a subcommand sees of the world outside.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// models opens models. Tests put ones without an engine in their place.
	models process.Models
	// timing is how long things wait; 0 as in production.
	timing process.Timing
	// fs has the output.
	fs vfs.FS
	// interrupt ends the work as the first signal does, for a reason.
	interrupt func(reason string)
	// signals are SIGINTs of the terminal, which a subcommand may take.
	signals *interrupts
}

// interrupts is who takes a SIGINT, in place of the end of the command.
type interrupts struct {
	mu   sync.Mutex
	take func() bool
}

// takenBy gives the next ones to take, whose result says whether it took one. nil takes none.
func (i *interrupts) takenBy(take func() bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.take = take
}

func (i *interrupts) taken() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.take != nil && i.take()
}

// subcommand is one word after "sample".
type subcommand struct {
	name    string
	args    string // what follows the flags in the usage line
	summary string // one line
	about   string // paragraphs under the usage line
	example string // lines, of which the short help has the first
	// short are the flags that the short help has; none stands for all, and the short help is the whole one.
	short []string
	// flags defines the flags; run gets what is left of the arguments after they are parsed.
	flags func(f *flags)
	run   func(ctx context.Context, env *environment, args []string) error
}

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error // nil where all is said
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprint("exit code ", e.code)
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

// usagef returns an error about the command line itself.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func main() {
	os.Exit(sampleMain(os.Args[1:], &environment{stdin: os.Stdin, stdout: stdio.Stdout(), stderr: os.Stderr,
		models: load.Models{}, fs: vfs.OS}))
}

// sampleMain runs one command line and returns its exit code.
func sampleMain(args []string, world *environment) int {
	env := *world
	stdout, stderr := newScreen(world.stdout), newScreen(world.stderr)
	stderr.names = true
	paintLines(stderr, ofMessages)
	env.stdout, env.stderr = stdout, stderr
	env.signals = &interrupts{}
	ctx, interrupt, stop := interruptible(env.stderr, env.signals)
	defer stop()
	env.interrupt = interrupt
	err := dispatch(ctx, &env, args)
	lost := stdout.failure("standard output")
	if lost != nil && errors.Is(err, stdout.err) { // said once
		err = nil
	}
	code := exitCode(ctx, env.stderr, err, usageHint(args))
	if lost != nil {
		fmt.Fprintf(env.stderr, "sample: %v\n", lost)
		if code == exitOK || code == exitPartial {
			code = exitFailure
		}
	}
	_ = stderr.failure("standard error") // which nobody could be told
	return code
}

// usageHint says where the usage of a command line is.
func usageHint(args []string) string {
	if len(args) > 0 {
		if sub, err := findSubcommand(args[0]); err == nil {
			return fmt.Sprintf("Run \"sample help %s\" for the usage.", sub.name)
		}
	}
	return `Run "sample help" for the usage.`
}

// exitCode tells what went wrong, with the hint where the command line is wrong, and returns the code for it.
func exitCode(ctx context.Context, stderr io.Writer, err error, hint string) int {
	code, known := codeOf(err)
	if exit := (*exitError)(nil); err == nil || errors.As(err, &exit) && exit.err == nil {
		return code
	}
	interrupted := !known && ctx.Err() != nil && errors.Is(err, context.Canceled)
	if interrupted && err.Error() == context.Canceled.Error() { // wrapped or not, it says no more
		err = errors.New("interrupted")
	}
	fmt.Fprintf(stderr, "sample: %v\n", err)
	if interrupted {
		return exitInterrupted
	}
	if known && code == exitUsage {
		fmt.Fprintln(stderr, hint)
	}
	return code
}

// codeOf returns the exit code that an error has of its own; known is false where it has none and is a failure.
func codeOf(err error) (code int, known bool) {
	var exit *exitError
	var job *outcome.Error
	switch {
	case err == nil:
		return exitOK, true
	case errors.As(err, &exit):
		return exit.code, true
	case errors.As(err, &job):
		return int(job.Outcome), true
	}
	return exitFailure, false
}

// subcommandGroup is some of the subcommands, under a title of their own in the help.
type subcommandGroup struct {
	title string
	subs  []*subcommand
}

// subcommandGroups makes the subcommands. The package of main sets it, which imports those of all subcommands.
var subcommandGroups func() []subcommandGroup

// version and commit are set by the linker (see the Makefile); "go install" leaves them to the build info.
var version, commit string

func init() { subcommandGroups, linkedVersion, linkedCommit = ownSubcommands, version, commit }

// ownSubcommands are the subcommands of this program.
func ownSubcommands() []subcommandGroup {
	return []subcommandGroup{
		{"Run", []*subcommand{newRun(), newChat(), newCheck(), newSubmit(), newWorker(), newStatus(), newCancel()}},
		{"Look", []*subcommand{newShow(), newStats(), newVerify(), newHTMLReport()}},
		{"Set up", []*subcommand{newSetup(), newPlan(), newDeploy(), newPrefix(), newKernels(), newNATS(), newBench()}},
		{"Help", []*subcommand{newManual(), newCompletion(), newVersion()}},
	}
}

func subcommands() (all []*subcommand) {
	for _, g := range subcommandGroups() {
		all = append(all, g.subs...)
	}
	return all
}

func dispatch(ctx context.Context, env *environment, args []string) error {
	if len(args) == 0 {
		printOverview(env.stderr, false)
		return &exitError{exitUsage, nil} // which the help has said
	}
	name, args := args[0], args[1:]
	switch name {
	case "help", "--help", "-h":
		if len(args) == 0 || args[0] == "help" {
			printOverview(env.stdout, name == "help")
			return nil
		}
		sub, err := findSubcommand(args[0])
		if err != nil {
			return err
		}
		f := newFlags(sub.name)
		sub.flags(f)
		printHelp(env.stdout, sub, f, name != "help")
		return nil
	case completeWord:
		printSuggestions(env.stdout, args)
		return nil
	case "--version", "-v":
		name = "version"
	}
	sub, err := findSubcommand(name)
	if err != nil {
		return err
	}
	f := newFlags(sub.name)
	sub.flags(f)
	askedVersion := f.version()
	switch err := f.parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		printHelp(env.stdout, sub, f, true)
		return nil
	case err != nil:
		return &exitError{exitUsage, fmt.Errorf("%s: %w", sub.name, err)}
	case *askedVersion:
		return dispatch(ctx, env, []string{"version"})
	}
	return sub.run(ctx, env, f.set.Args())
}

func findSubcommand(name string) (*subcommand, error) {
	if other := otherSubcommands[name]; other != "" {
		return nil, usagef("%q is no subcommand; did you mean %q?", name, other)
	}
	var names []string
	for _, sub := range subcommands() {
		if sub.name == name {
			return sub, nil
		}
		names = append(names, sub.name)
	}
	return nil, usagef("%q is no subcommand%s", name, didYouMean(name, names, ""))
}

// sameSignal is how close two signals are that mean the same: some parents send one to the process and to its group.
const sameSignal = 300 * time.Millisecond

// interruptible returns a context that the first SIGINT or SIGTERM cancels, or interrupt. The second signal ends the
// process at once. Those that a subcommand takes do not count.
func interruptible(stderr io.Writer, signalled *interrupts) (ctx context.Context, interrupt func(reason string),
	stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		taken := time.Time{}
		for {
			s, ok := <-signals
			if !ok {
				return
			}
			if s != os.Interrupt {
				break
			}
			if time.Since(taken) < sameSignal {
				continue
			}
			if !signalled.taken() {
				break
			}
			taken = time.Now()
		}
		if !supervised() {
			fmt.Fprintln(stderr, "\nsample: stopping; once more to stop at once, whatever is under way")
		}
		cancel()
		first := time.Now()
		for range signals {
			if time.Since(first) > sameSignal {
				os.Exit(exitInterrupted)
			}
		}
	}()
	interrupt = func(reason string) {
		fmt.Fprintf(stderr, "sample: %s: stopping\n", reason)
		cancel()
	}
	return ctx, interrupt, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}
