package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func parse(t *testing.T, line string) (Request, error) {
	t.Helper()
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(line), &keys); err != nil {
		t.Fatal(err)
	}
	return ParseRequest(func(key string) json.RawMessage { return keys[key] })
}

func TestParseRequest(t *testing.T) {
	r, err := parse(t, `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x"}}`)
	if err != nil || r.CustomID != "a" || r.URL != Completions || string(r.Body) != `{"prompt":"x"}` {
		t.Errorf("%+v, %v", r, err)
	}
	for line, want := range map[string]string{
		`{}`:                 "custom_id is missing",
		`{"custom_id":null}`: "custom_id is missing",
		`{"custom_id":""}`:   "custom_id is empty",
		`{"custom_id":"a"}`:  "method is missing",
		`{"custom_id":"a","method":"PUT","url":"u"}`:                                   `method is "PUT", but must be POST`,
		`{"custom_id":"a","method":"POST","url":"/v1/chat/completions/"}`:              "but must be /v1/chat/completions",
		`{"custom_id":"a","method":"POST","url":"/v1/embeddings"}`:                     "embeddings cannot be asked for",
		`{"custom_id":"a","method":"POST","url":"/v2/rerank"}`:                         "ranks of documents cannot",
		`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":"text"}`: `body is "text", but must be an object`,
	} {
		r, err := parse(t, line)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
		if of := (*Error)(nil); !errors.As(err, &of) || of.Param == "" || of.Code == "" {
			t.Errorf("%s: the error has no param, or no code", line)
		}
		if strings.Contains(line, `"a"`) && r.CustomID != "a" {
			t.Errorf("%s: the custom_id is not returned with the error", line)
		}
	}
}

func TestParsePrompts(t *testing.T) {
	for raw, want := range map[string][]Prompt{
		`"a"`:         {{Text: json.RawMessage(`"a"`)}},
		`["a"]`:       {{Text: json.RawMessage(`"a"`)}},
		`["a", ""]`:   {{Text: json.RawMessage(`"a"`)}, {Text: json.RawMessage(`""`)}},
		`[1,2]`:       {{Tokens: json.RawMessage(`[1,2]`)}},
		`[[1,2]]`:     {{Tokens: json.RawMessage(`[1,2]`)}},
		`[[1,2],[3]]`: {{Tokens: json.RawMessage(`[1,2]`)}, {Tokens: json.RawMessage(`[3]`)}},
	} {
		got, err := ParsePrompts(json.RawMessage(raw))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
	for _, raw := range []string{``, `null`, `1`, `true`, `{}`, `[]`, `["a",[1]]`, `[[1],"a"]`, `["a",null]`} {
		p, err := ParsePrompts(json.RawMessage(raw))
		if of := (*Error)(nil); !errors.As(err, &of) || of.Param != "prompt" || of.Code == "" {
			t.Errorf("%s: %+v, %v", raw, p, err)
		}
	}
}

func TestPromptLogprobs(t *testing.T) {
	tokens := []Token{{ID: 1, Bytes: []byte("<s>"), Logprob: float32(math.NaN())},
		{ID: 5, Bytes: []byte("a"), Logprob: -0.5, Top: []Token{{ID: 7, Bytes: []byte("<"), Logprob: -0.25},
			{ID: 5, Bytes: []byte("a"), Logprob: -0.5}}},
		{ID: 9, Logprob: float32(math.Inf(-1))},
	}
	const want = `[null,{"5":{"logprob":-0.5,"rank":2,"decoded_token":"a"},` +
		`"7":{"logprob":-0.25,"rank":1,"decoded_token":"<"}},` +
		`{"9":{"logprob":-9999.0,"rank":null,"decoded_token":null}}]`
	if got := string(PromptLogprobs(tokens)); got != want {
		t.Errorf("%s", got)
	}
}

func TestLogprobs(t *testing.T) {
	tokens := []Token{
		{Bytes: []byte("wö"), Logprob: -0.5, Top: []Token{{Bytes: []byte("wö"), Logprob: -0.5},
			{Bytes: []byte("x"), Logprob: float32(math.Inf(-1))}}},
		{Bytes: []byte("\xe2\x80"), Logprob: -1.25, Top: []Token{}},
		{Bytes: []byte("!"), Logprob: -2},
	}
	chat, _ := json.Marshal(ChatLogprobs(tokens))
	text, _ := json.Marshal(TextLogprobs(tokens))
	const wantChat = `{"content":[{"token":"wö","logprob":-0.5,"bytes":[119,195,182],"top_logprobs":[` +
		`{"token":"wö","logprob":-0.5,"bytes":[119,195,182]},{"token":"x","logprob":-9999.0,"bytes":[120]}]},` +
		`{"token":"bytes:\\xe2\\x80","logprob":-1.25,"bytes":[226,128],"top_logprobs":[]},` +
		`{"token":"!","logprob":-2,"bytes":[33],"top_logprobs":[]}]}`
	const wantText = `{"tokens":["wö","bytes:\\xe2\\x80","!"],"token_logprobs":[-0.5,-1.25,-2],` +
		`"top_logprobs":[{"wö":-0.5,"x":-9999.0},{"bytes:\\xe2\\x80":-1.25},{}],"text_offset":[0,2,4]}`
	if string(chat) != wantChat {
		t.Errorf("chat: %s", chat)
	}
	if string(text) != wantText {
		t.Errorf("text: %s", text)
	}
}

// What is written is read back.
func TestLines(t *testing.T) {
	text, created := "<b>", int64(0)
	line := &Line{ID: "i", CustomID: "c", Response: &Response{StatusCode: 200, RequestID: "r", Body: &Body{ID: "b",
		Object: ChatObject, Created: &created, Model: "m", Usage: &Usage{3, 5, 8, []int{2, 3}},
		Choices: []Choice{
			{Message: &Message{Role: "assistant", Content: &text}, FinishReason: "stop",
				Logprobs: ChatLogprobs([]Token{{Bytes: []byte("<b"), Logprob: -0.1},
					{Bytes: []byte(">"), Logprob: -3}})},
			{Index: 1, Text: &text, FinishReason: "length", TokenIDs: []int32{1, 2, 3}}}}}}
	b, err := line.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseLine(b)
	if err != nil || got.Failure() != "" || got.CustomID != "c" {
		t.Fatalf("%s: %v, %q", b, err, got.Failure())
	}
	again, _ := got.Append(nil)
	if !bytes.Equal(b, again) {
		t.Errorf("%s\n%s", b, again)
	}
	body := got.Response.Body
	for i, want := range []struct {
		logprobs []float32
		tokens   int
	}{{[]float32{-0.1, -3}, 2}, {nil, 3}} {
		c := &body.Choices[i]
		if c.TextOf() != text || len(c.LogprobsOf()) != len(want.logprobs) || body.Usage.TokensOf(i, 2) != want.tokens {
			t.Errorf("choice %d: %q, %v, %d", i, c.TextOf(), c.LogprobsOf(), body.Usage.TokensOf(i, 2))
		}
	}
}

func TestMessages(t *testing.T) {
	const calls = `[{"id":"call-1","type":"function","function":{"name":"f","arguments":"{}"}}]`
	for _, c := range []struct{ reasoning, text, calls, reason, want string }{
		{"", "a", "", "stop", `{"index":0,"message":{"role":"assistant","content":"a","refusal":null},` +
			`"logprobs":null,"finish_reason":"stop"}`},
		{"hm", "", calls, "stop", `{"index":0,"message":{"role":"assistant","content":null,"refusal":null,` +
			`"reasoning":"hm","tool_calls":` + calls + `},"logprobs":null,"finish_reason":"tool_calls"}`},
		{"", "a", calls, "length", `{"index":0,"message":{"role":"assistant","content":"a","refusal":null,` +
			`"tool_calls":` + calls + `},"logprobs":null,"finish_reason":"length"}`},
	} {
		choice := Choice{Message: NewMessage(c.reasoning, c.text, c.calls)}
		choice.FinishWith(c.reason)
		got, err := json.Marshal(choice)
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %v", got, err)
		}
		if choice.Finish() != choice.FinishReason || choice.TextOf() != c.text {
			t.Errorf("read back as %s, %q", choice.Finish(), choice.TextOf())
		}
	}
}

