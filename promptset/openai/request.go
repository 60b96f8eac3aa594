// Package openai reads the request lines of OpenAI's batch files, and writes and reads their response lines.
package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Endpoint is what a line asks for.
type Endpoint string

// The endpoints that are served.
const (
	Chat        Endpoint = "/v1/chat/completions"
	Completions Endpoint = "/v1/completions"
)

// PromptKey is the member of the body that has the prompt.
func (e Endpoint) PromptKey() string {
	if e == Chat {
		return "messages"
	}
	return "prompt"
}

// served says which endpoints may be given.
const served = string(Chat) + " or " + string(Completions)

// others are endpoints of OpenAI and vLLM that are not served, by what ends their URL.
var others = []struct{ suffix, what string }{
	{"/embeddings", "embeddings"},
	{"/responses", "the Responses API"},
	{"/moderations", "moderation"},
	{"/images/generations", "images"},
	{"/images/edits", "images"},
	{"/videos", "videos"},
	{"/audio/speech", "speech"},
	{"/audio/transcriptions", "transcriptions"},
	{"/audio/translations", "translations of speech"},
	{"/score", "scores of pairs of texts"},
	{"/rerank", "ranks of documents"},
	{"/classify", "classes of texts"},
	{"/pooling", "hidden states"},
}

// Keys are the members of a request line.
var Keys = []string{"custom_id", "method", "url", "body"}

// Request is a line of a batch file.
type Request struct {
	CustomID string // empty where the line has none that can be used
	URL      Endpoint
	Body     json.RawMessage // a JSON object, of a good line
}

// ParseRequest reads a line by the values of its members; get returns nil for one that is not there. The error says
// what is wrong with the line. What of the request is known is returned with it.
func ParseRequest(get func(key string) json.RawMessage) (r Request, err error) {
	text := func(key string) (s string) {
		raw := get(key)
		switch {
		case err != nil:
		case absent(raw):
			err = fmt.Errorf("%s is missing; a line has %s", key, strings.Join(Keys, ", "))
		case json.Unmarshal(raw, &s) != nil:
			err = fmt.Errorf("%s is %s, but must be text", key, shorten(raw))
		case s == "":
			err = fmt.Errorf("%s is empty; give it text", key)
		}
		return s
	}
	r.CustomID = text("custom_id")
	method, url := text("method"), text("url")
	r.URL = Endpoint(url)
	if err == nil && method != "POST" {
		err = fmt.Errorf("method is %q, but must be POST", method)
	}
	if err == nil {
		err = r.URL.check()
	}
	if err == nil {
		r.Body, err = body(get("body"))
	}
	return r, err
}

// check says why an endpoint is not served.
func (e Endpoint) check() error {
	if e == Chat || e == Completions {
		return nil
	}
	for _, o := range others {
		if strings.HasSuffix(string(e), o.suffix) {
			return fmt.Errorf("url is %q: %s cannot be asked for; give %s", e, o.what, served)
		}
	}
	return fmt.Errorf("url is %q, but must be %s", e, served)
}

func body(raw json.RawMessage) (json.RawMessage, error) {
	switch {
	case absent(raw):
		return nil, errors.New("body is missing; give the parameters of the request")
	case raw[0] != '{':
		return nil, fmt.Errorf("body is %s, but must be an object with the parameters of the request", shorten(raw))
	}
	return raw, nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || raw[0] == 'n' }

// shorten cuts a JSON value for a message.
func shorten(raw json.RawMessage) string {
	const most = 40
	if len(raw) <= most {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:most]), "") + "..."
}

// IsRequest says whether an object with these keys is a request line: it has all of [Keys].
func IsRequest(has func(key string) bool) bool {
	return !slices.ContainsFunc(Keys, func(k string) bool { return !has(k) })
}

// Prompt is what the body of a request for completions gives as prompt: text, or token ids as a JSON list of numbers.
type Prompt struct {
	Text   json.RawMessage // a JSON text, or nil
	Tokens json.RawMessage // a JSON list of numbers, or nil
}

// ParsePrompt reads a prompt: text, a list of token ids, or a list with one of either.
func ParsePrompt(raw json.RawMessage) (p Prompt, err error) {
	wrong := fmt.Errorf("prompt is %s, but must be text or a list of token ids", shorten(raw))
	switch {
	case absent(raw):
		return p, errors.New("prompt is missing; give text or a list of token ids")
	case raw[0] == '"':
		return Prompt{Text: raw}, nil
	case raw[0] != '[':
		return p, wrong
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return p, wrong
	}
	if len(items) == 0 {
		return p, errors.New("prompt is an empty list; give text or a list of token ids")
	}
	switch first := items[0]; first[0] {
	case '"', '[':
		if len(items) > 1 {
			return p, fmt.Errorf("prompt is a list of %d prompts; give each a line of its own", len(items))
		}
		if first[0] == '"' {
			return Prompt{Text: first}, nil
		}
		return Prompt{Tokens: first}, nil
	}
	return Prompt{Tokens: raw}, nil
}
