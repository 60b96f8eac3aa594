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
	"slices"
	"syscall"
	"time"

	"github.com/quire/quire/batch/load"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/estimate"
	"github.com/quire/quire/cmd/sample/install"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/cmd/sample/look"
	"github.com/quire/quire/cmd/sample/manifests"
	"github.com/quire/quire/cmd/sample/prompts"
	"github.com/quire/quire/cmd/sample/queues"
	"github.com/quire/quire/cmd/sample/run"
	"github.com/quire/quire/cmd/sample/smoke"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/internal/stdio"
)

func main() {
	os.Exit(sampleMain(os.Args[1:], &cli.Environment{Stdin: os.Stdin, Stdout: stdio.Stdout(), Stderr: os.Stderr,
		Models: load.Models{}, FS: vfs.OS}))
}

// sampleMain runs one command line and returns its exit code.
func sampleMain(args []string, world *cli.Environment) int {
	env := *world
	stdout, stderr := cli.NewScreen(world.Stdout), cli.NewScreen(world.Stderr)
	cli.PaintLines(stderr, cli.OfMessages)
	env.Stdout, env.Stderr = stdout, stderr
	env.Signals = &cli.Interrupts{}
	ctx, interrupt, stop := interruptible(env.Stderr, env.Signals)
	defer stop()
	env.Interrupt = interrupt
	err := cli.Dispatch(ctx, &env, args)
	lost := stdout.Failure("standard output")
	if lost != nil && errors.Is(err, stdout.Err) { // said once
		err = nil
	}
	code := cli.ExitCode(ctx, env.Stderr, err, cli.UsageHint(args))
	if lost != nil {
		fmt.Fprintf(env.Stderr, "sample: %v\n", lost)
		if code == cli.ExitOK || code == cli.ExitPartial {
			code = cli.ExitFailure
		}
	}
	_ = stderr.Failure("standard error") // which could not be reported anywhere
	return code
}

// version and commit are set by the linker (see the Makefile); "go install" leaves them to the build info.
var version, commit string

func init() { cli.Groups, cli.Version, cli.Commit = ownSubcommands, version, commit }

// ownSubcommands are the subcommands of this program.
func ownSubcommands() []cli.Group {
	return []cli.Group{
		{Title: "Run", Subs: slices.Concat([]*cli.Command{run.NewRun()}, run.NewTasks(), []*cli.Command{
			prompts.NewChat(), prompts.NewContext(), estimate.NewCheck(), queues.NewSubmit(), queues.NewWorker(),
			queues.NewStatus(), queues.NewCancel()})},
		{Title: "Look", Subs: []*cli.Command{look.NewShow(), look.NewStats(), look.NewVerify(), look.NewExplain(),
			estimate.NewAudit(), look.NewStore(), look.NewHTMLReport()}},
		{Title: "Set up", Subs: []*cli.Command{install.NewSetup(), estimate.NewPlan(), manifests.NewDeploy(),
			install.NewPrefix(),
			install.NewKernels(), jobflags.NewNATS(), estimate.NewBench(), smoke.NewSmoke()}},
		{Title: "Help", Subs: []*cli.Command{newManual(), cli.NewCompletion(), cli.NewVersion()}},
	}
}

// sameSignal is how close two signals are that mean the same: some parents send one to the process and to its group.
const sameSignal = 300 * time.Millisecond

// interruptible returns a context that the first SIGINT or SIGTERM cancels, or interrupt. The second signal ends the
// process at once. Those that a subcommand takes do not count.
func interruptible(stderr io.Writer, signalled *cli.Interrupts) (ctx context.Context, interrupt func(reason string),
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
			if !signalled.Taken() {
				break
			}
			taken = time.Now()
		}
		if !cli.Supervised() {
			fmt.Fprintln(stderr, "\nsample: stopping; once more to stop at once, whatever is under way")
		}
		cancel()
		first := time.Now()
		for range signals {
			if time.Since(first) > sameSignal {
				os.Exit(cli.ExitInterrupted)
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
