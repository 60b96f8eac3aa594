package results

import (
	"io"
	"strings"
	"testing"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// Completions are taken apart by the forms of the job's template, the end of the prompt, and what the row asks for.
func TestApart(t *testing.T) {
	const template = `<think></think><tool_call>{"name": n, "arguments": a}</tool_call>`
	const call = `<tool_call>{"name": "f", "arguments": {}}</tool_call>`
	session := &process.Session{Text: ask.Text{Template: template,
		Decode: func(tokens []int32) (text string) {
			for _, id := range tokens {
				text += string(rune(id))
			}
			return text
		},
		// A special token that text lacks.
		Mark: func(_ []int32, text string, _ []string) string { return "<think>" + text },
	}}
	plain := *session
	plain.Mark = nil
	for _, c := range []struct {
		name    string
		session *process.Session
		columns []string
		format  string
		row     promptset.Row
		kept    bool // special tokens
		prompt  string
		text    string
		want    completion.Result
	}{
		{name: "no columns", session: session, text: "a</think>b", want: completion.Result{Text: "a</think>b"}},
		{name: "both", session: &plain, columns: []string{"reasoning", "tool_calls"}, text: "a</think>b" + call,
			want: completion.Result{Reasoning: "a", Text: "b", ToolCalls: "some"}},
		{name: "reasoning alone", session: &plain, columns: []string{"reasoning"}, text: "a</think>b" + call,
			want: completion.Result{Reasoning: "a", Text: "b" + call}},
		{name: "calls alone", session: &plain, columns: []string{"tool_calls"}, text: "a</think>b" + call,
			want: completion.Result{Text: "a</think>b", ToolCalls: "some"}},
		{name: "a special mark", session: session, columns: []string{"reasoning"}, text: "a</think>b",
			want: completion.Result{Reasoning: "a", Text: "b"}},
		{name: "special marks in the text", session: session, columns: []string{"reasoning"}, kept: true, text: "a",
			want: completion.Result{Text: "a"}},
		{name: "begun in the prompt", session: &plain, columns: []string{"reasoning"}, prompt: "A<think>\n", text: "a",
			want: completion.Result{Reasoning: "a"}},
		{name: "not begun", session: &plain, columns: []string{"reasoning"}, prompt: "A", text: "a",
			want: completion.Result{Text: "a"}},
		{name: "answers have no calls without tools", session: &plain, format: promptset.FormatOpenAI,
			row: promptset.Row{Kind: promptset.KindMessages}, text: "a</think>b" + call,
			want: completion.Result{Reasoning: "a", Text: "b" + call}},
		{name: "answers to prompts are whole", session: &plain, format: promptset.FormatOpenAI,
			row: promptset.Row{Kind: promptset.KindText}, text: "a</think>b",
			want: completion.Result{Text: "a</think>b"}},
	} {
		job := &spec.Job{Spec: spec.Default()}
		job.Columns = c.columns
		if c.format != "" {
			job.Format = c.format
		}
		a, err := newReplySplitter(&process.Process{Options: process.Options{Messages: io.Discard}}, job, c.session,
			nil)
		if err != nil {
			t.Fatal(err)
		}
		r := completion.Result{Text: c.text, FinishReason: "stop"}
		request := &engine.Request{KeepSpecialTokens: c.kept}
		for _, ch := range c.prompt {
			request.Tokens = append(request.Tokens, ch)
		}
		a.split(&r, &c.row, request)
		if r.Reasoning != c.want.Reasoning || r.Text != c.want.Text || (r.ToolCalls == "") != (c.want.ToolCalls == "") {
			t.Errorf("%s: %+v", c.name, r)
		}
		if (r.FinishReason == "tool_calls") != (r.ToolCalls != "") {
			t.Errorf("%s: it ended by %s", c.name, r.FinishReason)
		}
	}
	a, err := newReplySplitter(&process.Process{}, &spec.Job{Spec: withColumns("reasoning")}, &plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	row := promptset.Row{Messages: []promptset.Message{{Role: "assistant", Content: "<think>so"}}}
	*row.Overrides.Give(parameter.Sink("continue_final_message")).(*bool) = true
	r := completion.Result{Text: " far"}
	if a.split(&r, &row, &engine.Request{}); r.Reasoning != " far" || r.Text != "" {
		t.Errorf("behind a message to continue: %+v", r)
	}
}

// A job with tools whose calls stay in the text is told so.
func TestToldOfCalls(t *testing.T) {
	const template = `<tool_call>{"name": n, "arguments": a}</tool_call>`
	for _, c := range []struct {
		template string
		tools    parameter.ListJSON
		columns  []string
		want     bool
	}{
		{template, "[]", nil, true}, {template, "[]", []string{"reasoning"}, true}, {template, "", nil, false},
		{template, "[]", []string{"tool_calls"}, false}, {"", "[]", nil, false},
	} {
		var told strings.Builder
		job, p := &spec.Job{Spec: withColumns(c.columns...)},
			&process.Process{Options: process.Options{Messages: &told}}
		job.Sampling.Tools = c.tools
		if _, err := newReplySplitter(p, job, &process.Session{Text: ask.Text{Template: c.template}}, nil); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(told.String(), "warning: there are tools") != c.want {
			t.Errorf("%+v: told %q", c, told.String())
		}
	}
}

func withColumns(columns ...string) spec.Spec {
	s := spec.Default()
	s.Columns = columns
	return s
}
