package prompts

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
)

func NewContext() *cli.Command {
	var o jobflags.Options
	var f *cli.Flags
	return &cli.Command{
		Name:    "context",
		Summary: "do operations on contexts that another program asks for",
		About: `
Opens the model, reads operations from standard input, one JSON object per line, and answers each with one line on
standard output, in order. A context is a sequence whose keys and values stay on the device: a program appends tokens,
generates, scores, forks, truncates and saves it. An operation that fails is answered with its error, and the next line
is read. The end of the input ends the command, and closes all contexts. docs/contexts.md lists the operations; the
class Context of the Python package uses them.`,
		Example: `
echo '{"op": "new"}
{"op": "append", "context": 1, "prompt": "The sky is"}
{"op": "generate", "context": 1, "max_tokens": 8, "temperature": 0}' | sample context -m smollm2`,
		Flags: func(fl *cli.Flags) {
			f = fl
			f.Group("Contexts", func(s *pflag.FlagSet) {
				s.IntVar(&o.Process.Contexts, "contexts", 16, "`N` how many contexts may be open at once")
			})
			defineConversation(&o, f, "Process", "config", "progress", "quiet")
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("context takes no argument, but was given %q: operations come from standard input",
					args[0])
			}
			if n := o.Process.Contexts; n < 1 {
				return cli.Usagef("--contexts is %d, but must be 1 or more", n)
			}
			return converse(f, &o, func() error { return answerOperations(ctx, &o, env) })
		},
	}
}

// answerOperations answers lines until standard input ends.
func answerOperations(ctx context.Context, o *jobflags.Options, env *cli.Environment) (err error) {
	model, err := open(ctx, o, env)
	if err != nil {
		return err
	}
	defer model.Close()
	contexts, err := model.NewContexts()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, contexts.Close()) }()
	lines := readLines(env.Stdin)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line := <-lines:
			if line.err != nil && line.err != io.EOF {
				return fmt.Errorf("cannot read standard input: %w", line.err)
			}
			answer := contexts.Answer(ctx, []byte(line.text))
			if ctx.Err() != nil { // the operation was cut short
				return ctx.Err()
			}
			if _, err := env.Stdout.Write(answer); err != nil {
				return err
			}
			if line.err != nil {
				return nil
			}
		}
	}
}
