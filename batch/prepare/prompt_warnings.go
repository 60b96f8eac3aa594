package prepare

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
)

// RawPromptWarning warns of prompts as raw text if no flag asks for them.
const RawPromptWarning = "warning: each prompt is sent as raw text, and the model has a chat template: give " +
	"`prompt-as` " +
	"user to send it as the user's message, or `prompt-as` raw to leave it as it is"

// warnAboutRawPrompts warns once that a job's prompts are raw text though its model has a chat template, unless a flag
// sets what they are. A row that cannot be read is reported when it is read.
func warnAboutRawPrompts(ctx context.Context, p *process.Process, opened *Opened) {
	j := opened.Job
	if j.Encodes() || !j.HasTemplate(opened.Model.Template) || cmp.Or(j.PromptAs, spec.PromptAuto) != spec.PromptAuto ||
		j.System != "" {
		return
	}
	if row, err := opened.Reader.Beside().FirstRaw(ctx, opened.Parts.Rows); err == nil && row != nil {
		p.Printf(RawPromptWarning)
	}
}

const (
	// comparedRows is how many rows warnOfSame reads at most.
	comparedRows = 1000
	// fewestSame is how many rows with the same prompt are worth a warning.
	fewestSame = 3
)

// warnAboutEqualPrompts warns once if all rows have the same prompt, as with a wrong column. Rows that differ in their
// parameters or continue others are intended.
func warnAboutEqualPrompts(ctx context.Context, p *process.Process, opened *Opened) {
	var first *promptset.Row
	same := 0
	for row := range opened.Reader.Beside().Range(ctx, 0, min(opened.Parts.Rows, comparedRows)) {
		switch {
		case row.Err != nil:
			continue
		case first == nil:
			first = row
		}
		if row.Kind != promptset.KindText && row.Kind != promptset.KindMessages || row.Parent.ID != "" ||
			row.Prompt != first.Prompt || !slices.Equal(row.Messages, first.Messages) ||
			!reflect.DeepEqual(row.Overrides, first.Overrides) {
			return
		}
		same++
	}
	if same < fewestSame {
		return
	}
	which := "all"
	if opened.Parts.Rows > comparedRows {
		which = "the first"
	}
	p.Printf("warning: %s %d rows have the same prompt: if that is not meant, give `prompt-column` or `template` "+
		"another column", which, same)
}
