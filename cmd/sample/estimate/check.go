package estimate

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/check"
	"github.com/quire/quire/batch/review"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

// checkOptions are the flags of "sample check".
type checkOptions struct {
	run  jobflags.Options
	json bool
	rate float64
	like string // the output of an earlier job
}

func NewCheck() *cli.Command {
	var o checkOptions
	var f, run *cli.Flags
	return &cli.Command{
		Name:    "check",
		Args:    "[FILE...]",
		Summary: "read all rows of a job and report errors and totals, without generating",
		About: `
Reads the inputs as "sample run" with the same flags does, renders templates and counts tokens by the model's
tokenizer. It prints the errors of rows by kind, the lengths of prompts, the most tokens that completions can have,
and the KV memory of sequences. It opens no device and reads no weights. It finds the errors that a run finds before it
generates, except sequences that need more KV cache than there is, and rows that continue a row with an error.

The most tokens are a bound. For an estimate, run a trial of the first 100 rows and name its output with --like. The
expected tokens of each completion are the mean of min(tokens, its limit) over the trial's completions. Completions that
the trial's own limit cut count as they are, so give the trial the job's --max-tokens.

Times are tokens over --tokens-per-second, or over the trial's rate: tokens of its completions by the time it ran.
A short trial has a lower rate than a long job, because its last completions leave slots empty.

With --reuse it says how many completions would be generated and how many copied (docs/reuse.md).

The exit code is 3 if rows have errors, and 0 if none has. A job's --config file works unchanged. Flags without a use
are named.`,
		Short: []string{"model", "input", "n-generations", "temperature", "max-tokens", "stop", "system", "prompt-as",
			"prompt-column", "template", "json-schema", "format", "limit", "config", "like", "tokens-per-second",
			"json"},
		Example: `
sample check -m smollm2 --prompt-as user -i prompts.parquet
sample check -m smollm2 --prompt-as user --template 'Question: {{question}}' -i questions.csv --json
sample check --config job.yaml --tokens-per-second 1200
sample run --config job.yaml --limit 100 -o trial && sample check --config job.yaml --like trial`,
		Flags: func(fl *cli.Flags) { f = fl; run = o.define(f) },
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if o.rate < 0 {
				return cli.Usagef("check: --tokens-per-second is %g, but must be 0 (not known) or more", o.rate)
			}
			if err := o.run.Prepare(f, args); err != nil {
				return err
			}
			if o.like != "" && o.run.Spec.Encodes() {
				return cli.Usagef("check: --like is for completions, and --task is %s: leave it out", o.run.Spec.Task)
			}
			f.WarnUnused(env.Stderr, "check", run, jobflags.Drawing())
			task := o.run.Task(env, nil)
			like, err := o.earlier(ctx, env)
			if err != nil {
				return err
			}
			report, err := task.Check(ctx, o.rate, like)
			if report == nil {
				return err
			}
			if !o.json {
				printCheck(env.Stdout, report, o.rate > 0)
			} else if err := cli.PrintJSON(env.Stdout, report); err != nil {
				return err
			}
			return err
		},
	}
}

// earlier reads the output of the earlier job; it is nil without one.
func (o *checkOptions) earlier(ctx context.Context, env *cli.Environment) (*check.Earlier, error) {
	if o.like == "" {
		return nil, nil
	}
	path, err := storage.Hide(o.like)
	if err != nil {
		return nil, cli.Exit(cli.ExitUsage, fmt.Errorf("check: --like %w", err))
	}
	like, err := review.EarlierOf(ctx, env.FS, path)
	if err != nil {
		return nil, fmt.Errorf("--like: %w", err)
	}
	return like, nil
}

// define defines the flags, and returns the flags of run.
func (o *checkOptions) define(f *cli.Flags) *cli.Flags {
	f.Group("Check", func(s *pflag.FlagSet) {
		s.BoolVar(&o.json, "json", false, "print one JSON object instead of a table")
		s.Float64Var(&o.rate, "tokens-per-second", 0,
			"`NUMBER` tokens of completions that a job generates in a second, to estimate its time (default: the rate "+
				"of --like, if that is known)")
		cli.PlaceVar(s, &o.like, cli.Anywhere, "like", "",
			"`FOLDER` the output of an earlier job, whose completions give an estimate (default: only bounds)")
	})
	run := cli.NewFlags("run")
	o.run.Define(run)
	o.run.Spec.Output = os.DevNull // run's other options are checked with it
	for _, g := range run.Groups {
		if strings.HasPrefix(g.Title, "Model") || strings.HasPrefix(g.Title, "Input") ||
			strings.HasPrefix(g.Title, "Sampling") {
			f.Group(g.Title, func(s *pflag.FlagSet) { s.AddFlagSet(g.Set) })
		}
	}
	f.Set.AddFlagSet(run.Set)
	return run
}

