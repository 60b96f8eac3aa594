package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quire/quire/internal/pyjson"
)

func TestPromptTemplate(t *testing.T) {
	row := map[string]json.RawMessage{"question": json.RawMessage(`"Why?"`), "n": json.RawMessage(`3`),
		"choices": json.RawMessage(`["a","b"]`), "score": json.RawMessage(`1.5`), "nothing": json.RawMessage(`null`),
		"deep": json.RawMessage(`{"k": [1, true]}`), "big": json.RawMessage(`18446744073709551615`),
		"list": json.RawMessage(`["a", null]`), "zero": json.RawMessage(`-0.0`),
		"price": json.RawMessage("1.50" + pyjson.DecimalMark), "free": json.RawMessage("0.00" + pyjson.DecimalMark)}
	const remedy = "; {{... or ''}} prints nothing instead"
	for source, want := range map[string]string{
		"{{price}} {{price * 2}} {{[price] | tojson}}":          "1.50 3.0 [1.50]",
		"{{price == 1.5}} {{'y' if free}} {{price | round}}":    "True  2.0",
		"{{ 'a' if other }}{{ question ~ (' b' if other) }}":    "Why?",
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
		"{{big}} {{big + 1}}":                                   "18446744073709551615 18446744073709551616",
		"{{[big] | tojson}} {{zero}}":                           "[18446744073709551615] -0.0",
		"{{ question ~ nothing }}":                              "error: line 1: nothing is null",
		"{{ question ~ other }}":                                "error: line 1: other is missing",
		"{{ question }}\n{{ nothing | upper }}":                 "error: line 2: a value that becomes text is null",
		"{{ nothing | string }}{{ nothing | trim }}":            "error: line 1: a value that becomes text is null",
		"{{ list | join(' ') }}":                                "error: line 1: a value that becomes text is null",
		"{{ '%s' % nothing }}":                                  "error: line 1: a value that becomes text is null",
		"{{ '%s' | format(other) }}":                            "error: line 1: a value that becomes text is missing",
		"{{ '{}'.format(nothing) }}":                            "error: line 1: a value that becomes text is null",
		"{% set x = question ~ nothing %}{{ x }}":               "error: line 1: nothing is null",
		"{{ list | tojson }} {{ list }}":                        "[\"a\", null] ['a', None]",
		"{{ list | join(' ') if list[1] else list[0] }}":        "a",
		"{{range}}":           "error: line 1: range is missing",
		"{{ range | upper }}": "error: line 1: a value that becomes text is missing",
		"{% if range %}x{% endif %}{{ dict or 'no' }}": "no",
		"{% for i in range(2) %}{{i}}{% endfor %}":     "01",
		"{{ joiner() }}": "error: line 1: the expression is a function",
	} {
		p, err := ParsePrompt(source)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		got, err := p.Render(row)
		if err != nil {
			got = "error: " + strings.TrimSuffix(err.Error(), remedy)
			valueless := strings.HasSuffix(got, " is null") || strings.HasSuffix(got, " is missing")
			if strings.HasSuffix(err.Error(), remedy) != valueless {
				t.Errorf("%s: %v", source, err)
			}
		}
		if got != want {
			t.Errorf("%s:\n got %q\nwant %q", source, got, want)
		}
	}
	p, err := ParsePrompt("{{many}}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Render(map[string]json.RawMessage{"many": json.RawMessage(strings.Repeat("9", 5000))})
	if fmt.Sprint(err) != "many is too large: an integer has more than 4300 digits" {
		t.Errorf("error %v", err)
	}
	if _, err := ParsePrompt("{{question"); err == nil {
		t.Error("a template that does not end is parsed")
	}
}

func TestNamesOfPromptTemplates(t *testing.T) {
	for source, want := range map[string]string{"{{range}}{{joiner()}}": "range", "{{range(3)}}{{dict(a=x)}}": "x",
		"{{namespace | upper}}{% set cycler = 1 %}{{cycler}}": "namespace"} {
		p, err := ParsePrompt(source)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.Wants(), " "); got != want {
			t.Errorf("%s: it wants %s, not %s", source, got, want)
		}
	}
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
