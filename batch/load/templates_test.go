package load

import (
	"fmt"
	"testing"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/text/tokenizer"
)

// TestOpenTemplates: a model's own template that is broken concerns rows with messages only, and tools may have one of
// their own.
func TestOpenTemplates(t *testing.T) {
	tok, err := tokenizer.Open("../../text/tokenizer/testdata/llama3")
	if err != nil {
		t.Fatal(err)
	}
	row := []promptset.Message{{Role: "user", Content: "a"}}
	const broken, why = "{% if %}", "chat template: line 1: expected an expression, got the end of the statement"
	for _, c := range []struct{ of, template, tools, opened, noTemplate, plain, called string }{
		{spec.TemplateOfModel, "{{ bos_token }}", "{{ tools | length }}", "<nil>", "<nil>", "<|begin_of_text|>", "0"},
		{spec.TemplateOfModel, broken, broken, "<nil>", "the model's own " + why + "; give `chat-template` FILE", "",
			""},
		{spec.TemplateOfModel, "", "{{ tools | length }}", "<nil>", "<nil>",
			"the model has a chat template for conversations with tools only: give `chat-template` FILE", "0"},
		{"x.jinja", broken, broken, "the chat template of `chat-template` x.jinja: " + why, "<nil>", "", ""},
	} {
		s := &process.Session{}
		job := &spec.Job{Spec: spec.Spec{ChatTemplate: c.of}}
		if got := fmt.Sprint(openTemplates(s, job, tok, c.template, c.tools)); got != c.opened {
			t.Errorf("%q: error %s, want %s", c.template, got, c.opened)
		}
		if got := fmt.Sprint(s.NoTemplate); got != c.noTemplate {
			t.Errorf("%q: no template because %s, want %s", c.template, got, c.noTemplate)
		}
		if s.Render == nil {
			continue
		}
		for tools, want := range map[string]string{"": c.plain, "[]": c.called} {
			var set parameter.Set
			set.Tools = parameter.ListJSON(tools)
			text, err := s.Render(row, &set)
			if err != nil {
				text = err.Error()
			}
			if text != want {
				t.Errorf("%q: %q, want %q", c.template, text, want)
			}
		}
	}
}
