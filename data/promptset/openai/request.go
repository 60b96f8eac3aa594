// Package openai parses the request lines of OpenAI's batch files, and writes and parses their response lines.
package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Endpoint is the API endpoint that a line asks for.
type Endpoint string

// The supported endpoints.
const (
	Chat        Endpoint = "/v1/chat/completions"
	Completions Endpoint = "/v1/completions"

	// Each of these is in jobs of one task, which have no others. Score and the two after it are of vLLM and Jina.
	Embeddings Endpoint = "/v1/embeddings"
	Classify   Endpoint = "/v1/classify"
	Score      Endpoint = "/v1/score"
	Rerank     Endpoint = "/v1/rerank"
)

// bodies are the members of the bodies of endpoints of encoders, besides those of all.
var bodies = map[Endpoint]struct {
	prompt, seconds string // the members with the prompt, and with the texts that make pairs with it; "" for none
	others          []string
}{
	Embeddings: {"input", "", []string{"encoding_format", "dimensions"}},
	Classify:   {"input", "", nil},
	Score:      {"text_1", "text_2", nil},
	Rerank:     {"query", "documents", []string{"top_n", "return_documents"}},
}

// aliases are other URLs of endpoints of encoders, by vLLM's names.
var aliases = map[Endpoint]Endpoint{"/classify": Classify, "/score": Score, "/rerank": Rerank, "/v2/rerank": Rerank}

// Known is the endpoint by its first name.
func (e Endpoint) Known() Endpoint { return cmp.Or(aliases[e], e) }

// renamed are other names that vLLM has for members of bodies.
var renamed = map[Endpoint]map[string]string{Score: {"queries": "text_1", "data_1": "text_1", "documents": "text_2",
	"items": "text_2", "data_2": "text_2"}}

// Member is the first name of a member of the body.
func (e Endpoint) Member(name string) string { return cmp.Or(renamed[e][name], name) }

// passed are members of vLLM with the values that change nothing; none stands for all values.
var passed = map[string][]string{
	"request_id": nil, "priority": nil, "cache_salt": nil, "add_special_tokens": {"true"},
	"truncation_side": {`"right"`}, "padding": {`"do_not_pad"`}, "mm_processor_kwargs": {"{}"},
	"embed_dtype": {`"float32"`}, "endianness": {`"native"`, `"little"`},
}

// Encodes reports whether the endpoint is of a task of an encoder.
func (e Endpoint) Encodes() bool { return bodies[e].prompt != "" }

// PromptKey returns the member of the body that has the prompt.
func (e Endpoint) PromptKey() string {
	switch {
	case e == Chat:
		return "messages"
	case e.Encodes():
		return bodies[e].prompt
	}
	return "prompt"
}

// SecondsKey returns the member of the body that has the texts which make pairs with the prompt; "" for none.
func (e Endpoint) SecondsKey() string { return bodies[e].seconds }

// CheckMember returns an error if the body of an endpoint of encoders may not have a member, or not with this value.
func (e Endpoint) CheckMember(member string, value json.RawMessage, has func(member string) bool) error {
	own := bodies[e]
	if slices.Contains([]string{"model", "user", "truncate_prompt_tokens", own.prompt}, member) ||
		member == own.seconds && member != "" || slices.Contains(own.others, member) {
		return nil
	}
	values, known := passed[member]
	switch {
	case known && (values == nil || slices.Contains(values, string(value))):
		return nil
	case known:
		return wrong(member, CodeNotThisValue, "%s is %s, and only %s is supported; leave it out", member,
			shorten(value), strings.Join(values, " or "))
	}
	instead := "leave it out"
	for _, needed := range []string{own.prompt, own.seconds} {
		if needed != "" && !has(needed) {
			instead = "give " + needed
			break
		}
	}
	return wrong(member, CodeUnknown, "body has %q, which is not a parameter of %s; %s", member, e, instead)
}

// served lists the supported endpoints for error messages.
const served = string(Chat) + " or " + string(Completions)

// others are endpoints of OpenAI and vLLM that are not supported, by the end of their URL.
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
	CustomID string // empty if the line has no usable one
	URL      Endpoint
	Body     json.RawMessage // a JSON object, if the line is valid
}

// Error states what is wrong with a line, as OpenAI's error objects do.
type Error struct {
	Param string // the member of the line or of its body
	Code  string
	What  string
}

func (e *Error) Error() string { return e.What }

// The codes of errors, by OpenAI's names.
const (
	CodeMissing       = "missing_required_parameter"
	CodeUnknown       = "unknown_parameter"
	CodeUnsupported   = "unsupported_parameter"
	CodeNotThisValue  = "unsupported_value"
	CodeInvalidType   = "invalid_type"
	CodeInvalidValue  = "invalid_value"
	CodeInvalidLine   = "invalid_json_line"
	CodeInvalidMethod = "invalid_method"
	CodeInvalidURL    = "invalid_url"
	CodeRepeatedID    = "duplicate_custom_id"
	CodeTooLong       = "context_length_exceeded"
	CodeNoModel       = "model_not_found"
)

func wrong(param, code, format string, args ...any) error {
	return &Error{param, code, fmt.Sprintf(format, args...)}
}

