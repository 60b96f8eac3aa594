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
	Error    json.RawMessage `json:"error"` // why there was no response; null in what Quire writes
}

// Response is what a server would have answered.
type Response struct {
	StatusCode int    `json:"status_code"`
	RequestID  string `json:"request_id"`
	Body       *Body  `json:"body"`
}

// Body is the answer: choices, or an error alone.
type Body struct {
	Problem *Problem `json:"error,omitempty"`

	ID                string   `json:"id,omitempty"`
	Object            string   `json:"object,omitempty"`
	Created           *int64   `json:"created,omitempty"`
	Model             string   `json:"model,omitempty"`
	Choices           []Choice `json:"choices,omitempty"`
	Usage             *Usage   `json:"usage,omitempty"`
	SystemFingerprint string   `json:"system_fingerprint,omitempty"`

	ScoredPrompt // of chats
}

// ScoredPrompt is what vLLM's answers have of a prompt on request.
type ScoredPrompt struct {
	PromptLogprobs json.RawMessage `json:"prompt_logprobs,omitempty"`
	PromptTokenIDs []int32         `json:"prompt_token_ids,omitempty"`
}

// Names of objects.
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

// Types of problems.
const (
	InvalidRequest = "invalid_request_error"
	ServerError    = "server_error"
)

// ProblemOf returns the error object of a response with a status. Its param and its code may be empty.
func ProblemOf(status int, of Error) *Problem {
	p := &Problem{Message: of.What, Type: InvalidRequest}
	if status >= 500 {
		p.Type = ServerError
	}
	if of.Param != "" {
		p.Param = &of.Param
	}
	if of.Code != "" {
		p.Code, _ = json.Marshal(of.Code)
	}
	return p
}

// Choice is a completion.
type Choice struct {
	Index        int       `json:"index"`
	Message      *Message  `json:"message,omitempty"` // of chats
	Text         *string   `json:"text,omitempty"`    // of completions
	Logprobs     *Logprobs `json:"logprobs"`
	FinishReason string    `json:"finish_reason"`
	TokenIDs     []int32   `json:"token_ids,omitempty"` // vLLM's, where return_token_ids asks for them

	ScoredPrompt // of completions
}

// Message is the completion of a chat.
type Message struct {
	Role      string          `json:"role"`
	Content   *string         `json:"content"` // nil where there are calls of tools alone
	Refusal   *string         `json:"refusal"`
	Reasoning string          `json:"reasoning,omitempty"` // vLLM's, where the text is taken apart
	ToolCalls json.RawMessage `json:"tool_calls,omitempty"`
}

// NewMessage returns the message of a completion: its reasoning, its text, and its calls of tools as a JSON list; ""
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

// Reasons for which a choice ended that Quire tells otherwise.
const (
	toolCalls    = "tool_calls" // it has some
	stop, length = "stop", "length"
)

// FinishWith sets why a choice ended: for calls of tools, where it has some and was not cut.
func (c *Choice) FinishWith(reason string) {
	if c.FinishReason = reason; reason == stop && c.Message != nil && len(c.Message.ToolCalls) > 0 {
		c.FinishReason = toolCalls
	}
}

// Finish returns why a choice ended, by the reasons that Quire tells.
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
	// ByChoice has the tokens of each of several choices, which OpenAI's lines do not tell.
	ByChoice []int `json:"completion_tokens_by_choice,omitempty"`
}

// Logprobs are the log-probabilities of a choice's tokens: Content of a chat, the other fields of a completion.
type Logprobs struct {
	Content *[]TokenLogprob `json:"content,omitempty"`

	Tokens        []string         `json:"tokens,omitempty"`
	TokenLogprobs []Logprob        `json:"token_logprobs,omitempty"`
	TopLogprobs   []map[string]any `json:"top_logprobs,omitempty"` // left out where none are wanted
	TextOffset    []int            `json:"text_offset,omitempty"`
}

// TokenLogprob is a token with its log-probability, and at a position the most likely ones.
type TokenLogprob struct {
	Token       string          `json:"token"`
	Logprob     Logprob         `json:"logprob"`
	Bytes       []int           `json:"bytes"`
	TopLogprobs *[]TokenLogprob `json:"top_logprobs,omitempty"`
}

// Logprob is a natural logarithm. What JSON has no number for is -9999, as in OpenAI's API.
type Logprob float32

// unlikely is what OpenAI writes for what is not likely enough to be told.
const unlikely = "-9999.0"

// MarshalJSON implements json.Marshaler.
func (p Logprob) MarshalJSON() ([]byte, error) {
	if f := float64(p); math.IsInf(f, 0) || math.IsNaN(f) {
		return []byte(unlikely), nil
	}
	return strconv.AppendFloat(nil, float64(p), 'g', -1, 32), nil
}

// Token is a token that was drawn, or of a prompt.
type Token struct {
	ID      int32
	Bytes   []byte // of its text, or of its name where it is a special one; nil without a tokenizer
	Logprob float32
	Top     []Token // the most likely ones at its position, where they are wanted
}

// text is a token as text: where its bytes are not UTF-8, they are written out as OpenAI does.
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

// ChatLogprobs is the form that log-probabilities have in chats.
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

// PromptLogprobs is the form that vLLM gives the log-probabilities of the tokens of a prompt: for each an object with
// the token and the likeliest ones by their ids, and null for the first. A token that is none of the likeliest has no
// rank.
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

// appendRanked appends a token with its rank among the likeliest; 0 is none of them.
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
	_ = enc.Encode(entry) // which has nothing that cannot be encoded
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// TextLogprobs is the form that log-probabilities have in completions. Offsets count characters.
func TextLogprobs(tokens []Token) *Logprobs {
	l := &Logprobs{}
	wanted := slices.ContainsFunc(tokens, func(t Token) bool { return t.Top != nil })
	offset := 0
	for i := range tokens {
		t := &tokens[i]
		text := t.text()
		top := map[string]any{}
		for j := range t.Top {
			if name := t.Top[j].text(); top[name] == nil { // the first, which is the likeliest
				top[name] = Logprob(t.Top[j].Logprob)
			}
		}
		if t.Top != nil && top[text] == nil { // the drawn token is always there
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

// Append appends the line, with its line end.
func (l *Line) Append(b []byte) ([]byte, error) {
	out := bytes.NewBuffer(b)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(l)
	return out.Bytes(), err
}

// ErrNotResponse says that a line is not one of an output file.
var ErrNotResponse = errors.New("it is not a response line of OpenAI's batch format")

// ParseLine reads a line of an output file, of Quire or of others.
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

// Failure returns why a line has no choices; "" where it has some.
func (l *Line) Failure() string {
	r := l.Response
	switch {
	case r != nil && r.Body != nil && r.Body.Problem != nil && r.Body.Problem.Message != "":
		return r.Body.Problem.Message
	case !absent(l.Error):
		return message(l.Error)
	case r == nil:
		return "it has no response"
	case r.Body == nil || len(r.Body.Choices) == 0:
		return fmt.Sprintf("it has status %d and no choices", r.StatusCode)
	}
	return ""
}

// message is the text of an error in the forms that it has in lines of OpenAI and vLLM.
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

// LogprobsOf returns the log-probabilities of a choice's tokens, nil where it has none.
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

// TokensOf returns how many tokens choice i of n has. Where the line does not tell, the first choice has all.
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
