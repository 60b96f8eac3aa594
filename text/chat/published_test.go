package chat

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/text/chat/reply"
)

// published is testdata/published.json: how transformers renders published templates, which are not committed (see
// scripts/oracle/template_goldens.py).
type published struct {
	Cases     []golden
	Templates []publishedTemplate
}

type publishedTemplate struct {
	Name, SHA256 string
	Parts, Null  bool
	ArgumentText bool     `json:"argument_text"`
	Results      []string // of each case: see result in template_goldens.py; of a text its hash
}

func readPublished(t *testing.T) (p published) {
	t.Helper()
	data, err := os.ReadFile("testdata/published.json")
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Cases {
		p.Cases[i].BOS, p.Cases[i].EOS = "<s>", "</s>"
	}
	return p
}

// differ are templates that render otherwise than by transformers where tools are given.
var differ = map[string]string{
	"llama-cpp-deepseek-r1":           "tojson of what map makes fails in Python",
	"meetkai-functionary-medium-v3.1": "text + text|safe is escaped in Python",
}

// TestPublishedTemplates renders 176 templates as transformers does, if scripts/oracle/collect_templates.py has
// collected them, except the tool cases of two. If Quire refuses a message, there is nothing to compare.
func TestPublishedTemplates(t *testing.T) {
	p := readPublished(t)
	now = func() time.Time { return time.Date(2025, 3, 7, 9, 5, 4, 0, time.UTC) }
	t.Cleanup(func() { now = time.Now })
	texts := map[string][]string{} // whole ones, to look at what differs
	if data, err := os.ReadFile(os.Getenv("QUIRE_TEMPLATE_TEXTS")); err == nil {
		if err := json.Unmarshal(data, &texts); err != nil {
			t.Fatal(err)
		}
	}
	rendered := 0
	for _, of := range p.Templates {
		t.Run(of.Name, func(t *testing.T) {
			source := of.read(t)
			template, err := Parse(source)
			if err != nil {
				t.Fatal(err)
			}
			if m := template.manners(); m != (manners{of.Parts, of.Null, of.ArgumentText}) {
				t.Errorf("takes parts, null, argument text: %v, want %v %v %v", m, of.Parts, of.Null, of.ArgumentText)
			}
			for i, want := range of.Results {
				rendered++
				text, err := p.Cases[i].with(template)
				if got := resultOf(text, err); got != want && (differ[of.Name] == "" || len(p.Cases[i].Tools) == 0) {
					if whole := texts[of.Name]; whole != nil {
						want = whole[i]
					}
					t.Errorf("case %d: %s, %v\n got %q\nwant %q", i, got, err, text, want)
				}
			}
		})
	}
	if rendered > 0 && rendered < 10_000 {
		t.Errorf("only %d cases", rendered)
	}
}

// read returns the template's source, and skips the test where it is not collected.
func (of *publishedTemplate) read(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("QUIRE_CACHE")
	if user, err := os.UserCacheDir(); cache == "" && err == nil {
		cache = filepath.Join(user, "quire")
	}
	source, err := os.ReadFile(filepath.Join(cache, "templates", of.Name+".jinja"))
	if err != nil {
		t.Skip("run scripts/oracle/collect_templates.py")
	}
	if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != of.SHA256 {
		t.Skip("collected in another version")
	}
	return string(source)
}

// resultOf is what published.json has for a text, or an error.
func resultOf(text string, err error) string {
	var raised *RaisedError
	switch {
	case err == nil:
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:6])
	case errors.As(err, &raised):
		return "!" + raised.Message
	}
	for _, refusal := range []string{"the chat template takes no", "has no variable for", "nothing that the chat"} {
		if strings.Contains(err.Error(), refusal) {
			return "-"
		}
	}
	return "?"
}

