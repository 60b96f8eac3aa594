package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Line is a line of an output file.
type Line struct {
	ID       string          `json:"id"`
	CustomID string          `json:"custom_id"`
	Response *Response       `json:"response"`
	Error    json.RawMessage `json:"error"` // why there was no response; always null in Quire's output
}

// Response is what a server would have responded.
type Response struct {
	StatusCode int    `json:"status_code"`
	RequestID  string `json:"request_id"`
	Body       *Body  `json:"body"`
}

// Body is the answer: choices, or only an error.
type Body struct {
	Problem *Problem `json:"error,omitempty"`

	ID                string   `json:"id,omitempty"`
	Object            string   `json:"object,omitempty"`
	Created           *int64   `json:"created,omitempty"`
	Model             string   `json:"model,omitempty"`
	Choices           []Choice `json:"choices,omitempty"`
	Data              []Datum  `json:"data,omitempty"`    // what encoders give, in place of choices
	Results           []Ranked `json:"results,omitempty"` // of documents, the best first, in place of choices
	Usage             *Usage   `json:"usage,omitempty"`
	SystemFingerprint string   `json:"system_fingerprint,omitempty"`

	ScoredPrompt // only in chats
}

// ScoredPrompt is what vLLM's answers report about a prompt on request.
type ScoredPrompt struct {
	PromptLogprobs json.RawMessage `json:"prompt_logprobs,omitempty"`
	PromptTokenIDs []int32         `json:"prompt_token_ids,omitempty"`
}

// The names of objects.
const (
	ChatObject        = "chat.completion"
	CompletionsObject = "text_completion"
)

// Problem is OpenAI's error object.
type Problem struct {
	Message string          `json:"message"`
	Type    string          `json:"type"`
	Param   *string         `json:"param"`
	Code    json.RawMessage `json:"code"`
}

// The types of problems.
const (
	InvalidRequest = "invalid_request_error"
	ServerError    = "server_error"
)

// ProblemOf returns the error object of a response with a status. The param and the code may be empty.
func ProblemOf(status int, cause Error) *Problem {
	p := &Problem{Message: cause.What, Type: InvalidRequest}
	if status >= 500 {
		p.Type = ServerError
	}
	if cause.Param != "" {
		p.Param = &cause.Param
	}
	if cause.Code != "" {
		p.Code, _ = json.Marshal(cause.Code)
	}
	return p
}

// Choice is a completion.
type Choice struct {
	Index        int       `json:"index"`
	Message      *Message  `json:"message,omitempty"` // only in chats
	Text         *string   `json:"text,omitempty"`    // only in completions
	Logprobs     *Logprobs `json:"logprobs"`
	FinishReason string    `json:"finish_reason"`
	TokenIDs     []int32   `json:"token_ids,omitempty"` // vLLM's, if return_token_ids asks for them
	// ChoiceProbabilities are Quire's, if the job asks for them: of the texts of the line's choice, in their order.
	ChoiceProbabilities []float32 `json:"choice_probabilities,omitempty"`

	ScoredPrompt // only in completions
}

// Message is the completion of a chat.
type Message struct {
	Role      string          `json:"role"`
	Content   *string         `json:"content"` // nil if there are only tool calls
	Refusal   *string         `json:"refusal"`
	Reasoning string          `json:"reasoning,omitempty"` // vLLM's, if the text is split
	ToolCalls json.RawMessage `json:"tool_calls,omitempty"`
}

// NewMessage returns the message of a completion: its reasoning, its text, and its tool calls as a JSON list; ""
// stands for none.
func NewMessage(reasoning, text, calls string) *Message {
	m := &Message{Role: "assistant", Content: &text, Reasoning: reasoning}
	if calls != "" {
		m.ToolCalls = json.RawMessage(calls)
		if text == "" {
			m.Content = nil
		}
	}
	return m
}

// The finish reasons of choices that Quire names differently.
const (
	toolCalls    = "tool_calls" // it has tool calls
	stop, length = "stop", "length"
)

// FinishWith sets why a choice ended: for tool calls, if it has some and was not truncated.
func (c *Choice) FinishWith(reason string) {
	if c.FinishReason = reason; reason == stop && c.Message != nil && len(c.Message.ToolCalls) > 0 {
		c.FinishReason = toolCalls
	}
}

// Finish returns why a choice ended, as one of Quire's reasons.
func (c *Choice) Finish() string {
	if c.FinishReason == length || c.FinishReason == toolCalls {
		return c.FinishReason
	}
	return stop
}

