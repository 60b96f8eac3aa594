package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/review"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

// statsOptions are the flags of "sample stats".
type statsOptions struct {
	json           bool
	verdicts, from string
	workDir        string
	ks             []int
}

func NewStats() *cli.Command {
	var o statsOptions
	return &cli.Command{
		Name:    "stats",
		Args:    "FOLDER|FILE",
		Summary: "describe the completions of an output: lengths, errors, repetition, log-probabilities, pass@k",
		About: `
Reads a whole output in bounded memory. Of a job that is not finished it also reads what is in no part yet, from the
job's journal, and says how much of the job this is. A quantile is the least value that so many percent of all do not
exceed. "duplicates" are completions with the text of another one of
the same prompt. "distinct" are the shares of different tokens, pairs and triples of tokens among all; words where the
output has no tokens. "logprob" needs an output with logprobs. pass@k is the chance that one of k completions of a
prompt passes; it needs --verdicts.`,
		Example: `
sample stats out
sample stats out --json | jq .completion_lengths.p99
sample stats checked.parquet --verdicts correct
sample stats out --verdicts correct --verdicts-from verdicts.jsonl -k 1,10`,
		Flags: func(f *cli.Flags) {
			f.Group("Verdicts", func(s *pflag.FlagSet) {
				s.StringVar(&o.verdicts, "verdicts", "",
					"`COLUMN` a column with true or 1 for completions that pass, false or 0 for others, null for none")
				cli.PlaceVar(s, &o.from, cli.Anywhere, "verdicts-from", "",
					"`FILE` a Parquet or JSONL file with that column, id and generation (default: the output itself)")
				s.IntSliceVarP(&o.ks, "pass", "k", nil,
					"`K,...` numbers of completions for pass@k (default: 1, 2, 4 and so on, as many as prompts have)")
			})
			f.Group("Output", func(s *pflag.FlagSet) {
				s.BoolVar(&o.json, "json", false, "print JSON")
				cli.PlaceVar(s, &o.workDir, cli.OnThisMachine, "work-dir", "",
					"`FOLDER` the --work-dir of the job, if it had one")
			})
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("stats needs one output folder or part file")
			}
			if err := o.check(); err != nil {
				return err
			}
			return runStats(ctx, env, &o, args[0])
		},
	}
}

func (o *statsOptions) check() error {
	if o.verdicts == "" && (o.from != "" || len(o.ks) > 0) {
		return cli.Usagef("--verdicts-from and --pass need --verdicts, the column's name")
	}
	for _, k := range o.ks {
		if k < 1 {
			return cli.Usagef("--pass has %d, but must have 1 or more", k)
		}
	}
	return nil
}

func runStats(ctx context.Context, env *cli.Environment, o *statsOptions, name string) error {
	path, err := cli.Anywhere.Resolve(name)
	if err == nil {
		path, err = storage.Hide(path)
	}
	if err == nil && o.from != "" {
		o.from, err = storage.Hide(o.from)
	}
	if err != nil {
		return cli.Exit(cli.ExitUsage, fmt.Errorf("stats: %w", err))
	}
	out, err := review.Open(ctx, env.FS, path, o.workDir)
	if err == nil {
		defer out.Close()
		err = out.NoneYet()
	}
	if err != nil {
		return err
	}
	var verdicts *review.Verdicts
	if o.verdicts != "" {
		from, source := out.Output, path
		if o.from != "" {
			source = o.from
			if from, err = promptset.OpenPath(ctx, env.FS, source); err != nil {
				return err
			}
		}
		verdicts = review.VerdictsOf(ctx, from, source, o.verdicts, o.ks)
		defer verdicts.Close()
	}
	s, err := review.StatsOf(ctx, out, verdicts)
	if partErr := (*review.PartError)(nil); errors.As(err, &partErr) && partErr.Part == path { // the output is a file
		return err
	} else if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if o.json {
		return cli.PrintJSON(env.Stdout, s)
	}
	return printStats(env.Stdout, s)
}