func TestFailure(t *testing.T) {
	for line, want := range map[string]string{
		`{"custom_id":"a","response":null,"error":{"code":"batch_expired","message":"too late"}}`:                                "too late",
		`{"custom_id":"a","response":{"status_code":400,"request_id":"r","body":{"error":{"message":"no"}}},"error":null}`:       "no",
		`{"custom_id":"a","response":{"status_code":404,"body":null},"error":{"error":{"message":"The model","code":404}}}`:      "The model",
		`{"custom_id":"a","response":{"status_code":400,"body":null},"error":"in stream mode"}`:                                  "in stream mode",
		`{"custom_id":"a","response":null,"error":null}`:                                                                         "it has no response",
		`{"custom_id":"a","response":{"status_code":200,"body":{"choices":[]}},"error":null}`:                                    "it has status 200 and no choices",
		`{"custom_id":"a","response":{"status_code":200,"body":{"choices":[{"index":0,"text":"x"}],"usage":null}},"error":null}`: "",

		`{"custom_id":"a","response":null,"error":[ 1, "a b" ]}`: `[1,"a b"]`,
	} {
		l, err := ParseLine([]byte(line))
		if err != nil || l.Failure() != want {
			t.Errorf("%s: %v, %q", line, err, l.Failure())
		}
	}
}

// For any line, parsing does not panic, and the result is written and parsed as the same.
func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"custom_id":"a","response":{"status_code":200,"body":{"choices":[{"index":0,"text":"x"}]}},"error":null}`))
	f.Add([]byte(`{"custom_id":"a","response":{"status_code":200,"body":{"choices":[{"index":0,"message":{"content":null},` +
		`"logprobs":{"content":[{"token":"a","logprob":-1e-9,"bytes":[1]}]}}],"usage":{"completion_tokens":2}}},"error":"x"}`))
	f.Add([]byte(`{"custom_id":"a","response":null,"error":[]}`))
	f.Add([]byte(`{"custom_id":"a","response":null,"error":[ {"a" : 1} ]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLine(b)
		if err != nil {
			return
		}
		failed := l.Failure()
		if failed == "" {
			for i := range l.Response.Body.Choices {
				l.Response.Body.Choices[i].TextOf()
				l.Response.Body.Choices[i].LogprobsOf()
				l.Response.Body.Usage.TokensOf(i, len(l.Response.Body.Choices))
			}
		}
		out, err := l.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseLine(out)
		if err != nil || again.Failure() != failed {
			t.Fatalf("%s: %v", out, err)
		}
	})
}