// TestPublishedForms parses the tool calls and the reasoning that published templates write, in the format that is
// found for each: testdata/forms.txt. A "-" is none, and "~" precedes a format that the template itself does not
// write in any message, or writes in a different way.
func TestPublishedForms(t *testing.T) {
	data, err := os.ReadFile("testdata/forms.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, forms, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[name] = strings.Join(strings.Fields(forms), " ")
	}
	for _, of := range readPublished(t).Templates {
		t.Run(of.Name, func(t *testing.T) {
			source := of.read(t)
			template, err := Parse(source)
			if err != nil {
				t.Fatal(err)
			}
			if got := found(t, source, template); got != want[of.Name] {
				t.Errorf("forms are\n%s %s\nwant %s", of.Name, got, want[of.Name])
			}
		})
	}
}

const (
	publishedCalls = `[{"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": ` +
		`{"place": "Zürich \"HB\", {1}", "days": 2, "deep": {"b": [1.5, true], "a": {}}, "on": false}}}]`
	publishedTools = `[{"type": "function", "function": {"name": "weather", "description": "It.", "parameters": ` +
		`{"type": "object", "properties": {"place": {"type": "string"}, "days": {"type": "integer"}, "deep": ` +
		`{"type": "object"}, "on": {"type": "boolean"}}}}}]`
)

// completion returns what a template writes after its generation prompt for an answer with these members.
func completion(template *Template, members, tools string) (prompt, text string) {
	messages := []Message{{Role: "user", Content: "How warm?"}}
	if !template.mentions("tools") {
		tools = ""
	}
	prompt, err := template.Render(messages, Options{AddGenerationPrompt: true, Tools: tools, Special: ends})
	if err != nil {
		return "", ""
	}
	answer := Message{Object: json.RawMessage(`{"role": "assistant", ` + members + `}`)}
	whole, err := template.Render(append(messages, answer), Options{Tools: tools, Special: ends})
	if err != nil {
		return "", ""
	}
	n := 0
	for n < min(len(prompt), len(whole)) && prompt[n] == whole[n] {
		n++
	}
	at := strings.LastIndexAny(whole[:n], "<[")
	if n < len(prompt) && at >= 0 && !strings.ContainsAny(whole[at:n], ">]") {
		n = at // the prompt ends with another mark that begins alike
	}
	return prompt, strings.TrimSpace(whole[n:])
}

// found are the forms of a template, each with what it reads of the template's own text.
func found(t *testing.T, source string, template *Template) string {
	forms, err := reply.New(reply.Auto, reply.Auto, source)
	if err != nil {
		t.Fatal(err)
	}
	reasoning, calls := forms.Names()
	if reasoning != "" && !readsReasoning(forms.WithoutCalls(), template) {
		reasoning = "~" + reasoning
	}
	if calls != "" && !readsCalls(t, &forms, template) {
		calls = "~" + calls
	}
	return strings.TrimSuffix(cmp.Or(reasoning, "-")+" "+cmp.Or(calls, "-"), "- -")
}

func readsReasoning(forms reply.Forms, template *Template) bool {
	prompt, text := completion(template, `"content": "Warm.", "reasoning_content": "I looked."`, "")
	parsed := forms.Parse(text, forms.Opens(prompt), "")
	return strings.TrimSpace(parsed.Reasoning) == "I looked." && strings.HasPrefix(parsed.Text, "Warm.")
}

func readsCalls(t *testing.T, forms *reply.Forms, template *Template) bool {
	_, text := completion(template, `"content": null, "tool_calls": `+publishedCalls, publishedTools)
	parsed := forms.Parse(text, false, publishedTools)
	if len(parsed.ToolCalls) != 1 {
		return false
	}
	var given []struct{ Function struct{ Arguments any } }
	var got any
	call := parsed.ToolCalls[0]
	if err := errors.Join(json.Unmarshal([]byte(publishedCalls), &given),
		json.Unmarshal([]byte(call.Arguments), &got)); err != nil {
		t.Fatal(err)
	}
	if call.Name != "weather" || !reflect.DeepEqual(got, given[0].Function.Arguments) {
		t.Errorf("%q is %+v", text, call)
	}
	return true
}
