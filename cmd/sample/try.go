package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/quire/quire/batch/interactive"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/promptset"
)

// withFolder are flags that only a job with an output folder has a use for.
var withFolder = []string{"new", "extend", "retry-errors", "work-dir", "shard", "workers", "ack-wait",
	"max-tries", "part-rows", "keep-partitions", "report", "num-processes"}

// withRows are flags that only a job with rows has a use for.
var withRows = []string{"in-order", "prompt-column", "id-column", "template", "limit", "format", "columns",
	"exclude-columns", "reasoning-parser", "tool-call-parser", "served-model-name", "save-prefix", "metrics",
	"top-logprobs", "prompt-logprobs"}

// refuseGiven refuses flags that are given.
func refuseGiven(f *flags, names []string, why string) error {
	for _, name := range names {
		if given(f.set.Lookup(name)) {
			return fmt.Errorf("--%s %s", name, why)
		}
	}
	return nil
}

// takePrompts takes arguments as prompts.
func (o *runOptions) takePrompts(f *flags, args []string) error {
	for _, arg := range args {
		_, err := os.Stat(arg)
		if err == nil || promptset.NamesInput(arg) {
			return fmt.Errorf("%s is the name of a file: give --output for the completions of its rows; without "+
				"--output an argument is a prompt", arg)
		}
	}
	const why = "is for rows of files, and the arguments are prompts: leave it out, or give --input and --output"
	if err := refuseGiven(f, slices.Concat(withFolder, withRows), why); err != nil {
		return err
	}
	o.prompts, o.spec.Inputs, o.spec.Output = args, []string{spec.Standard}, spec.Standard
	return o.checkDumps()
}

// takeStream settles what follows from rows on standard output.
func (o *runOptions) takeStream(f *flags) error {
	if o.spec.Output != spec.Standard {
		return nil
	}
	if !o.mayTry {
		return errors.New("--output is -, and workers write to a folder: give --output FOLDER")
	}
	if !given(f.set.Lookup("format")) {
		o.spec.Format = promptset.FormatJSONL
	}
	return refuseGiven(f, []string{"report", "workers", "ack-wait", "max-tries"},
		"is for output folders, and --output is -: leave one of the two out")
}

// checkDumps wants a folder for tables where no output has one.
func (o *runOptions) checkDumps() error {
	if d := &o.diagnostics; d.dumpTables != "" && d.dumpTablesDir == "" {
		return errors.New("--dump-tables needs --dump-tables-to here: there is no output folder")
	}
	return nil
}

// try opens the model to be tried.
func (o *runOptions) try(ctx context.Context, env *environment) (*interactive.Model, error) {
	return o.task(env, nil).Try(ctx)
}

// tryPrompts draws completions of prompts, and prints them as they come.
func tryPrompts(ctx context.Context, env *environment, o *runOptions) error {
	trial, err := o.try(ctx, env)
	if err != nil {
		return err
	}
	defer trial.Close()
	return trial.Complete(ctx, o.prompts, &teller{env: env, trial: trial, prompts: len(o.prompts),
		several: len(o.prompts) > 1 || trial.Job.Sampling.N > 1})
}

// teller prints completions on standard output. What else there is to say is printed on standard error.
type teller struct {
	env     *environment
	trial   *interactive.Model
	prompts int
	several bool // completions: each has a heading

	name string // of the completion
	line bool   // its text has begun a line that is not ended
}

func (t *teller) Begin(prompt, generation int) {
	var parts []string
	if t.prompts > 1 {
		parts = append(parts, fmt.Sprintf("prompt %d", prompt+1))
	}
	if t.trial.Job.Sampling.N > 1 {
		parts = append(parts, fmt.Sprintf("generation %d", generation))
	}
	if t.name = strings.Join(parts, ", "); t.several {
		fmt.Fprintf(t.env.stdout, "── %s ──\n", t.name)
	}
}

func (t *teller) Text(piece string) {
	fmt.Fprint(t.env.stdout, piece)
	t.line = !strings.HasSuffix(piece, "\n")
}

func (t *teller) End(reason engine.FinishReason, err error) {
	if t.line {
		fmt.Fprintln(t.env.stdout)
		t.line = false
	}
	of := ""
	if t.name != "" {
		of = t.name + ": "
	}
	switch {
	case err != nil:
		fmt.Fprintf(t.env.stderr, "error: %s%s\n", of, visible.Line(err.Error()))
	case reason == engine.FinishLength && !t.trial.Process.Quiet:
		fmt.Fprintf(t.env.stderr, "%sthe text is cut: --max-tokens is %d\n", of, t.trial.Job.Sampling.MaxTokens)
	}
}
