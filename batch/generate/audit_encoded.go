package generate

import (
	"context"
	"slices"

	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
)

// readEncoded reads what the output has of rows of an encoder's task, which have no keys. Rows with errors are not
// audited.
func (a *auditor) readEncoded(ctx context.Context, saved *resume.Saved, chosen []int64) error {
	out, err := promptset.OpenOutput(folder.OpenToRead(ctx, saved.FS, saved.Job.Output))
	if err != nil {
		return err
	}
	for _, part := range out.Parts {
		from, to := saved.Parts.Range(part.Number)
		if !slices.ContainsFunc(chosen, func(row int64) bool { return from <= row && row < to }) {
			continue
		}
		row := from - 1
		for c, err := range out.Rows(ctx, part) {
			if err != nil {
				return err
			}
			if c.Generation == 0 { // of the first prompt of the next row
				row++
			}
			if _, found := slices.BinarySearch(chosen, row); found {
				b, _ := c.Result.AppendBinary(nil)
				var own completion.Result // c is valid until the next one is read
				if err := own.UnmarshalBinary(b); err != nil {
					return err
				}
				a.want[row] = append(a.want[row], own)
			}
		}
	}
	for _, row := range chosen {
		if slices.ContainsFunc(a.want[row], func(r completion.Result) bool { return r.Err != "" }) {
			delete(a.want, row)
		}
		if a.want[row] == nil {
			a.Without++
		}
	}
	return nil
}

// asEncoded are results of an encoder's task without what the output has no column for.
func (a *auditor) asEncoded(results []completion.Result) (all []completion.Result) {
	for _, r := range results {
		r.FinishReason = ""
		if !slices.Contains(a.columns, "token_labels") {
			r.TokenLabels = nil
		}
		if slices.Contains(a.excluded, "truncated") {
			r.Truncated = false
		}
		all = append(all, r)
	}
	return all
}

// asAnswered are results of an encoder's task as answers to batch files have them: with the tokens of all prompts, and
// the scores of the documents that a ranking has. Answers to lines of /v1/score have no ranking.
func asAnswered(results []completion.Result, tokens int, ranked bool) (all []completion.Result) {
	for _, r := range results {
		one := completion.Result{Generation: r.Generation, Label: r.Label, Vector: r.Vector, PromptTokens: tokens}
		if ranked {
			one.Ranking = r.Ranking
		}
		if ranked && len(r.Ranking) < len(r.Vector) {
			one.Vector = nil
			for _, number := range slices.Sorted(slices.Values(r.Ranking)) {
				one.Vector = append(one.Vector, r.Vector[number])
			}
		}
		tokens = 0 // the first result counts the tokens of all
		all = append(all, one)
	}
	return all
}
