package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestPromptTemplate(t *testing.T) {
	row := map[string]json.RawMessage{"question": json.RawMessage(`"Why?"`), "n": json.RawMessage(`3`),
		"choices": json.RawMessage(`["a","b"]`), "score": json.RawMessage(`1.5`), "nothing": json.RawMessage(`null`),
		"deep": json.RawMessage(`{"k": [1, true]}`)}
	for source, want := range map[string]string{
		"Question: {{question}}\nAnswer:":                       "Question: Why?\nAnswer:",
		"{{ question | upper }} {{n + 1}}":                      "WHY? 4",
		"{{score}} {{deep.k[1]}} {{deep}}":                      "1.5 True {'k': [1, True]}",
		"{{choices | join(', ')}}":                              "a, b",
		"{% if nothing %}x{% endif %}plain":                     "plain",
		"{{ nothing or 'none' }}":                               "none",
		"{{ other | default('given') }}":                        "given",
		"{% set q = question %}{{q}}":                           "Why?",
		"plain {braces} and no names":                           "plain {braces} and no names",
		"{{nothing}}":                                           "error: line 1: nothing is null",
		"a\n{{other}}":                                          "error: line 2: other is missing",
		"{{deep.missing}}":                                      "error: line 1: the expression is missing",
		"{{raise_exception('no ' ~ n)}}":                        "error: no 3",
		"{% for c in choices %}{{loop.index}}{{c}}{% endfor %}": "1a2b",
	} {
		p, err := ParsePrompt(source)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		got, err := p.Render(row)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s:\n got %q\nwant %q", source, got, want)
		}
	}
	if _, err := ParsePrompt("{{question"); err == nil {
		t.Error("a template that does not end is parsed")
	}
}

func TestNamesOfPromptTemplates(t *testing.T) {
	p, err := ParsePrompt("{{a.b}}{% set c = d %}{{c}}{% for e in range(f) %}{{loop.index}}{{e}}{% endfor %}" +
		"{{g['h'] | tojson}}")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Wants(), " "); got != "a d f g" {
		t.Errorf("it wants %s", got)
	}
	if got := fmt.Sprint(p.Uses()); got != "[a c d e f g loop range]" {
		t.Errorf("it uses %s", got)
	}
}
