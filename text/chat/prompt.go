package chat

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quire/quire/text/chat/jinja"
)

// PromptTemplate renders prompts from rows, whose columns are its variables. It is safe for concurrent use.
type PromptTemplate struct {
	t           *jinja.Template
	uses, wants []string
}

// ParsePrompt parses a prompt template.
func ParsePrompt(source string) (*PromptTemplate, error) {
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, err
	}
	return &PromptTemplate{t, t.Uses(), t.Wants()}, nil
}

// Uses returns the names that may be columns.
func (p *PromptTemplate) Uses() []string { return p.uses }

// Wants returns the names that must be columns.
func (p *PromptTemplate) Wants() []string { return p.wants }

// Render returns the prompt of a row, given its columns as JSON by name. Columns that the row lacks are undefined.
// Printing a null or missing one is an error.
func (p *PromptTemplate) Render(columns map[string]json.RawMessage) (string, error) {
	vars := make(map[string]any, len(columns))
	for name, raw := range columns {
		v, err := value(raw)
		if err != nil {
			return "", fmt.Errorf("%s is %w", name, err)
		}
		vars[name] = v
	}
	text, err := p.t.RenderStrictly(vars, limits)
	if raised := (*jinja.RaisedError)(nil); errors.As(err, &raised) {
		return "", errors.New(raised.Message)
	}
	return text, err
}
