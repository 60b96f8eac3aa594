package spec

import (
	"bytes"
	"os"
	"unicode/utf8"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/text/chat"
)

// checkPrompts checks the job's settings for the prompts of rows.
func (s *Spec) checkPrompts() error {
	if err := s.checkPromptAs(); err != nil {
		return err
	}
	if s.Template == "" {
		return nil
	}
	if s.PromptColumn != "" {
		return Invalid("template", "may not come with `prompt-column`: keep one")
	}
	template, err := chat.ParsePrompt(s.Template)
	switch {
	case err != nil:
		return Invalid("template", "is no Jinja template: %v", err)
	case len(template.Uses()) == 0:
		return Invalid("template",
			"is %q, which uses no column, so that all prompts are equal: write {{question}} for "+
				"the column question", s.Template)
	}
	return nil
}

// checkPromptAs checks what prompts are.
func (s *Spec) checkPromptAs() error {
	switch {
	case s.PromptAs == "":
	case s.PromptAs == PromptRaw && s.System != "":
		return Invalid("prompt-as", "is raw, and `system` makes each prompt the user's message: leave one of the two "+
			"out")
	case s.PromptAs == PromptUser && s.ChatTemplate == TemplateNone:
		return Invalid("prompt-as", "is user, which takes a chat template, and `chat-template` is none: leave one of "+
			"the two out")
	default:
		return oneOf("prompt-as", s.PromptAs, PromptAuto, PromptUser, PromptRaw)
	}
	return nil
}

// HasTemplate reports whether the job has a chat template. ofModel is whether the model's files have one.
func (s *Spec) HasTemplate(ofModel bool) bool {
	return s.ChatTemplate != TemplateNone && (s.ChatTemplate != TemplateOfModel || ofModel)
}

// systemOf returns the system message of prompts. For rankings it is an instruction, which is a part of the pairs.
func systemOf(task completion.Task, system string) string {
	if task == completion.Rerank {
		return ""
	}
	return system
}

// readMapping reads the job's settings for the prompts of rows.
func (j *Job) WithMapping() (*Job, error) {
	m := promptset.Mapping{PromptColumn: j.PromptColumn, IDColumn: j.IDColumn, System: systemOf(j.Task, j.System),
		Chat:       j.PromptAs == PromptUser,
		Partitions: j.Partitions, Reads: j.Task.Reads()}
	if j.Template != "" {
		template, err := chat.ParsePrompt(j.Template)
		if err != nil {
			return nil, Invalid("template", "is no Jinja template: %v", err)
		}
		m.Template = template
	}
	if j.PrefixFile != "" {
		text, err := os.ReadFile(j.PrefixFile)
		text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // a byte order mark is no text
		switch {
		case err != nil:
			return nil, setting.Errorf("`prefix-file` is no file that can be read: %w", err)
		case len(text) == 0:
			return nil, setting.Errorf("`prefix-file` is empty: leave it out")
		case !utf8.Valid(text):
			return nil, setting.Errorf("`prefix-file` %s is not UTF-8: re-encode it as UTF-8", j.PrefixFile)
		}
		m.Prefix = string(text)
	}
	next := *j
	next.Mapping = m
	return &next, nil
}
