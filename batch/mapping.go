package batch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/quire/quire/chat"
	"github.com/quire/quire/promptset"
)

// Names in job.json of what the prompts of rows are.
const (
	settingPromptColumn = "prompt_column"
	settingIDColumn     = "id_column"
	settingTemplate     = "template"
	settingSystem       = "system"
	settingPromptAs     = "prompt_as"
	settingPrefix       = "prefix" // its SHA-256
	settingPartitions   = "partitions"
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

// hasTemplate reports whether the job has a chat template; of the model by what its files have.
func (s *Spec) hasTemplate(model Identity) bool {
	return s.ChatTemplate != TemplateNone && (s.ChatTemplate != TemplateOfModel || model.Template)
}

// needTemplate refuses prompts as messages for a model without a chat template: each row would be an error.
func (s *Spec) needTemplate(model Identity) error {
	if s.PromptAs != PromptUser || s.hasTemplate(model) {
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
func warnOfRaw(ctx context.Context, t *Task, j *openedJob) {
	if !j.template || cmp.Or(t.PromptAs, PromptAuto) != PromptAuto || t.System != "" {
		return
	}
	if row, err := j.reader.Beside().FirstRaw(ctx, j.parts.Rows); err == nil && row != nil {
		t.tell(rawPrompts)
	}
}

const (
	// comparedRows is how many rows warnOfSame reads at most.
	comparedRows = 1000
	// fewestSame is how many rows with the same prompt are worth a warning.
	fewestSame = 3
)

// warnOfSame says once that all rows have the same prompt, as with a wrong column. Rows that
// differ in their parameters, or continue others, are meant so.
func warnOfSame(ctx context.Context, t *Task, j *openedJob) {
	var first *promptset.Row
	same := 0
	for row := range j.reader.Beside().Range(ctx, 0, min(j.parts.Rows, comparedRows)) {
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
	if j.parts.Rows > comparedRows {
		which = "the first"
	}
	t.tell(fmt.Sprintf("warning: %s %d rows have the same prompt: if that is not meant, give `prompt-column` or "+
		"`template` another column", which, same))
}

// readMapping reads what the job says of the prompts of rows.
func (t *Task) readMapping() error {
	m := promptset.Mapping{PromptColumn: t.PromptColumn, IDColumn: t.IDColumn, System: t.System,
		Chat:       t.PromptAs == PromptUser,
		Partitions: t.Partitions}
	if t.Template != "" {
		template, err := chat.ParsePrompt(t.Template)
		if err != nil {
			return wrong("template", "is no Jinja template: %v", err)
		}
		m.Template = template
	}
	if t.PrefixFile != "" {
		text, err := os.ReadFile(t.PrefixFile)
		switch {
		case err != nil:
			return fmt.Errorf("`prefix-file` is no file that can be read: %w", err)
		case len(text) == 0:
			return errors.New("`prefix-file` is empty: leave it out")
		case !utf8.Valid(text):
			return fmt.Errorf("`prefix-file` %s is not UTF-8: re-encode it as UTF-8", t.PrefixFile)
		}
		m.Prefix = string(text)
	}
	t.mapping = m
	return nil
}

// mappingSettings adds to the settings of a job what the prompts of rows are.
func (t *Task) mappingSettings(all map[string]any) {
	for name, value := range map[string]string{settingPromptColumn: t.PromptColumn, settingIDColumn: t.IDColumn,
		settingTemplate: t.Template, settingSystem: t.System} {
		if value != "" {
			all[name] = value
		}
	}
	if t.PromptAs == PromptUser && t.System == "" { // which makes prompts messages itself
		all[settingPromptAs] = t.PromptAs
	}
	if len(t.Partitions) > 0 { // which earlier versions had no columns of
		all[settingPartitions] = t.Partitions
	}
	if t.mapping.Prefix != "" {
		sum := sha256.Sum256([]byte(t.mapping.Prefix))
		all[settingPrefix] = "sha256:" + hex.EncodeToString(sum[:])
	}
}

// MappingOf is what a job's settings say of the prompts of rows. The text of a prefix is not in them, and another one
// stands for it.
func MappingOf(settings map[string]any) (promptset.Mapping, error) {
	text := func(name string) string {
		s, _ := settings[name].(string)
		return s
	}
	m := promptset.Mapping{PromptColumn: text(settingPromptColumn), IDColumn: text(settingIDColumn),
		System: text(settingSystem), Chat: text(settingPromptAs) == PromptUser,
		Prefix: text(settingPrefix)}
	if names, ok := settings[settingPartitions].([]any); ok {
		for _, name := range names {
			m.Partitions = append(m.Partitions, fmt.Sprint(name))
		}
	}
	if source := text(settingTemplate); source != "" {
		template, err := chat.ParsePrompt(source)
		if err != nil {
			return m, err
		}
		m.Template = template
	}
	return m, nil
}
