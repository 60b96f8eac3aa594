package prompts

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/quire/quire/batch/interactive"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/visible"
)

// open opens the model to be tried.
func open(ctx context.Context, o *jobflags.Options, env *cli.Environment) (*interactive.Model, error) {
	return o.Task(env, nil).Try(ctx)
}

// Complete generates completions of prompts, and prints them as they come.
func Complete(ctx context.Context, env *cli.Environment, o *jobflags.Options) error {
	model, err := open(ctx, o, env)
	if err != nil {
		return err
	}
	defer model.Close()
	err = model.Complete(ctx, o.Prompts, &printer{env: env, model: model, prompts: len(o.Prompts),
		several: len(o.Prompts) > 1 || model.Job.Sampling.N > 1})
	if o.Verbose {
		table := tabwriter.NewWriter(cli.NewFitted(env.Stderr), 0, 0, 2, ' ', 0)
		cli.EngineFigures(model.Stats(), func(name, format string, args ...any) {
			fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
		})
		table.Flush()
	}
	return err
}

// printer prints completions on standard output, and everything else on standard error.
type printer struct {
	env     *cli.Environment
	model   *interactive.Model
	prompts int
	several bool // completions: each has a heading

	name string // of the completion
	line bool   // its text has started a line that is not ended
}

func (t *printer) Begin(prompt, generation int) {
	var parts []string
	if t.prompts > 1 {
		parts = append(parts, fmt.Sprintf("prompt %d", prompt+1))
	}
	if t.model.Job.Sampling.N > 1 {
		parts = append(parts, fmt.Sprintf("generation %d", generation))
	}
	if t.name = strings.Join(parts, ", "); t.several {
		fmt.Fprintf(t.env.Stdout, "── %s ──\n", t.name)
	}
}

func (t *printer) Text(piece string) {
	fmt.Fprint(t.env.Stdout, piece)
	t.line = !strings.HasSuffix(piece, "\n")
}

func (t *printer) End(reason engine.FinishReason, err error) {
	if t.line {
		fmt.Fprintln(t.env.Stdout)
		t.line = false
	}
	prefix := ""
	if t.name != "" {
		prefix = t.name + ": "
	}
	switch {
	case err != nil:
		fmt.Fprintf(t.env.Stderr, "error: %s%s\n", prefix, visible.Line(cli.Message(err)))
	case reason == engine.FinishLength && !t.model.Process.Quiet:
		fmt.Fprintf(t.env.Stderr, "%sthe text is cut: --max-tokens is %d\n", prefix, t.model.Job.Sampling.MaxTokens)
	}
}