func printStats(w io.Writer, s *review.Stats) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	if s.Partial != nil {
		row("partial", "%s", visible.Line(strings.TrimPrefix(s.Partial.String(), "partial: ")))
	}
	rows := fmt.Sprint(s.Rows)
	if s.RowsWithErrors > 0 {
		rows += fmt.Sprintf(", %d with errors", s.RowsWithErrors)
	}
	row("rows", "%s", rows)
	if v := s.Vectors; v != nil {
		switch {
		case v.Labels != nil:
			row("classes", "%d, %d of prompts that were truncated", v.Count, v.Truncated)
			row("labels", "%s", visible.Line(countsOf(v.Labels)))
		case v.Documents > 0:
			row("rankings", "%d of %d documents, %d with texts that were truncated", v.Count, v.Documents, v.Truncated)
		default:
			row("vectors", "%d of %d numbers, %d of prompts that were truncated", v.Count, v.Numbers, v.Truncated)
		}
		row("tokens", "%d of prompts", s.PromptTokens)
	} else {
		row("completions", "%d (%s)", s.Completions, s.FinishReasons)
		row("tokens", "%d of prompts, %d generated", s.PromptTokens, s.CompletionTokens)
	}
	if d := s.Duplicates; d.Of > 0 {
		row("duplicates", "%d completions have the text of another of their prompt (%.1f %%); "+
			"%d of %d prompts have one text", d.Completions, 100*d.Share, d.RowsOfOne, d.Rows)
	}
	if d := s.Distinct; d.Of > 0 {
		row("distinct", "%s of single %s, %s of pairs, %s of triples, of %d %s", shareOf(d, 0), d.Over, shareOf(d, 1),
			shareOf(d, 2), d.Of, d.Over)
	}
	for _, q := range []struct {
		name      string
		quantiles *review.Quantiles
	}{{"logprob of tokens", s.Logprobs}, {"mean of a completion", s.MeanLogprobs}} {
		if q.quantiles != nil {
			row(q.name, "mean %.3f, least %.3f, 1 %% %.3f, 10 %% %.3f, median %.3f, 90 %% %.3f, most %.3f",
				q.quantiles.Mean, q.quantiles.Least, q.quantiles.P1, q.quantiles.P10,
				q.quantiles.Median, q.quantiles.P90, q.quantiles.Most)
		}
	}
	for _, version := range slices.Sorted(maps.Keys(s.Weights)) {
		n := s.Weights[version]
		row("weights", "%.12s generated %s and the first of %s", version, plural.Count(n.Tokens, "token"),
			plural.Count(n.Completions, "completion"))
	}
	if j := s.Judged; j != nil {
		row("accepted", "%d of %d completions; of %d prompts all for %d, none for %d", j.Accepted, j.Completions,
			j.Prompts, j.AllAccepted, j.AllRejected)
		for _, pass := range j.At {
			if s.PassAtK == nil {
				row(fmt.Sprintf("pass@%d", pass.K), "%.4f, 95 %% of %.4f to %.4f, %s", pass.Share, pass.Low, pass.High,
					plural.Count(pass.Prompts, "prompt"))
			}
		}
	}
	if p := s.PassAtK; p != nil {
		row("verdicts", "%s", verdictsOf(p))
		for _, pass := range p.At {
			row(fmt.Sprintf("pass@%d", pass.K), "%s", passOf(p, pass))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	printSpread(w, "prompt tokens", s.PromptLengths)
	if s.Vectors == nil {
		printSpread(w, "completion tokens", s.CompletionLengths)
	}
	if len(s.Errors) > 0 {
		fmt.Fprint(w, "\nerrors\n")
	}
	for _, e := range s.Errors {
		fmt.Fprintf(w, "%7d  %s (%s)\n", e.Count, visible.Line(e.What), visible.Line(strings.Join(e.IDs, ", ")))
	}
	return nil
}

// countsOf lists counts by their names, the largest first.
func countsOf(counts map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	return strings.Join(names, ", ")
}

func shareOf(d review.Distinct, n int) string {
	if d.Estimated[n] {
		return fmt.Sprintf("about %.2g", d.Share[n])
	}
	return fmt.Sprintf("%.3f", d.Share[n])
}

func verdictsOf(p *review.PassAtK) string {
	text := fmt.Sprintf("%d of %d completions pass (%s)", p.Passed, p.Verdicts, visible.Line(p.Column))
	if p.Without > 0 {
		text += fmt.Sprintf("; %d have no verdict", p.Without)
	}
	if p.Failed > 0 {
		text += fmt.Sprintf("; %d have an error and are left out", p.Failed)
	}
	return text
}

func passOf(p *review.PassAtK, pass review.Pass) string {
	switch pass.Prompts {
	case 0:
		return fmt.Sprintf("no prompt has %d verdicts", pass.K)
	case p.Prompts:
		return fmt.Sprintf("%.4f", pass.Share)
	}
	return fmt.Sprintf("%.4f, of %d of %d prompts, which have %d verdicts or more", pass.Share, pass.Prompts, p.Prompts,
		pass.K)
}

// barWidth is the width of the longest bar of a histogram in columns.
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
