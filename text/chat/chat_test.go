package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quire/quire/text/chat/jinja"
	"github.com/quire/quire/text/chat/reply"
)

func render(source string, messages ...Message) (string, error) {
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	return t.Render(messages, Options{})
}

// TestLimits renders templates made to exhaust a machine: each must end in
// ErrLimit, or in an error of the language, soon and small.
func TestLimits(t *testing.T) {
	saved := limits
	limits = jinja.Limits{Output: 1 << 20, Memory: 16 << 20, Time: 300 * time.Millisecond}
	defer func() { limits = saved }()
	for _, source := range hostileTemplates(t) {
		if text, err := render(source); err == nil {
			t.Errorf("%.120q renders %d bytes", source, len(text))
		}
	}
	if _, err := render("{% for a in range(100000) %}{{ 'a' * 100 }}{% endfor %}"); !errors.Is(err, ErrLimit) {
		t.Errorf("error %v, want ErrLimit", err)
	}
}

// hostileTemplates reads testdata/hostile.json: each template is a list of texts that are repeated so many times.
func hostileTemplates(t *testing.T) (sources []string) {
	data, err := os.ReadFile("testdata/hostile.json")
	if err != nil {
		t.Fatal(err)
	}
	var all [][]struct {
		Text  string
		Times int
	}
	if err := json.Unmarshal(data, &all); err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	for _, parts := range all {
		source := ""
		for _, p := range parts {
			source += strings.Repeat(p.Text, p.Times)
		}
		sources = append(sources, source)
	}
	return sources
}

// TestNoFiles keeps templates from loading anything.
func TestNoFiles(t *testing.T) {
	for _, tag := range []string{"include 'go.mod'", "import 'x' as y", "extends 'x'", "from 'x' import y",
		"autoescape true", "block x"} {
		if text, err := render("{% " + tag + " %}"); err == nil {
			t.Errorf("{%% %s %%} renders %q", tag, text)
		}
	}
}

func TestErrors(t *testing.T) {
	_, err := render("a\n\n{{ raise_exception('roles must alternate') }}")
	var raised *RaisedError
	if !errors.As(err, &raised) || err.Error() != "the chat template refuses these messages: roles must alternate" {
		t.Errorf("error %v", err)
	}
	_, err = render("a\n\n{{ messages.x.y }}", Message{Role: "user", Content: "hi"})
	if want := "chat template: line 3: 'list object' has no attribute 'x'"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	var syntax *jinja.SyntaxError
	if _, err = Parse("a\n{% if %}"); !errors.As(err, &syntax) || syntax.Line != 2 {
		t.Errorf("error %v", err)
	}
	if _, err = Parse(" \n"); err == nil {
		t.Error("an empty template parses")
	}
}

// TestMessagesAreData keeps template syntax in messages from being run, and
// messages from being changed.
func TestMessagesAreData(t *testing.T) {
	const text = "{{ 1 + 1 }}{% raw %}<&>\"\x00\xff"
	got, err := render("{{ messages[0].content }}", Message{Role: "user", Content: text})
	if err != nil || got != text {
		t.Errorf("%q, %v", got, err)
	}
	messages := []Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: "b"}}
	if _, err := render("{% set messages = messages[1:] %}{% set m = messages[0] %}{% set m = 1 %}",
		messages...); err != nil || messages[0].Content != "a" || len(messages) != 2 {
		t.Errorf("%v, %v", messages, err)
	}
}

func TestConcurrentRender(t *testing.T) {
	source, err := os.ReadFile("testdata/templates/qwen3.jinja")
	if err != nil {
		t.Fatal(err)
	}
	template, err := Parse(string(source))
	if err != nil {
		t.Fatal(err)
	}
	messages := []Message{{Role: "system", Content: "s"}, {Role: "user", Content: "u"},
		{Role: "assistant", Content: "<think>\nt\n</think>\n\na"}, {Role: "user", Content: "v"}}
	want, err := template.Render(messages, Options{AddGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if got, err := template.Render(messages, Options{AddGenerationPrompt: true}); err != nil ||
					got != want {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzRender(f *testing.F) {
	paths, err := filepath.Glob("testdata/templates/*.jinja")
	if err != nil || len(paths) == 0 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(source))
	}
	for _, g := range goldens(f) {
		if g.Source != "" {
			f.Add(g.Source)
		}
	}
	limits = jinja.Limits{Output: 1 << 20, Memory: 16 << 20, Time: time.Second}
	f.Fuzz(func(t *testing.T, source string) {
		_, _ = render(source, Message{Role: "user", Content: "hi"}, Message{Role: "assistant", Content: "yes"})
	})
}

func BenchmarkRender(b *testing.B) {
	source, err := os.ReadFile("testdata/templates/qwen3.jinja")
	if err != nil {
		b.Fatal(err)
	}
	template, err := Parse(string(source))
	if err != nil {
		b.Fatal(err)
	}
	messages := []Message{{Role: "system", Content: "s"}, {Role: "user", Content: strings.Repeat("word ", 200)}}
	for b.Loop() {
		if _, err := template.Render(messages, Options{AddGenerationPrompt: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// The template of configs/tools.jinja gives a model of ChatML tools, calls and answers, in the form that is found.
func TestShippedTemplate(t *testing.T) {
	source, err := os.ReadFile("../../configs/tools.jinja")
	if err != nil {
		t.Fatal(err)
	}
	template, err := Parse(string(source))
	if err != nil {
		t.Fatal(err)
	}
	const call = `"content": null, "tool_calls": [{"id": "1", "type": "function", ` +
		`"function": {"name": "f", "arguments": {"a": 1}}}]`
	messages := []Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Go."},
		{Role: "assistant", Object: json.RawMessage(`{"role": "assistant", ` + call + `}`)},
		{Role: "tool", Content: "Done."}}
	text, err := template.Render(messages, Options{AddGenerationPrompt: true, Tools: `[{"name": "f"}]`})
	const want = "<|im_start|>system\nBe brief.\n\nYou may call these functions:\n<tools>\n" +
		`{"name": "f"}` + "\n</tools>\nA call is a JSON object of a name and arguments:\n<tool_call>\n" +
		`{"name": "the name", "arguments": {}}` + "\n</tool_call><|im_end|>\n<|im_start|>user\nGo.<|im_end|>\n" +
		"<|im_start|>assistant\n\n<tool_call>\n" + `{"name": "f", "arguments": {"a": 1}}` +
		"\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nDone.\n</tool_response><|im_end|>\n" +
		"<|im_start|>assistant\n"
	if err != nil || text != want {
		t.Errorf("%q, %v, want\n%q", text, err, want)
	}
	text, err = template.Render([]Message{{Role: "user", Content: "Go."}}, Options{AddGenerationPrompt: true})
	if err != nil || text != "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"+
		"<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n" {
		t.Errorf("without tools: %q, %v", text, err)
	}
	forms, err := reply.New(reply.Auto, reply.Auto, string(source))
	if reasoning, calls := forms.Names(); err != nil || reasoning != "" || calls != "hermes" {
		t.Errorf("the form is %s, %v", calls, err)
	}
}
