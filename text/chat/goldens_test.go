package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// golden is a case of testdata/goldens.json, rendered by transformers (see
// scripts/oracle/chat_goldens.py).
type golden struct {
	Template            string
	Source              string
	Messages            []Message
	AddGenerationPrompt bool   `json:"add_generation_prompt"`
	BOS                 string `json:"bos_token"`
	EOS                 string `json:"eos_token"`
	Continue            bool   `json:"continue_final_message"`
	Tools, Documents    json.RawMessage
	Variables           json.RawMessage
	Text                *string
	Error               string
	Kind                string
}

func goldens(t testing.TB) []golden {
	t.Helper()
	data, err := os.ReadFile("testdata/goldens.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []golden
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	now = func() time.Time { return time.Date(2025, 3, 7, 9, 5, 4, 0, time.UTC) }
	t.Cleanup(func() { now = time.Now })
	return cases
}

func (g *golden) special() map[string]string {
	special := map[string]string{}
	for name, text := range map[string]string{"bos_token": g.BOS, "eos_token": g.EOS} {
		if text != "" {
			special[name] = text
		}
	}
	return special
}

func (g *golden) render() (string, error) {
	template, err := Parse(g.Source)
	if err != nil {
		return "", err
	}
	return g.with(template)
}

func (g *golden) with(template *Template) (string, error) {
	return template.Render(g.Messages, Options{AddGenerationPrompt: g.AddGenerationPrompt, Special: g.special(),
		ContinueFinalMessage: g.Continue, Tools: string(g.Tools), Documents: string(g.Documents),
		Variables: string(g.Variables)})
}

// TestModelTemplates renders the templates of the model families as
// transformers does, byte for byte.
func TestModelTemplates(t *testing.T) {
	rendered := 0
	for i, g := range goldens(t) {
		if g.Template == "" {
			continue
		}
		source, err := os.ReadFile(filepath.Join("testdata/templates", g.Template))
		if err != nil {
			t.Fatal(err)
		}
		g.Source = string(source)
		got, err := g.render()
		var raised *RaisedError
		switch {
		case g.Text != nil && (err != nil || got != *g.Text):
			t.Errorf("case %d, %s:\n got %q, %v\nwant %q", i, g.Template, got, err, *g.Text)
		case g.Kind == "TemplateError" && (!errors.As(err, &raised) || raised.Message != g.Error),
			g.Text == nil && err == nil:
			t.Errorf("case %d, %s: error %v, want a RaisedError %q", i, g.Template, err, g.Error)
		}
		rendered++
	}
	if rendered < 600 {
		t.Errorf("only %d cases", rendered)
	}
}

// TestJinja renders single features of the language as transformers does.
func TestJinja(t *testing.T) {
	for _, g := range goldens(t) {
		if g.Template != "" {
			continue
		}
		got, err := g.render()
		same := g.Text != nil && err == nil && got == *g.Text || g.Text == nil && err != nil
		switch {
		case g.Text != nil && !same:
			t.Errorf("%q:\n got %q, %v\nwant %q", g.Source, got, err, *g.Text)
		case !same:
			t.Errorf("%q: no error but %q, want %s", g.Source, got, g.Error)
		case err != nil && (len(err.Error()) > 400 || !strings.HasPrefix(err.Error(), "chat template") &&
			!strings.Contains(err.Error(), "refuses")):
			t.Errorf("%q: unclear error %v", g.Source, err)
		}
	}
}