// printCheck prints the totals of a job's rows. given reports whether the rate comes from the command line.
func printCheck(w io.Writer, r *check.Report, given bool) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("rows", "%s in %s, %d with errors", humanize.Comma(r.Rows), plural.Count(len(r.Inputs), "file"),
		r.RowsWithErrors)
	for _, e := range r.Errors {
		line("  error", "%s: %s", plural.Count(e.Rows, "row"), visible.Line(check.KindOf(cli.Message(e.First))))
		for _, example := range e.Examples {
			fmt.Fprintf(w, "%17s%s\n", "", visible.Line(example.Spell(cli.AsFlag)))
		}
	}
	if r.Following > 0 {
		line("  of these", "%s %s on from others, whose tokens are not counted", plural.Count(r.Following, "row"),
			plural.Of(r.Following, "goes", "go"))
	}
	p := r.Prompts
	if p.Count > 0 {
		line("prompts", "%s with %s tokens: %d to %d, half have up to %d, 90 %% up to %d, 99 %% up to %d",
			humanize.Comma(p.Count), humanize.Comma(p.Tokens), p.Min, p.Max, p.Median, p.P90, p.P99)
		printHistogram(w, p)
		if r.Task == completion.Generate {
			line("shared", "%s that all prompts begin with", plural.Count(r.SharedPrefix, "token"))
		}
	}
	if r.Task.Encodes() {
		printVectorsCheck(line, r)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.Adapters)) {
		line("  adapter", "%s: %s", visible.Line(name), plural.Count(r.Adapters[name], "prompt"))
	}
	line("completions", "%s with at most %s tokens", humanize.Comma(r.Completions), humanize.Comma(r.CompletionTokens))
	if u := r.Reused; u != nil {
		line("  of these", "%s would be generated, %s copied of other outputs, %s copied of equal rows",
			humanize.Comma(u.Generated), humanize.Comma(u.Copied), humanize.Comma(u.Repeated))
	}
	e := r.Expected
	if e != nil {
		line("  expected", "%s tokens: %s", humanize.Comma(int64(math.Round(e.CompletionTokens))),
			visible.Line(madeOf(e)))
	}
	if r.KVBytesPerToken > 0 {
		bytes := func(tokens float64) string { return humanize.IBytes(uint64(tokens * float64(r.KVBytesPerToken))) }
		line("KV cache", "%s bytes a token: %s for the longest sequence (%d tokens), %s for the mean one, at most",
			humanize.Comma(r.KVBytesPerToken), bytes(float64(r.LongestSequence)), r.LongestSequence,
			bytes(r.MeanSequence))
		if e != nil {
			line("  expected", "%s for the mean sequence (%.0f tokens)", bytes(e.MeanSequence), e.MeanSequence)
		}
	}
	rounded := func(s float64) string { return (time.Duration(s*1e9) * time.Nanosecond).Round(time.Second).String() }
	rate := fmt.Sprintf("%g tokens/s as given", r.TokensPerSecond)
	if e != nil && !given {
		rate = fmt.Sprintf("%.1f tokens/s as %s had", r.TokensPerSecond, visible.Line(e.Like.Output))
	}
	switch {
	case r.TokensPerSecond == 0 && e != nil:
		line("time", "not estimated: nothing here says how fast %s was generated; give --tokens-per-second",
			visible.Line(e.Like.Output))
	case r.TokensPerSecond == 0:
		line("time", "not estimated: give --tokens-per-second, or --like with the output of a run with --limit")
	default:
		line("time", "at most %s, at %s", rounded(r.SecondsOfDrawing), rate)
		if e != nil {
			line("  expected", "%s", rounded(e.Seconds))
		}
	}
}

// printVectorsCheck prints what is ahead of a job of an encoder.
func printVectorsCheck(line func(name, format string, args ...any), r *check.Report) {
	line(r.Task.Results(), "%s, %s of prompts with more than %d tokens, which are truncated",
		humanize.Comma(r.Completions), humanize.Comma(r.Truncated), r.MaxModelLen)
	if r.TokensPerSecond == 0 {
		line("time", "not estimated: give --tokens-per-second, of prompts, as the report of a run with --limit has it")
		return
	}
	seconds := time.Duration(r.SecondsOfDrawing * float64(time.Second)).Round(time.Second)
	line("time", "%s, at %g tokens/s as given", seconds, r.TokensPerSecond)
}

// madeOf names the completions that an expectation is based on.
func madeOf(e *check.Expectation) string {
	source := e.Like.Output
	if e.Like.Model != "" {
		source += " (model " + e.Like.Model + ")"
	}
	return fmt.Sprintf("%s of %s %s a mean of %.1f tokens, and %.0f %% ended at their limit",
		plural.Count(e.Like.Completions, "completion"), source, plural.Of(e.Like.Completions, "has", "have"),
		e.Like.MeanTokens, 100*e.Like.LengthShare)
}

// printHistogram prints how many prompts have which lengths.
func printHistogram(w io.Writer, p check.LengthsOfTokens) {
	most := int64(0)
	for _, b := range p.Histogram {
		most = max(most, b.Count)
	}
	for _, b := range p.Histogram {
		bar := strings.Repeat("█", int((40*b.Count+most-1)/most))
		fmt.Fprintf(w, "%14d to %-8d %10s %s\n", b.From, b.To, humanize.Comma(b.Count), bar)
	}
}
