package chat

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

func messagesOf(t testing.TB, text string) (messages []Message) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &messages); err != nil {
		t.Fatal(err)
	}
	return messages
}

// TestManners gives templates what they take: content as parts or text, arguments as objects or text, null or "".
func TestManners(t *testing.T) {
	for _, c := range []struct{ name, template, messages, want string }{
		{"parts where the template writes them", "{% for p in messages[0].content %}{{ p.text }}|{% endfor %}",
			`[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]`, "a|b|"},
		{"lines where it writes text", "{{ messages[0].content }}",
			`[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]`, "a\nb"},
		{"no content", "{{ messages[0].content }}.", `[{"role": "user", "content": null}]`, "."},
		{"null beside calls", "{% for m in messages %}{{ 'null' if m.content is none else m.content }}" +
			"{% endfor %}{{ messages[0].tool_calls is defined }}",
			`[{"role": "assistant", "content": null, "tool_calls": []}]`, "nullTrue"},
		{"null beside calls, written as it is", "{{ messages[-1].content }}.{{ messages[-1].tool_calls }}",
			`[{"role": "assistant", "content": null, "tool_calls": []}]`, ".[]"},
		{"arguments as an object", "{{ messages[-1].tool_calls[0].function.arguments | tojson }}",
			`[{"role": "assistant", "content": "",
				"tool_calls": [{"function": {"name": "f", "arguments": "{\"b\": 1.0, \"a\": []}"}}]}]`,
			`{"b": 1.0, "a": []}`},
		{"arguments as text", "{{ '<' + messages[-1].tool_calls[0].function.arguments + '>' }}",
			`[{"role": "assistant", "content": "",
				"tool_calls": [{"function": {"name": "f", "arguments": {"b": 1.0, "a": []}}}]}]`,
			`<{"b": 1.0, "a": []}>`},
		{"arguments without the function around", "{{ messages[-1].tool_calls[0].arguments.b }}",
			`[{"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": "{\"b\": 2}"}]}]`, "2"},
		{"arguments that are no JSON", "{{ messages[-1].tool_calls[0].function.arguments }}",
			`[{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "b=2"}}]}]`, "b=2"},
		{"reasoning under other names",
			"{{ messages[0].reasoning_content }} {{ messages[0].thinking }} {{ messages[0].reasoning }}",
			`[{"role": "assistant", "content": "a", "reasoning": "hm"}]`, "hm hm hm"},
		{"null members", "{{ messages[0].name is defined }} {{ messages[0].x }}",
			`[{"role": "user", "content": "a", "name": null, "x": [1, {"y": 1e400}]}]`, "False [1, {'y': inf}]"},
	} {
		template, err := Parse(c.template)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := template.Render(messagesOf(t, c.messages), Options{}); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestOptionErrors(t *testing.T) {
	const source = "{{ tools }}{{ more }}{% for m in messages %}{{ m.content }}{% endfor %}"
	user := []Message{{Role: "user", Content: "hi"}}
	for _, c := range []struct {
		messages []Message
		options  Options
		want     string
	}{
		{user, Options{Documents: "[]"}, "the chat template takes no documents; leave documents out"},
		{user, Options{Variables: `{"enable_thinking": true}`},
			"chat_template_kwargs has enable_thinking, which the chat template has no variable for; leave it out"},
		{user, Options{Variables: `{"tools": []}`}, "chat_template_kwargs has tools, which is a parameter of its own"},
		{user, Options{Variables: `[]`}, "chat_template_kwargs is not a JSON object"},
		{user, Options{Tools: `{}`}, "tools is not a JSON list"},
		{user, Options{Tools: `[`}, "tools is not a JSON list"},
		{user, Options{AddGenerationPrompt: true, ContinueFinalMessage: true}, "contradict each other; keep one"},
		{nil, Options{ContinueFinalMessage: true}, "the last message has no text to continue"},
		{messagesOf(t, `[{"role": "user", "content": [{"type": "image"}]}]`), Options{ContinueFinalMessage: true},
			""}, // the template takes no parts: there is an empty text
		{messagesOf(t, `[{"role": "assistant", "content": "", "tool_calls": [{}]}]`), Options{},
			"messages[0].tool_calls is nothing that the chat template writes"},
		{messagesOf(t, `[{"title": "a", "content": "b"}]`), Options{}, ""},
		{[]Message{{Object: json.RawMessage("[]")}}, Options{}, "messages[0] is not an object"},
		{[]Message{{Object: json.RawMessage("{")}}, Options{}, "messages[0] is not JSON"},
	} {
		template, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		_, err = template.Render(c.messages, c.options)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	template, _ := Parse("{{ messages[0].role }}")
	_, err := template.Render(messagesOf(t, `[{"title": "a", "content": "b"}]`), Options{})
	if fmt.Sprint(err) != "messages[0] has no role, which the chat template looks for; give it one" {
		t.Error(err)
	}
	template, _ = Parse("{{ messages[0].content[:3] }}")
	_, err = template.Render([]Message{{Role: "user", Content: "hello"}}, Options{ContinueFinalMessage: true})
	if err == nil || !strings.Contains(err.Error(), "does not write the last message as it is") {
		t.Error(err)
	}
}

// FuzzMessages renders any JSON as messages, tools and variables.
func FuzzMessages(f *testing.F) {
	source, err := os.ReadFile("testdata/templates/qwen3.jinja")
	if err != nil {
		f.Fatal(err)
	}
	template, err := Parse(string(source))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`[{"role": "user", "content": [{"type": "text", "text": "a"}]}]`, `[{"type": "function"}]`,
		`{"enable_thinking": false}`, true)
	f.Add(`[{"role": "assistant", "content": null, "tool_calls": [{"function": {"arguments": "{}"}}]}]`, ``, ``, false)
	f.Fuzz(func(t *testing.T, messages, tools, variables string, continued bool) {
		var list []Message
		if json.Unmarshal([]byte(messages), &list) != nil {
			return
		}
		_, _ = template.Render(list, Options{Tools: tools, Variables: variables, ContinueFinalMessage: continued})
	})
}
