package ask

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/text/chat"
)

// What a row continues is the parent's prompt, what is wanted of a completion, and its own prompt in the form that
// it has there: text without what begins one, turns without what begins a conversation.
func TestPromptBehindParent(t *testing.T) {
	b := New(Settings{})
	b.Text = &Text{Vocab: 300, EOS: []int32{9},
		Encode: func(text string, special bool) (ids []int32, err error) {
			if special {
				ids = append(ids, 256)
			}
			for _, c := range []byte(text) {
				ids = append(ids, int32(c))
			}
			return ids, nil
		},
		Render: func(messages []promptset.Message, _ *parameter.Set) (string, error) {
			text := "BEGIN"
			for _, m := range messages {
				text += fmt.Sprintf("<%s>%s\t", m.Role, m.Content) // a tab, 9, ends a turn
			}
			return text + "<a>", nil
		}}
	parent := &lineage.Parent{Prompt: []int32{256, 65}, Results: []completion.Result{
		{Generation: 3, TokenIDs: []int32{66, 67}}, {Generation: 4, TokenIDs: []int32{68, 9}},
		{Generation: 5, Err: "not a number"}}}
	number := func(n int) *int { return &n }
	for _, c := range []struct {
		row  promptset.Row
		want string
	}{
		{promptset.Row{Kind: promptset.KindText, Prompt: "x"}, "[256 65 66 67 120]"},
		{promptset.Row{}, "[256 65 66 67]"},
		{promptset.Row{Kind: promptset.KindTokens, TokenIDs: []int32{7}, Parent: promptset.Parent{Length: number(1)}},
			"[256 65 66 7]"},
		{promptset.Row{Parent: promptset.Parent{Length: number(0)}}, "[256 65]"},
		{promptset.Row{Parent: promptset.Parent{Length: number(50)}}, "[256 65 66 67]"},
		// An answer that was cut is closed as the template does, one that ends with the same token is not closed twice.
		{promptset.Row{Kind: promptset.KindMessages, Messages: []promptset.Message{{Role: "u", Content: "?"}}},
			"[256 65 66 67 9 60 117 62 63 9 60 97 62]"},
		{promptset.Row{Kind: promptset.KindMessages, Messages: []promptset.Message{{Role: "u", Content: "?"}},
			Parent: promptset.Parent{Generation: number(4)}}, "[256 65 68 9 60 117 62 63 9 60 97 62]"},
		{promptset.Row{Parent: promptset.Parent{Generation: number(5)}}, "generation 5 of parent \"p\" has an error"},
		{promptset.Row{Parent: promptset.Parent{Generation: number(2)}}, "has generations 3 to 5"},
	} {
		c.row.Parent.ID = "p"
		got, err := b.Prompt(&c.row, parent)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if text != c.want && (err == nil || !strings.Contains(text, c.want)) {
			t.Errorf("%+v: %v %v; want %s", c.row, got, err, c.want)
		}
	}
	failed := &lineage.Parent{Results: []completion.Result{{Err: "bad"}}}
	child := &promptset.Row{Parent: promptset.Parent{ID: "p", Generation: number(1)}}
	if _, err := b.Prompt(child, failed); err == nil || !strings.Contains(err.Error(), `parent "p" has an error`) {
		t.Error(err)
	}
}

// What follows an answer with calls is what the template of each family writes after them, from the token that ends the
// answer. A template that wants the calls before their results gets them.
func TestPromptAfterCalls(t *testing.T) {
	const refusing = `{% for m in messages %}{% if m.role == "tool" and not (messages[loop.index0 - 1].tool_calls) %}` +
		`{{ raise_exception("no call") }}{% endif %}<{{ m.role }}>{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls }}` +
		`{% endif %}<|im_end|>{% endfor %}{% if tools %}{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}`
	sources := map[string]string{"refusing": refusing}
	ends := map[string]int32{"refusing": 300, "llama3.1": 301, "llama3.2": 301, "mistral-v0.3": 302, "qwen2.5": 300,
		"qwen3": 300}
	for _, name := range []string{"llama3.1", "llama3.2", "mistral-v0.3", "qwen2.5", "qwen3"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "text", "chat", "testdata", "templates", name+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = string(b)
	}
	marks := map[int32]string{300: "<|im_end|>", 301: "<|eot_id|>", 302: "</s>"}
	for name, source := range sources {
		template, err := chat.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		b := New(Settings{Sampling: parameter.Defaults()})
		b.Settings.Sampling.Tools = `[{"type": "function", "function": {"name": "add", "description": "adds", ` +
			`"parameters": {"type": "object", "properties": {}}}}]`
		b.Text = &Text{Vocab: 400, EOS: []int32{300, 301, 302},
			Decode: func(ids []int32) string { return marks[ids[0]] },
			Encode: func(text string, _ bool) (ids []int32, err error) {
				for len(text) > 0 {
					id, n := int32(text[0]), 1
					for mark, name := range marks {
						if strings.HasPrefix(text, name) {
							id, n = mark, len(name)
						}
					}
					ids, text = append(ids, id), text[n:]
				}
				return ids, nil
			},
			Render: func(messages []promptset.Message, by *parameter.Set) (string, error) {
				var all []chat.Message
				for _, m := range messages {
					all = append(all, chat.Message{Role: m.Role, Content: m.Content, Object: json.RawMessage(m.Object)})
				}
				return template.Render(all, chat.Options{AddGenerationPrompt: by.AddGenerationPrompt,
					Tools: string(by.Tools), Special: map[string]string{"bos_token": "<s>", "eos_token": "</s>"}})
			}}
		messages := []promptset.Message{{Role: "assistant", Object: `{"role": "assistant", "content": null, "tool_calls": ` +
			`[{"id": "abcdefghi", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}}]}`},
			{Role: "tool", Content: "9999", Object: `{"role": "tool", "tool_call_id": "abcdefghi", "name": "add", ` +
				`"content": "9999"}`}}
		whole, err := b.render(&promptset.Row{}, append([]promptset.Message{{Role: "user", Content: "?"}}, messages...))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, last := range []int32{65, ends[name]} { // the answer's last token: it was cut, or not
			parent := &lineage.Parent{Prompt: []int32{65}, Results: []completion.Result{{TokenIDs: []int32{last}}}}
			tokens, err := b.Prompt(&promptset.Row{Kind: promptset.KindMessages, Messages: messages,
				Parent: promptset.Parent{ID: "p"}}, parent)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			text := ""
			for _, id := range tokens[2:] {
				if marks[id] != "" {
					text += marks[id]
				} else {
					text += string([]byte{byte(id)})
				}
			}
			end := marks[ends[name]]
			if !strings.HasSuffix(whole, text) || !strings.Contains(text, "9999") ||
				last == 65 && !strings.HasPrefix(text, end) || last != 65 && !strings.HasSuffix(whole, end+text) {
				t.Errorf("%s: after token %d comes %q, and the template writes %q", name, last, text,
					whole[max(0, len(whole)-200):])
			}
		}
	}
}
