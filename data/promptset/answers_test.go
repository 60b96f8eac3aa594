package promptset

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/quire/quire/data/promptset/answers"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/openai"
)

// answersTo writes answers to lines, from what the engine generated for each, and returns them.
func answersTo(t *testing.T, o WriterOptions, drawn func(*Row) []Result, lines ...string) []*openai.Line {
	t.Helper()
	r, err := openLinesOf(t, "batch.jsonl", lines...)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	e, _ := answers.NewEncoder(&out, nil, o.encoder())
	for row := range r.Rows(context.Background()) {
		results := []Result{{FinishReason: "error", Err: "bad"}}
		if row.Err == nil {
			results = drawn(row)
		}
		if _, _, err := e.Add(row, Settled(FormatOpenAI, results)); err != nil {
			t.Fatal(err)
		}
	}
	var all []*openai.Line
	for line := range strings.Lines(out.String()) {
		l, err := openai.ParseLine([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

const answered = `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"logprobs":true,` +
	`"messages":[{"role":"user","content":"p"}]}}`

// A line with an error has one, whatever else was generated for it; the status shows who caused it.
func TestStatusOfAnswers(t *testing.T) {
	drawn := func(fault string, status int) func(*Row) []Result {
		return func(*Row) []Result {
			return []Result{{Text: "fine", FinishReason: "stop", CompletionTokens: 1, TokenIDs: []int32{1}},
				{Generation: 1, FinishReason: "error", Err: fault, ErrParam: "model", ErrCode: "c", ErrStatus: status,
					PromptTokens: 3}}
		}
	}
	for _, c := range []struct {
		fault, typ string
		status     int
	}{{"fault", "server_error", 500}, {"nobody", "invalid_request_error", 404}} {
		got := answersTo(t, WriterOptions{}, drawn(c.fault, c.status), answered, `{"custom_id":"b"}`)
		p := got[0].Response.Body.Problem
		if got[0].Response.StatusCode != c.status || p.Message != c.fault || p.Type != c.typ ||
			string(p.Code) != `"c"` || *p.Param != "model" || len(got[0].Response.Body.Choices) > 0 {
			t.Errorf("%s: %+v %+v", c.fault, got[0].Response, p)
		}
		if got[1].Response.StatusCode != 400 || got[1].CustomID != "b" {
			t.Errorf("a line that can't be run: %+v", got[1].Response)
		}
	}
}

// The ids of an answer follow from the job and the line: the same each time, and different for each.
func TestNamesOfAnswers(t *testing.T) {
	drawn := func(*Row) []Result {
		return []Result{{Text: "x", FinishReason: "stop", CompletionTokens: 1, TokenIDs: []int32{'x'},
			Logprobs: []float32{-1}}}
	}
	jobs := []map[string]string{{completion.MetaFingerprint: "f"}, {completion.MetaFingerprint: "g"},
		{completion.MetaFingerprint: "f",
			completion.MetaParameters: `{"seed":1}`}}
	seen := map[string]bool{}
	for _, meta := range jobs {
		lines := []string{answered, strings.Replace(answered, `"a"`, `"b"`, 1), answered, "{"}
		o := WriterOptions{Meta: meta}
		first, again := answersTo(t, o, drawn, lines...), answersTo(t, o, drawn, lines...)
		for i := range first {
			a, _ := json.Marshal(first[i])
			b, _ := json.Marshal(again[i])
			if string(a) != string(b) {
				t.Errorf("%s\n%s", a, b)
			}
			if seen[first[i].ID] {
				t.Errorf("%s is there twice", first[i].ID)
			}
			seen[first[i].ID] = true
		}
	}
	// Tokens are text where the model has a tokenizer.
	for name, text := range map[string]TokenText{"token_id:120": nil,
		"X": func(id int32) []byte { return []byte{'X'} }} {
		got := answersTo(t, WriterOptions{TokenText: text}, drawn, answered)[0].Response.Body.Choices[0].Logprobs
		if token := (*got.Content)[0]; token.Token != name || token.Logprob != -1 {
			t.Errorf("%+v, want the token %s", token, name)
		}
	}
}
