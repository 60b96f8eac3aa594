package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
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
	settingPrefix       = "prefix" // its SHA-256
	settingPartitions   = "partitions"
)

// checkPrompts checks what the job says of the prompts of rows.
func (s *Spec) checkPrompts() error {
	if s.Template == "" {
		return nil
	}
	if s.PromptColumn != "" {
		return wrong("template", "may not come with `prompt-column`: keep one")
	}
	if _, err := chat.ParsePrompt(s.Template); err != nil {
		return wrong("template", "is no Jinja template: %v", err)
	}
	return nil
}

// readMapping reads what the job says of the prompts of rows.
func (t *Task) readMapping() error {
	m := promptset.Mapping{PromptColumn: t.PromptColumn, IDColumn: t.IDColumn, System: t.System,
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
		System: text(settingSystem), Prefix: text(settingPrefix)}
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
