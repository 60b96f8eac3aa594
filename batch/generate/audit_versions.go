package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// checkVersions refuses to audit a job whose weights may change and whose output does not name the weights.
func checkVersions(j *spec.Job, schema *promptset.Schema) error {
	if j.OnSwap == "" {
		return nil
	}
	has := func(name string) bool { return slices.Contains(j.ColumnsOf(schema), name) }
	switch several := has("weights_versions") && has("weights_starts"); {
	case several, j.OnSwap != engine.Continue && (has("weights_version") || has("weights_versions")):
		return nil
	}
	return outcome.Errorf(outcome.Misused, "the weights of the job change, and the output has no columns "+
		"weights_versions and weights_starts: it can't be audited")
}

// auditVersions generates chosen rows again with the weights that the output names. Rows of versions that are not there
// any more are not audited.
func (a *auditor) auditVersions(ctx context.Context, g *Generator, u *Unit, saved *resume.Saved, chosen []int64) error {
	sampler, ok := g.Session.Sampler.(replayer)
	if !ok || g.Session.Checkpoint == nil {
		return errors.New("this engine cannot take other weights")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer g.Active.whenFailed(cancel)()
	earlier := g.watcher.Earlier(g.Session)
	defer earlier.Close()
	if err := earlier.FindAll(ctx); err != nil {
		return err
	}
	part := resume.PublishedResults{Saved: saved, Reader: g.Opened.Reader.Beside(), Parameters: u.builder.Parameters,
		Whole: true, Wanted: func(row int64) bool { return slices.Contains(chosen, row) }}
	var requests []*engine.Request
	rows, got := map[*engine.Request]*pendingRow{}, map[*pendingRow][]completion.Result{}
	for row := range rowsAt(ctx, g.Opened.Reader, chosen) {
		results, err := part.RowResults(ctx, row.Index)
		for i := 0; err == nil && i < len(results); i++ {
			err = g.record.add(row, &results[i])
		}
		if err != nil { // the part is not what the job wrote
			a.Differ = append(a.Differ, row.ID)
			a.Audited.Audited++
			continue
		}
		p := &pendingRow{row: row, results: results}
		from, err := u.ancestry.parentOf(ctx, row)
		if err == nil {
			p.requests, err = u.builder.Requests(row, from)
		}
		if err != nil || slices.ContainsFunc(results, func(r completion.Result) bool { return r.Err != "" }) {
			a.Without++
			continue
		}
		again, missing := requestsOfVersions(p, earlier.Has)
		if missing != "" {
			if a.Missing == nil {
				a.Missing = map[string]int64{}
			}
			a.Missing[missing]++
			continue
		}
		for _, r := range again {
			rows[r] = p
		}
		requests, got[p] = append(requests, again...), nil
	}
	if err := g.Opened.Reader.Err(); err != nil {
		return err
	}
	for c, err := range sampler.Replay(ctx, slices.Values(requests), earlier.Open) {
		if err == nil && errors.Is(c.Err, engine.ErrSeveralVersions) {
			err = c.Err
		}
		if err != nil {
			return err
		}
		p := rows[c.Request]
		got[p] = append(got[p], u.Out.results.Of(p.row, c))
	}
	for p, results := range got {
		slices.SortFunc(results, func(a, b completion.Result) int { return cmp.Compare(a.Generation, b.Generation) })
		most := u.builder.Parameters(p.row).N * (1 + len(p.row.More))
		ends, err := u.Out.judging.again(ctx, p.row, most, results)
		if err != nil {
			return cmp.Or(g.Active.failed(), err)
		}
		for _, list := range [][]completion.Result{results, p.results} { // the requests had the versions of the output
			for i := range list {
				list[i].WeightsVersions, list[i].WeightsStarts = nil, nil
			}
		}
		if a.Audited.Audited++; !ends || !reuse.Same(results, p.results, a.excluded) {
			a.Differ = append(a.Differ, p.row.ID)
		}
	}
	slices.Sort(a.Differ)
	return ctx.Err()
}

// again gives the completions of a row their verdicts, if they have some, and reports whether the row ends with the
// last one. The row has at most so many.
func (j *judging) again(ctx context.Context, row *promptset.Row, most int, results []completion.Result) (ends bool,
	err error) {
	if j == nil {
		return true, nil
	}
	told := make(chan struct{}, len(results))
	for i := range results {
		r := &results[i]
		j.judge.Submit(question(row, r), func(v verdict.Verdict, err error) {
			j.note(r, v, err)
			told <- struct{}{}
		})
	}
	for range results {
		select {
		case <-told:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	rule := verdict.NewRule(j.settings, most)
	ends = rule.Decided(results) == len(results)
	rule.Conclude(results)
	return ends, nil
}

// requestsOfVersions makes the requests for the completions that an output has of a row, with their versions. It
// returns the first version that is not there, if there is one.
func requestsOfVersions(p *pendingRow, has func(version string) bool) (requests []*engine.Request, missing string) {
	for _, result := range p.results {
		r := *p.requestOf(result.Generation)
		r.FirstGeneration, r.N = result.Generation, 1
		for i, version := range result.WeightsVersions {
			if !has(version) {
				return nil, version
			}
			first := 0
			if i < len(result.WeightsStarts) {
				first = int(result.WeightsStarts[i])
			}
			r.Weights = append(r.Weights, engine.WeightsRun{First: first, Version: version})
		}
		requests = append(requests, &r)
	}
	return requests, ""
}

// MissingVersions describes the versions that were missing, in order.
func (a *Audited) MissingVersions() (lines []string) {
	for version, rows := range a.Missing {
		lines = append(lines, fmt.Sprintf("weights %.12s, of %d chosen rows", version, rows))
	}
	slices.Sort(lines)
	return lines
}
