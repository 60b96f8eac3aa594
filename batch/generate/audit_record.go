package generate

import (
	"context"
	"slices"

	"github.com/quire/quire/batch/conversation"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
)

// record has what commands answered when an output was made, so that an audit asks none. A nil record has nothing.
type record struct {
	answers  map[tools.Place]string
	verdicts verdict.Recorded
}

func newRecord() *record {
	return &record{answers: map[tools.Place]string{}, verdicts: verdict.Recorded{}}
}

// verifier returns the verifier that has the verdicts of a command; nil if there is no command or no record: then
// verdicts follow from the completions.
func (r *record) verifier(settings *verdict.Settings) verdict.Verifier {
	if r == nil || settings.Command == "" {
		return nil
	}
	return r.verdicts
}

// tools returns what answers calls as the record has it.
func (r *record) tools(settings *tools.Settings) *conversation.Tools {
	return &conversation.Tools{Calls: tools.Recorded(r.answers), Settings: settings}
}

// add adds the answers to a completion.
func (r *record) add(row *promptset.Row, result *completion.Result) error {
	r.verdicts.Add(row.Index, result.Generation,
		verdict.Verdict{Accepted: result.Judgment == completion.Accepted, Text: result.Verdict})
	if result.Messages == "" {
		return nil
	}
	return conversation.AddAnswers(r.answers, row, result)
}

// readRecord reads what the output has of rows whose completions call tools or are judged, and what commands answered,
// and of rows of which some continue others. Rows with errors, or whose parents can't be read, are not audited.
func (a *auditor) readRecord(ctx context.Context, g *Generator, u *Unit, saved *resume.Saved, chosen []int64) error {
	part := resume.PublishedResults{Saved: saved, Reader: g.Opened.Reader.Beside(), Parameters: u.builder.Parameters,
		Whole: true, Wanted: func(row int64) bool { return slices.Contains(chosen, row) }}
	for row := range rowsAt(ctx, g.Opened.Reader, chosen) {
		results, err := part.RowResults(ctx, row.Index)
		if err == nil && slices.ContainsFunc(results, func(r completion.Result) bool { return r.Err != "" }) {
			a.Without++
			continue
		}
		if _, lacks := u.ancestry.parentOf(ctx, row); lacks != nil {
			a.Without++
			continue
		}
		for i := 0; err == nil && i < len(results); i++ {
			err = g.record.add(row, &results[i])
		}
		if err != nil { // the part is not what the job wrote
			a.Differ = append(a.Differ, row.ID)
			a.Audited.Audited++
			continue
		}
		a.want[row.Index] = results
	}
	return g.Opened.Reader.Err()
}