// ParseRequest parses a line from the values of its members; get returns nil for an absent one. The error states what
// is wrong with the line. The parts of the request that are known are returned with it.
func ParseRequest(get func(key string) json.RawMessage) (r Request, err error) {
	return parseRequest(get, Endpoint.check)
}

// ParseEncoded is ParseRequest for a job whose lines have these endpoints. what is what it makes.
func ParseEncoded(get func(key string) json.RawMessage, endpoints []Endpoint, what string) (r Request, err error) {
	return parseRequest(get, func(e Endpoint) error {
		if slices.Contains(endpoints, e.Known()) {
			return nil
		}
		names := make([]string, len(endpoints))
		for i, one := range endpoints {
			names[i] = string(one)
		}
		return wrong("url", CodeInvalidURL, "url is %q, and the job makes %s; give %s", e, what,
			strings.Join(names, " or "))
	})
}

func parseRequest(get func(key string) json.RawMessage, check func(Endpoint) error) (r Request, err error) {
	text := func(key string) (s string) {
		raw := get(key)
		switch {
		case err != nil:
		case absent(raw):
			err = wrong(key, CodeMissing, "%s is missing; a line has %s", key, strings.Join(Keys, ", "))
		case json.Unmarshal(raw, &s) != nil:
			err = wrong(key, CodeInvalidType, "%s is %s, but must be text", key, shorten(raw))
		case s == "":
			err = wrong(key, CodeInvalidValue, "%s is empty; give it text", key)
		}
		return s
	}
	r.CustomID = text("custom_id")
	method, url := text("method"), text("url")
	r.URL = Endpoint(url)
	if err == nil && method != "POST" {
		err = wrong("method", CodeInvalidMethod, "method is %q, but must be POST", method)
	}
	if err == nil {
		err = check(r.URL)
	}
	if err == nil {
		r.URL = r.URL.Known()
		r.Body, err = body(get("body"))
	}
	return r, err
}

// check returns an error if an endpoint is not supported.
func (e Endpoint) check() error {
	if e == Chat || e == Completions {
		return nil
	}
	for _, o := range others {
		if strings.HasSuffix(string(e), o.suffix) {
			return wrong("url", CodeInvalidURL, "url is %q: %s cannot be asked for; give %s", e, o.what, served)
		}
	}
	return wrong("url", CodeInvalidURL, "url is %q, but must be %s", e, served)
}

func body(raw json.RawMessage) (json.RawMessage, error) {
	switch {
	case absent(raw):
		return nil, wrong("body", CodeMissing, "body is missing; give the parameters of the request")
	case raw[0] != '{':
		return nil, wrong("body", CodeInvalidType,
			"body is %s, but must be an object with the parameters of the request", shorten(raw))
	}
	return raw, nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || raw[0] == 'n' }

// shorten truncates a JSON value for a message.
func shorten(raw json.RawMessage) string {
	const most = 40
	if len(raw) <= most {
		return string(raw)
	}
	return strings.ToValidUTF8(string(raw[:most]), "") + "..."
}

// IsRequest reports whether an object with these keys is a request line: it has all of [Keys].
func IsRequest(has func(key string) bool) bool {
	return !slices.ContainsFunc(Keys, func(k string) bool { return !has(k) })
}

// Prompt is a prompt in the body of a request for completions: text, or token ids as a JSON list of numbers.
type Prompt struct {
	Text   json.RawMessage // a JSON text, or nil
	Tokens json.RawMessage // a JSON list of numbers, or nil
}

// ParsePrompts parses prompts: text, a list of token ids, or a list of several of either.
func ParsePrompts(raw json.RawMessage) ([]Prompt, error) { return Completions.ParsePrompts(raw) }

// ParsePrompts parses the prompts of a request to an endpoint: see [ParsePrompts].
func (e Endpoint) ParsePrompts(raw json.RawMessage) ([]Prompt, error) {
	name := e.PromptKey()
	what := "text or a list of token ids"
	if e.SecondsKey() != "" {
		what = "one text"
	}
	mistyped := wrong(name, CodeInvalidType, "%s is %s, but must be %s", name, shorten(raw), what)
	switch {
	case absent(raw):
		return nil, wrong(name, CodeMissing, "%s is missing; give %s", name, what)
	case raw[0] == '"':
		return []Prompt{{Text: raw}}, nil
	case raw[0] != '[':
		return nil, mistyped
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil, mistyped
	}
	if len(items) == 0 {
		return nil, wrong(name, CodeInvalidValue, "%s is an empty list; give %s", name, what)
	}
	first := items[0][0]
	if first != '"' && first != '[' {
		return []Prompt{{Tokens: raw}}, nil
	}
	var prompts []Prompt
	for i, item := range items {
		switch {
		case item[0] != first:
			return nil, wrong(name, CodeInvalidType,
				"%s[%d] is %s, and others are not; give a list of texts or a list of lists of token ids", name, i,
				shorten(item))
		case first == '"':
			prompts = append(prompts, Prompt{Text: item})
		default:
			prompts = append(prompts, Prompt{Tokens: item})
		}
	}
	return prompts, nil
}
