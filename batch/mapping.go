package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/quire/quire/chat"
	"github.com/quire/quire/promptset"
)

// checkPrompts checks what the job says of the prompts of rows.
func (s *Spec) checkPrompts() error {
	if err := s.checkPromptAs(); err != nil {
		return err
	}
	if s.Template == "" {
		return nil
	}
	if s.PromptColumn != "" {
		return wrong("template", "may not come with `prompt-column`: keep one")
	}
	template, err := chat.ParsePrompt(s.Template)
	switch {
	case err != nil:
		return wrong("template", "is no Jinja template: %v", err)
	case len(template.Uses()) == 0:
		return wrong("template", "is %q, which uses no column, so that all prompts are equal: write {{question}} for "+
			"the column question", s.Template)
	}
	return nil
}

// checkPromptAs checks what prompts are.
func (s *Spec) checkPromptAs() error {
	switch {
	case s.PromptAs == "":
	case s.PromptAs == PromptRaw && s.System != "":
		return wrong("prompt-as", "is raw, and `system` makes each prompt the user's message: leave one of the two "+
			"out")
	case s.PromptAs == PromptUser && s.ChatTemplate == TemplateNone:
		return wrong("prompt-as", "is user, which takes a chat template, and `chat-template` is none: leave one of "+
			"the two out")
	default:
		return oneOf("prompt-as", s.PromptAs, PromptAuto, PromptUser, PromptRaw)
	}
	return nil
}

// hasTemplate reports whether the job has a chat template. ofModel is whether the model's files have one.
func (s *Spec) hasTemplate(ofModel bool) bool {
	return s.ChatTemplate != TemplateNone && (s.ChatTemplate != TemplateOfModel || ofModel)
}

// needTemplate refuses prompts as messages for a model without a chat template: each row would be an error.
func (s *Spec) needTemplate(model Identity) error {
	if s.PromptAs != PromptUser || s.hasTemplate(model.Template) {
		return nil
	}
	return endWith(Misused, "`prompt-as` is user, which takes a chat template, and the model %s has none: give "+
		"`chat-template` FILE, or `prompt-as` raw", s.Model)
}

// rawPrompts warns of prompts as raw text if no flag asks for them.
const rawPrompts = "warning: each prompt is sent as raw text, and the model has a chat template: give `prompt-as` " +
	"user to send it as the user's message, or `prompt-as` raw to leave it as it is"

// warnOfRaw says once that a job's prompts are raw text though its model has a chat template, unless a flag says what
// they are. What is wrong with a row that cannot be read is said when it is.
func warnOfRaw(ctx context.Context, p *Process, opened *Opened) {
	j := opened.job
	if !j.hasTemplate(opened.model.Template) || cmp.Or(j.PromptAs, PromptAuto) != PromptAuto || j.System != "" {
		return
	}
	if row, err := opened.reader.Beside().FirstRaw(ctx, opened.parts.Rows); err == nil && row != nil {
		p.tell(rawPrompts)
	}
}

const (
	// comparedRows is how many rows warnOfSame reads at most.
	comparedRows = 1000
	// fewestSame is how many rows with the same prompt are worth a warning.
	fewestSame = 3
)

// warnOfSame warns once if all rows have the same prompt, as with a wrong column. Rows that differ in their parameters
// or continue others are intended.
func warnOfSame(ctx context.Context, p *Process, opened *Opened) {
	var first *promptset.Row
	same := 0
	for row := range opened.reader.Beside().Range(ctx, 0, min(opened.parts.Rows, comparedRows)) {
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
	if opened.parts.Rows > comparedRows {
		which = "the first"
	}
	p.tell("warning: %s %d rows have the same prompt: if that is not meant, give `prompt-column` or `template` "+
		"another column", which, same)
}

// readMapping reads what the job says of the prompts of rows.
func (j *Job) withMapping() (*Job, error) {
	m := promptset.Mapping{PromptColumn: j.PromptColumn, IDColumn: j.IDColumn, System: j.System,
		Chat:       j.PromptAs == PromptUser,
		Partitions: j.Partitions}
	if j.Template != "" {
		template, err := chat.ParsePrompt(j.Template)
		if err != nil {
			return nil, wrong("template", "is no Jinja template: %v", err)
		}
		m.Template = template
	}
	if j.PrefixFile != "" {
		text, err := os.ReadFile(j.PrefixFile)
		switch {
		case err != nil:
			return nil, fmt.Errorf("`prefix-file` is no file that can be read: %w", err)
		case len(text) == 0:
			return nil, errors.New("`prefix-file` is empty: leave it out")
		case !utf8.Valid(text):
			return nil, fmt.Errorf("`prefix-file` %s is not UTF-8: re-encode it as UTF-8", j.PrefixFile)
		}
		m.Prefix = string(text)
	}
	next := *j
	next.mapping = m
	return &next, nil
}