// Usage counts the tokens of a line.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	// ByChoice has the number of tokens of each of several choices, which OpenAI's lines do not have.
	ByChoice []int `json:"completion_tokens_by_choice,omitempty"`
}

// NoCompletions is [Usage.CompletionTokens] in answers of vectors, which do not state it.
const NoCompletions = -1

// MarshalJSON implements json.Marshaler.
func (u *Usage) MarshalJSON() ([]byte, error) {
	if u.CompletionTokens == NoCompletions {
		return fmt.Appendf(nil, `{"prompt_tokens":%d,"total_tokens":%d}`, u.PromptTokens, u.TotalTokens), nil
	}
	type plain Usage
	return json.Marshal((*plain)(u))
}

// Logprobs are the log-probabilities of a choice's tokens: Content in a chat, the other fields in a completion.
type Logprobs struct {
	Content *[]TokenLogprob `json:"content,omitempty"`

	Tokens        []string         `json:"tokens,omitempty"`
	TokenLogprobs []Logprob        `json:"token_logprobs,omitempty"`
	TopLogprobs   []map[string]any `json:"top_logprobs,omitempty"` // omitted if none are requested
	TextOffset    []int            `json:"text_offset,omitempty"`
}

// TokenLogprob is a token with its log-probability, and the most likely tokens at its position.
type TokenLogprob struct {
	Token       string          `json:"token"`
	Logprob     Logprob         `json:"logprob"`
	Bytes       []int           `json:"bytes"`
	TopLogprobs *[]TokenLogprob `json:"top_logprobs,omitempty"`
}

// Logprob is a natural logarithm. A value that JSON cannot represent is -9999, as in OpenAI's API.
type Logprob float32

// unlikely is what OpenAI writes for a token that is too unlikely to report.
const unlikely = "-9999.0"

// MarshalJSON implements json.Marshaler.
func (p Logprob) MarshalJSON() ([]byte, error) {
	if f := float64(p); math.IsInf(f, 0) || math.IsNaN(f) {
		return []byte(unlikely), nil
	}
	return strconv.AppendFloat(nil, float64(p), 'g', -1, 32), nil
}

// Token is a generated token, or a token of a prompt.
type Token struct {
	ID      int32
	Bytes   []byte // bytes of its text, or of its name if it is a special token; nil without a tokenizer
	Logprob float32
	Top     []Token // the most likely ones at its position, if requested
}

// text returns a token as text: bytes that are not UTF-8 are escaped as OpenAI does.
func (t *Token) text() string {
	if utf8.Valid(t.Bytes) {
		return string(t.Bytes)
	}
	var b strings.Builder
	b.WriteString("bytes:")
	for _, c := range t.Bytes {
		fmt.Fprintf(&b, "\\x%02x", c)
	}
	return b.String()
}

func (t *Token) entry() TokenLogprob {
	e := TokenLogprob{Token: t.text(), Logprob: Logprob(t.Logprob), Bytes: make([]int, len(t.Bytes))}
	for i, b := range t.Bytes {
		e.Bytes[i] = int(b)
	}
	return e
}

// ChatLogprobs returns log-probabilities in the form of chats.
func ChatLogprobs(tokens []Token) *Logprobs {
	content := make([]TokenLogprob, len(tokens))
	for i := range tokens {
		top := make([]TokenLogprob, len(tokens[i].Top))
		for j := range top {
			top[j] = tokens[i].Top[j].entry()
		}
		content[i] = tokens[i].entry()
		content[i].TopLogprobs = &top
	}
	return &Logprobs{Content: &content}
}

