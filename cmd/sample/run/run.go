// Package run has the subcommand run, which does a job in this process or in several workers.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/quire/quire/batch/generate"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/cmd/sample/prompts"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/internal/plural"
)

// shortOfRun are the flags that the short help of run has.
var shortOfRun = []string{"model", "input", "output", "n-generations", "temperature", "max-tokens", "top-p", "seed",
	"stop", "system", "prompt-as", "prompt-column", "template", "json-schema", "columns", "exclude-columns", "format",
	"limit", "new", "extend", "retry-errors", "workers", "config", "kv-memory", "backend", "quiet", "verbose"}

func NewRun() *cli.Command {
	o := jobflags.Options{MayTry: true}
	command := newJob(&o)
	command.Name, command.Args = "run", "[FILE... | PROMPT...]"
	command.Summary = "generate completions of every prompt in " + promptset.InputFormats() + " files"
	command.About = cli.Paragraph("Each input row has a column \"prompt\" (text), \"messages\" (a list of role and "+
		"content) or "+
		"\"prompt_token_ids\". Optional columns are \"id\", \"parent\" (the id of a row whose completion comes "+
		"before the prompt: docs/guide.md) and the row's own parameters, such as max_tokens, temperature or seed, "+
		"which override the flags. docs/parameters.md lists them, with the names that OpenAI, vLLM, llama.cpp and "+
		"transformers have for them. A parameter that Quire does not support makes the row an error that names "+
		"the column.") +
		cli.Paragraph("The output has n rows for each input row, in the order of the input: the input's "+
			"columns, then "+
			strings.Join(cli.DefaultColumns(completion.Generate), ", ")+
			" (docs/columns.md). A row that cannot be run becomes one row with "+
			"an error; the job continues, and the exit code is 3.") + `
With --output - rows are written to standard output as JSONL, each as soon as it is finished (--in-order: in the order
of the input), and all else to standard error. Nothing is kept then: there is no journal, and such a job cannot be
resumed.

--input - reads JSONL from standard input: with --output - row by row; with an output folder all rows first, of which
the folder keeps a copy. To resume such a job, give the same rows again, or none (</dev/null).

Without --output an argument is a prompt: the user's message if the model has a chat template (--prompt-as raw: raw
text). The text of its completion is printed as it comes, and nothing is kept. In rows a "prompt" is raw text unless
--prompt-as user or --system is given.

A completion depends on the model, the row's id, the generation and the seed, not on what else runs.

To resume a run, however it ended, give the same command again: the output is the same as of one uninterrupted run. Finished
completions are kept in a journal, OUTPUT/_job, until their part of the output is complete; a part appears complete or
not at all. A crash of the process loses no finished completion; a power failure loses at most those of the last second. A
folder that holds another job (other model files, parameters or inputs) is refused; --new removes it.
--extend lets the job there grow to a larger -n, a larger --limit or more rows; --retry-errors tries its errors again.
SIGINT or SIGTERM ends the run after the current device call, with exit code 4. If the device fails, the engine is
restarted with what was in flight.`
	command.Example = `
sample run -m smollm2 --temperature 0 "Why is the sky blue?"
sample run -m smollm2 --prompt-as user -i prompts.jsonl -o out --temperature 0
sample run -m ./Llama-3.2-1B -i reviews.csv --prompt-as user --template 'Summarize: {{text}}' -o out --max-tokens 64
sample run -m hf://Qwen/Qwen3-8B -i 'chats/*.parquet' -o out -n 8 --temperature 0.8 --top-p 0.95 --seed 1
sample run -m model.gguf -i chats.jsonl -o out --format jsonl --stop 'User:' --max-tokens 64
producer | sample run -m smollm2 -i - -o - | consumer
sample run -m smollm2 -i batch.jsonl -o answers --format openai     # a file of OpenAI's batch API
sample run --config configs/smollm2-demo.yaml --limit 10 --output out/try`
	command.Short = shortOfRun
	return command
}

// newJob is a command that does a job, without its description.
func newJob(o *jobflags.Options) *cli.Command {
	var f *cli.Flags
	return &cli.Command{
		Flags: func(fl *cli.Flags) {
			f = fl
			o.Define(f)
			f.Group("One model on several hosts, a process on each, with the same command (docs/parallel.md)",
				o.Hosts.Define)
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if err := o.Prepare(f, args); err != nil {
				return err
			}
			if err := errors.Join(cli.Writable("report", o.Report),
				cli.Writable("save-prefix", o.Process.SavePrefix)); err != nil {
				return err
			}
			stop, err := o.Diagnostics.Begin()
			if err != nil {
				return err
			}
			defer o.Maintenance.Watch(env, o.Logger(env))()
			if len(o.Prompts) > 0 && !o.Spec.Encodes() {
				return errors.Join(prompts.Complete(ctx, env, o), stop())
			}
			if o.Units.Workers > 0 {
				return errors.Join(runWorkers(ctx, env, o, f), stop())
			}
			return errors.Join(runJob(ctx, env, o), stop())
		},
	}
}

// runJob does the job in this process, and prints what it came to.
func runJob(ctx context.Context, env *cli.Environment, o *jobflags.Options) (err error) {
	watch, err := o.Observe(env)
	if err != nil {
		return err
	}
	defer func() { watch.Close(jobflags.ResultOf(err)) }()
	task := o.Task(env, watch)
	report, err := task.Run(ctx)
	if report == nil {
		return err
	}
	if report.Output == spec.Standard { // standard output has only rows
		if o.Progress != "none" {
			printReport(cli.NewFitted(env.Stderr), report, o.Verbose)
		}
		return err
	}
	switch {
	case o.Quiet:
	case report.Followed:
		fmt.Fprintf(env.Stdout, "process %d of %d is through, with process 0, which has the output\n", o.Hosts.ID,
			o.Hosts.Processes)
		return err
	case report.AlreadyFinished:
		printFinished(env.Stdout, report)
	default:
		printReport(cli.NewFitted(env.Stdout), report, o.Verbose)
		printCompleteness(env.Stdout, report)
	}
	return cli.WriteReport(o.Report, report, err)
}

// printFinished reports that there was nothing to do.
func printFinished(w io.Writer, r *generate.Report) {
	what, hint := r.Output, "; --new generates them again"
	if r.Shard != "" {
		what, hint = fmt.Sprintf("shard %s of %s", r.Shard, r.Output), ""
	}
	fmt.Fprintf(w, "%s is finished: %s in %s, %s, %s%s\n", what, plural.Count(r.RowsPlanned, "row"),
		plural.Count(r.Parts, "part"), plural.Count(r.Completions, "completion"),
		plural.Count(r.RowsWithErrors, "row with errors"), hint)
	printCompleteness(w, r)
	if r.Parts == 0 && r.Completeness != nil {
		fmt.Fprintf(w, "shard %s has no part: the job has %d, and a smaller --part-rows makes more of a new job\n",
			r.Shard, r.Completeness.Parts.Count())
	}
}

// printCompleteness prints the state of the whole job after a shard's work.
func printCompleteness(w io.Writer, r *generate.Report) {
	if r.Completeness != nil {
		fmt.Fprintln(w, r.Completeness)
	}
}
