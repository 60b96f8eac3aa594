package run

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/quire/quire/batch/generate"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

// printReport prints a run's report as a table: a summary, or all figures.
func printReport(w io.Writer, r *generate.Report, all bool) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, visible.Line(fmt.Sprintf(format, args...)))
	}
	rows := fmt.Sprintf("%d", r.Rows)
	if r.RowsWithErrors > 0 {
		rows += fmt.Sprintf(", %d with errors", r.RowsWithErrors)
	}
	if r.RowsBefore > 0 {
		rows += fmt.Sprintf("; %d of them by earlier runs, %d by this one", r.RowsBefore, r.RowsHere)
	}
	if r.RowsUnfinished > 0 {
		rows += fmt.Sprintf("; %d not finished", r.RowsUnfinished)
	}
	row("rows", "%s", rows)
	if r.RowsGreedy > 0 {
		row("equal", "%s with n above 1 at temperature 0: the completions of each are equal",
			plural.Count(r.RowsGreedy, "row"))
	}
	if r.RowsRepeated > 0 {
		row("repeated", "%s with the id, prompt and parameters of an earlier row, and so with its completions",
			plural.Count(r.RowsRepeated, "row"))
	}
	if n := r.CompletionsCopied + r.CompletionsRepeated; n > 0 {
		row("copied", "%s of other outputs, %d of equal rows of this job; %s without any that was generated",
			plural.Count(r.CompletionsCopied, "completion"), r.CompletionsRepeated, plural.Count(r.RowsCopied, "row"))
	}
	vectors := r.Task.Encodes()
	if vectors {
		row(r.Task.Results(), "%d", r.Completions)
		row("tokens", "%d of prompts", r.PromptTokens)
	} else {
		row("completions", "%d (%s)", r.Completions, r.FinishReasons)
		row("tokens", "%d of prompts, %d generated", r.PromptTokens, r.CompletionTokens)
	}
	switch {
	case all && vectors:
		row("rate", "%s rows/s, %.0f tokens/s", cli.Rate(perSecond(r.RowsHere, r.Engine.WallSeconds)),
			r.PromptTokensPerSec)
		row("device", "busy for %.0f %% of the run", 100*(1-r.HostShare))
	case all:
		cli.EngineFigures(r.Engine, row)
	}
	if w := r.Weights; w != nil {
		row("weights", "%s generated the completions; the engine took %d new ones, and stood still for %.0fms at most",
			plural.Count(len(w.Versions), "version"), w.Swaps(), 1000*w.LongestStop())
	}
	if r.Restarts > 0 {
		row("restarts", "%d of the engine", r.Restarts)
	}
	if all && !vectors {
		row("peak pages", "%d of %d", r.PeakPages, r.Pages)
	}
	switch {
	case all:
		row("total time", "%s", cli.Seconds(r.TotalSeconds))
	case vectors:
		row("time", "%s, %s of it to start; %s rows/s, %.0f tokens/s", cli.Seconds(r.TotalSeconds),
			cli.Seconds(r.Engine.StartSeconds), cli.Rate(perSecond(r.RowsHere, r.Engine.WallSeconds)),
			r.PromptTokensPerSec)
	default:
		row("time", "%s, %s of it to start; %.0f tokens/s", cli.Seconds(r.TotalSeconds),
			cli.Seconds(r.Engine.StartSeconds),
			r.GeneratedTokensPerSec)
	}
	if r.Shard != "" {
		row("shard", "%s", r.Shard)
	}
	row("output", "%s", r.Output)
	table.Flush()
	for _, e := range r.Errors {
		fmt.Fprintf(w, "error: %s\n", visible.Line(e.Spell(cli.AsFlag)))
	}
	if more := r.RowsWithErrors - int64(len(r.Errors)); more > 0 {
		fmt.Fprintf(w, "error: %s\n", fmt.Sprintf("%d more %s", more, plural.Noun(more, "row"))+plural.Of(more, " has",
			" have")+" errors")
	}
}

func perSecond(n int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}
