package review

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/quire/quire/batch/check"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/data/vfs"
)

// EarlierOf summarizes the completions in an output, a folder or a file, from which [batch.Task.Check] estimates what
// to expect. An output without a good completion is an error.
func EarlierOf(ctx context.Context, files vfs.FS, output string) (*check.Earlier, error) {
	out, err := promptset.OpenPath(ctx, files, output)
	if err != nil {
		return nil, err
	}
	meta, err := out.Meta()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", output, err)
	}
	e := &check.Earlier{Output: output, Model: meta[completion.MetaModel], Lengths: map[int]int64{}}
	var counts tally.Counts
	for _, part := range out.Parts {
		for c, err := range out.Rows(ctx, part) {
			if err != nil {
				return nil, fmt.Errorf("%s: %w", output, partError(part, err))
			}
			counts.Completion(c.FinishReason, c.CompletionTokens, c.Err != "")
			if c.Err == "" {
				e.Lengths[c.CompletionTokens]++
			}
		}
	}
	if e.Completions = counts.Completions; e.Completions == 0 {
		return nil,
			fmt.Errorf(`%s has no completion without an error, and so tells no length to expect: "sample show" `+
				"prints its errors; name the output of a job that has completions", output)
	}
	e.LengthShare = float64(counts.FinishReasons.Length) / float64(e.Completions)
	e.MeanTokens = lengths(e.Lengths).spread().Mean
	if info, err := storage.Stat(ctx, output); err != nil || !info.Folder {
		return e, err
	}
	work, err := process.WorkFolder(output, "")
	if err != nil {
		return nil, err
	}
	drew, err := processes(files, filepath.Join(work, jobstate.Folder))
	e.TokensPerSecond = rateOf(drew)
	return e, err
}

// rateOf is how many tokens of completions the processes of a job generated in a second, of the time in which one or
// several of them generated: from when an engine was ready to the first point of its series with all of its tokens.
// Processes are in order of their starts. The rate is 0 if it is not known.
func rateOf(all []telemetry.Process) float64 {
	var tokens int64
	var drawing time.Duration
	var until time.Time
	for _, p := range all {
		if len(p.Points) == 0 {
			continue
		}
		first, last := p.Points[0], p.Points[len(p.Points)-1]
		ready, before := first.Seconds, first.CompletionTokens // if it was killed, its start is unknown
		if p.End != nil {
			ready, before = last.Seconds-p.End.Time.Sub(p.Start.Time).Seconds(), 0
		}
		done := slices.IndexFunc(p.Points, func(point telemetry.Point) bool {
			return point.CompletionTokens == last.CompletionTokens
		})
		tokens += last.CompletionTokens - before
		from := p.Start.Time
		to := from.Add(time.Duration((p.Points[done].Seconds - ready) * float64(time.Second)))
		if from.Before(until) {
			from = until
		}
		if to.After(from) {
			drawing += to.Sub(from)
			until = to
		}
	}
	if drawing <= 0 {
		return 0
	}
	return float64(tokens) / drawing.Seconds()
}
