package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/review"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/storage"
)

func newStats() *subcommand {
	var asJSON bool
	return &subcommand{
		name:    "stats",
		args:    "FOLDER|FILE",
		summary: "describe the completions of an output: lengths, finish reasons, repetition, log-probabilities",
		about: `
Reads a whole output, finished or not. "repeated" counts completions with the text of an earlier one of the same prompt.
"distinct" are the shares of different words, pairs and triples of words among all. "mean logprob" is of the tokens of a
completion; it needs an output with logprobs.`,
		example: `
sample stats out
sample stats out --json | jq .completion_lengths.p99`,
		flags: func(f *flags) {
			f.group("Output", func(s *pflag.FlagSet) { s.BoolVar(&asJSON, "json", false, "print JSON") })
		},
		run: func(ctx context.Context, env *environment, args []string) error {
			if len(args) != 1 {
				return usagef("stats needs one output folder or part file")
			}
			path, err := anywhere.resolve(args[0])
			if err == nil {
				path, err = storage.Hide(path)
			}
			if err != nil {
				return &exitError{exitUsage, fmt.Errorf("stats: %w", err)}
			}
			out, err := promptset.OpenPath(ctx, env.fs, path)
			if err != nil {
				return err
			}
			s, err := review.StatsOf(ctx, out)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if asJSON {
				return printJSON(env.stdout, s)
			}
			return printStats(env.stdout, s)
		},
	}
}

func printStats(w io.Writer, s *review.Stats) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	rows := fmt.Sprint(s.Rows)
	if s.RowsWithErrors > 0 {
		rows += fmt.Sprintf(", %d with errors", s.RowsWithErrors)
	}
	row("rows", "%s", rows)
	row("completions", "%d (%s)", s.Completions, s.FinishReasons)
	row("tokens", "%d of prompts, %d generated", s.PromptTokens, s.CompletionTokens)
	row("repeated", "%d completions", s.RepeatedTexts)
	if s.DistinctOf > 0 {
		row("distinct", "%.3f of words, %.3f of pairs, %.3f of triples, of %d words", s.Distinct[0], s.Distinct[1],
			s.Distinct[2], s.DistinctOf)
	}
	if l := s.Logprobs; l != nil {
		row("mean logprob", "mean %.3f, 10 %% %.3f, median %.3f, 90 %% %.3f", l.Mean, l.P10, l.Median, l.P90)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	printSpread(w, "prompt tokens", s.PromptLengths)
	printSpread(w, "completion tokens", s.CompletionLengths)
	return nil
}

// barWidth is how many columns the longest bar of a histogram takes.
const barWidth = 40

func printSpread(w io.Writer, name string, s review.Spread) {
	if s.Count == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s: mean %.1f, least %d, 10 %% %d, median %d, 90 %% %d, 99 %% %d, most %d\n", name, s.Mean,
		s.Least, s.P10, s.Median, s.P90, s.P99, s.Most)
	var most int64
	for _, b := range s.Bins {
		most = max(most, b.Count)
	}
	for _, b := range s.Bins {
		bar := strings.Repeat("█", int((b.Count*barWidth+most-1)/most))
		fmt.Fprintf(w, "%7d to %-7d %8d %s\n", b.From, b.To, b.Count, bar)
	}
}