// PromptLogprobs returns log-probabilities of a prompt's tokens in vLLM's form: for each token an object with it and
// the likeliest ones by their ids, and null for the first. A token that is not among the likeliest has no rank.
func PromptLogprobs(tokens []Token) json.RawMessage {
	b := []byte{'['}
	for i := range tokens {
		t := &tokens[i]
		if i == 0 {
			b = append(b, "null"...)
			continue
		}
		rank := 1 + slices.IndexFunc(t.Top, func(top Token) bool { return top.ID == t.ID })
		b = append(b, ",{"...)
		b = t.appendRanked(b, rank)
		for k := range t.Top {
			if t.Top[k].ID != t.ID {
				b = t.Top[k].appendRanked(append(b, ','), k+1)
			}
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendRanked appends a token with its rank among the likeliest; 0 means that it is not among them.
func (t *Token) appendRanked(b []byte, rank int) []byte {
	entry := struct {
		Logprob Logprob `json:"logprob"`
		Rank    *int    `json:"rank"`
		Text    *string `json:"decoded_token"`
	}{Logprob: Logprob(t.Logprob)}
	if rank > 0 {
		entry.Rank = &rank
	}
	if t.Bytes != nil {
		text := t.text()
		entry.Text = &text
	}
	b = append(strconv.AppendInt(append(b, '"'), int64(t.ID), 10), `":`...)
	out := bytes.NewBuffer(b)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(entry) // entry has nothing that cannot be encoded
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// TextLogprobs returns log-probabilities in the form of completions. Offsets count characters.
func TextLogprobs(tokens []Token) *Logprobs {
	l := &Logprobs{}
	wanted := slices.ContainsFunc(tokens, func(t Token) bool { return t.Top != nil })
	offset := 0
	for i := range tokens {
		t := &tokens[i]
		text := t.text()
		top := map[string]any{}
		for j := range t.Top {
			if name := t.Top[j].text(); top[name] == nil { // keep the first, which is the likeliest
				top[name] = Logprob(t.Top[j].Logprob)
			}
		}
		if t.Top != nil && top[text] == nil { // the generated token is always included
			top[text] = Logprob(t.Logprob)
		}
		l.Tokens = append(l.Tokens, text)
		l.TokenLogprobs = append(l.TokenLogprobs, Logprob(t.Logprob))
		if wanted {
			l.TopLogprobs = append(l.TopLogprobs, top)
		}
		l.TextOffset = append(l.TextOffset, offset)
		offset += utf8.RuneCount(t.Bytes)
	}
	return l
}

// Append appends the line, with its newline.
func (l *Line) Append(b []byte) ([]byte, error) {
	out := bytes.NewBuffer(b)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(l)
	return out.Bytes(), err
}

// ErrNotResponse reports that a line is not from an output file.
var ErrNotResponse = errors.New("it is not a response line of OpenAI's batch format")

// ParseLine parses a line of an output file, written by Quire or others.
func ParseLine(raw json.RawMessage) (*Line, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil || keys["custom_id"] == nil || keys["response"] == nil {
		return nil, ErrNotResponse
	}
	var l Line
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrNotResponse, err)
	}
	return &l, nil
}

// Failure returns why a line has no choices; "" if it has some.
func (l *Line) Failure() string {
	r := l.Response
	switch {
	case r != nil && r.Body != nil && r.Body.Problem != nil && r.Body.Problem.Message != "":
		return r.Body.Problem.Message
	case !absent(l.Error):
		return message(l.Error)
	case r == nil:
		return "it has no response"
	case r.Body == nil || len(r.Body.Choices)+len(r.Body.Data)+len(r.Body.Results) == 0:
		return fmt.Sprintf("it has status %d and no choices", r.StatusCode)
	}
	return ""
}

// message returns the text of an error in the forms that lines of OpenAI and vLLM have.
func message(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		return text
	}
	var object struct {
		Message string `json:"message"`
		Error   *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(raw, &object) == nil {
		if object.Message != "" {
			return object.Message
		}
		if object.Error != nil && object.Error.Message != "" {
			return object.Error.Message
		}
	}
	var short bytes.Buffer
	if json.Compact(&short, raw) != nil {
		return string(raw)
	}
	return short.String() // as Append writes it
}

// TextOf returns the text of a choice.
func (c *Choice) TextOf() string {
	switch {
	case c.Message != nil && c.Message.Content != nil:
		return *c.Message.Content
	case c.Text != nil:
		return *c.Text
	}
	return ""
}

// LogprobsOf returns the log-probabilities of a choice's tokens, nil if it has none.
func (c *Choice) LogprobsOf() (all []float32) {
	if c.Logprobs == nil {
		return nil
	}
	all = []float32{}
	if c.Logprobs.Content != nil {
		for _, t := range *c.Logprobs.Content {
			all = append(all, float32(t.Logprob))
		}
	}
	for _, p := range c.Logprobs.TokenLogprobs {
		all = append(all, float32(p))
	}
	return all
}

// TokensOf returns how many tokens choice i of n has. If the line does not state it, the first choice has all.
func (u *Usage) TokensOf(i, n int) int {
	switch {
	case u == nil:
		return 0
	case len(u.ByChoice) == n:
		return u.ByChoice[i]
	case i == 0:
		return u.CompletionTokens
	}
	return 0
}
