// Package requests reads lines of OpenAI's batch files as rows; package openai defines the lines.
package requests

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
)

// Request is what a line of an OpenAI batch file requires of its answer. Rows of other files have none: a nil
// Request.
type Request struct {
	CustomID  string // empty if the line has no usable one
	Endpoint  openai.Endpoint
	ModelName string // model that the line names; empty if it names none
	Logprobs  bool   // log-probabilities of the generated tokens are requested
	TokenIDs  bool   // token ids are requested
	AsIDs     bool   // tokens are named by their ids

	Base64     bool // vectors are requested in base64
	Dimensions int  // of vectors; 0 stands for the job's

	TopN             int  // how many documents are ranked; 0 stands for the job's number
	WithoutDocuments bool // the answer does not repeat them
}

// source is the source of a row from a batch file.
type source struct {
	record.Object
	request *Request
}

// Of returns the request of a row, nil if the row has none.
func Of(row *record.Row) *Request {
	if line, ok := row.Source.(source); ok {
		return line.request
	}
	return nil
}

// PromptParam returns the member of the line's body that has the prompt; empty for other rows.
func (r *Request) PromptParam() string {
	if r == nil {
		return ""
	}
	return r.Endpoint.PromptKey()
}

// Model returns the model that the line names, "" if it names none.
func (r *Request) Model() string {
	if r == nil {
		return ""
	}
	return r.ModelName
}

// VectorSize returns how many dimensions the line asks for, 0 if it asks for none.
func (r *Request) VectorSize() int {
	if r == nil {
		return 0
	}
	return r.Dimensions
}

// Ranks returns how many documents the line asks to rank, 0 if it does not state it.
func (r *Request) Ranks() int {
	if r == nil {
		return 0
	}
	return r.TopN
}

// WantsTokenIDs reports whether the line asks for token ids.
func (r *Request) WantsTokenIDs() bool { return r != nil && r.TokenIDs }

// Is reports whether an object is a line of an OpenAI batch file, rather than a row with such columns.
func Is(object []jsonvalue.Member) bool {
	has := func(key string) bool { return jsonvalue.Find(object, key) != nil }
	return openai.IsRequest(has) && !slices.ContainsFunc(schema.PromptNames, has)
}

// reader sets a row from a line of a batch file.
type reader struct {
	*record.Builder
	request *Request
}

// decodeRequest sets the row's fields from a line of an OpenAI batch file, and returns which prompts are given.
func decodeRequest(row *record.Builder, object record.Object, m *record.Mapping) (given []string) {
	get := func(key string) json.RawMessage { return jsonvalue.Find(object, key) }
	line, err := openai.ParseRequest(get)
	if reads := m.Reads; len(reads.Endpoints) > 0 {
		line, err = openai.ParseEncoded(get, reads.Endpoints, reads.Makes)
		own := *m
		if own.Reads.Prompt, own.Reads.Seconds = "", nil; line.URL.SecondsKey() != "" {
			own.Reads.Seconds = []string{line.URL.SecondsKey()}
		}
		m = &own
	}
	r := reader{row, &Request{CustomID: line.CustomID, Endpoint: line.URL}}
	row.ID, row.Source = line.CustomID, source{object, r.request}
	row.InBody, row.PromptParam = true, r.request.PromptParam()
	if err != nil {
		r.LostID = line.CustomID == ""
		r.failWith(err)
		return nil
	}
	body, err := jsonvalue.Members(line.Body)
	if err != nil {
		r.Blame("body", openai.CodeInvalidLine, func() { r.Fail("body: %v", err) })
		return nil
	}
	for i, m := range body {
		if name := line.URL.Member(m.Key); jsonvalue.Find(body, name) == nil {
			body[i].Key = name
		}
	}
	r.readAnswerForm(body)
	for _, o := range body {
		r.Blame(o.Key, openai.CodeUnsupported, func() { r.judgeBody(o, body) })
	}
	body = r.translated(body)
	before := r.Err
	given = r.DecodeJSON(body, m)
	if rowErr, _ := r.Err.(*record.RowError); before == nil && rowErr != nil && rowErr.Param == "prompt_token_ids" {
		rowErr.Param = r.PromptParam
	}
	if len(given) == 0 {
		r.Blame(r.PromptParam, openai.CodeMissing, func() { r.Fail("body has no %s", r.PromptParam) })
	}
	if key := line.URL.SecondsKey(); key != "" && r.Seconds == nil {
		r.Blame(key, openai.CodeMissing, func() { r.Fail("body has no %s", key) })
	}
	return given
}

// failWith is Fail with an error that may come from package openai.
func (r reader) failWith(err error) {
	cause := &openai.Error{}
	errors.As(err, &cause)
	r.Blame(cause.Param, cause.Code, func() { r.Fail("%v", err) })
}

// readAnswerForm reads what the answer must contain. Values of wrong types are reported elsewhere.
func (r reader) readAnswerForm(body []jsonvalue.Member) {
	if raw := jsonvalue.Find(body, "model"); !jsonvalue.IsNull(raw) && json.Unmarshal(raw,
		&r.request.ModelName) != nil {
		r.Blame("model", "", func() { r.Mistyped("model is %s, but must be text", jsonvalue.Describe(raw)) })
	}
	if r.request.Endpoint.Encodes() {
		r.readVectorForm(body)
		return
	}
	raw := jsonvalue.Find(body, "logprobs")
	if r.request.Logprobs = string(raw) == "true"; r.request.Endpoint == openai.Completions {
		_, r.request.Logprobs = jsonvalue.ParseNumber(raw)
	}
	if raw = jsonvalue.Find(body, "top_logprobs"); !jsonvalue.IsNull(raw) && string(raw) != "0" && !r.request.Logprobs {
		r.Blame("top_logprobs", openai.CodeInvalidValue, func() {
			r.Fail("top_logprobs is %s and logprobs is not true; give both, or none", jsonvalue.Abbreviate(raw))
		})
	}
	r.request.TokenIDs = string(jsonvalue.Find(body, "return_token_ids")) == "true"
	r.request.AsIDs = string(jsonvalue.Find(body, "return_tokens_as_token_ids")) == "true"
}

// readVectorForm reads in which form vectors are requested.
func (r reader) readVectorForm(body []jsonvalue.Member) {
	if raw := jsonvalue.Find(body, "encoding_format"); !jsonvalue.IsNull(raw) {
		if r.request.Base64 = string(raw) == `"base64"`; !r.request.Base64 && string(raw) != `"float"` {
			r.Blame("encoding_format", openai.CodeInvalidValue, func() {
				r.Fail("encoding_format is %s, but must be float or base64", jsonvalue.Abbreviate(raw))
			})
		}
	}
	r.request.Dimensions, _ = r.readCount(body, "dimensions", 1)
	if n, ok := r.readCount(body, "top_n", 0); ok {
		r.request.TopN = cmp.Or(n, math.MaxInt32) // vLLM has 0 for all
	}
	if raw := jsonvalue.Find(body, "return_documents"); !jsonvalue.IsNull(raw) {
		var wanted bool
		if json.Unmarshal(raw, &wanted) != nil {
			r.Blame("return_documents", openai.CodeInvalidType, func() {
				r.Fail("return_documents is %s, but must be true or false", jsonvalue.Abbreviate(raw))
			})
		}
		r.request.WithoutDocuments = !wanted
	}
}

// readCount reads a member that is a count, of least or more; false means that it is absent or wrong.
func (r reader) readCount(body []jsonvalue.Member, name string, least int) (int, bool) {
	raw := jsonvalue.Find(body, name)
	if jsonvalue.IsNull(raw) {
		return 0, false
	}
	v, ok := jsonvalue.ParseNumber(raw)
	if v, ok = jsonvalue.Whole(v, ok); !ok || v.Int < int64(least) || v.Int > math.MaxInt32 {
		r.Blame(name, openai.CodeInvalidValue, func() {
			r.Fail("%s is %s, but must be a whole number of %d or more", name, jsonvalue.Abbreviate(raw), least)
		})
		return 0, false
	}
	return int(v.Int), true
}

// judgeBody rejects members of a body that OpenAI's and vLLM's servers do not have, and members that do not apply to a
// batch.
func (r reader) judgeBody(m jsonvalue.Member, body []jsonvalue.Member) {
	if jsonvalue.IsNull(m.Raw) {
		return
	}
	if endpoint := r.request.Endpoint; endpoint.Encodes() {
		has := func(key string) bool { return !jsonvalue.IsNull(jsonvalue.Find(body, key)) }
		if err := endpoint.CheckMember(m.Key, m.Raw, has); err != nil {
			r.failWith(err)
		}
		return
	}
	switch m.Key {
	case r.request.Endpoint.PromptKey():
		return
	case "stream":
		if string(m.Raw) != "false" {
			r.Fail("stream is %s, but the answers of a batch are not streamed; leave it out",
				jsonvalue.Abbreviate(m.Raw))
		}
	case "return_prompt_text", "return_token_offsets":
		if string(m.Raw) != "false" {
			r.Fail("%s is %s, and answers do not have them; leave it out", m.Key, jsonvalue.Abbreviate(m.Raw))
		}
	case "logprobs":
		if isBool := m.Raw[0] == 't' || m.Raw[0] == 'f'; isBool != (r.request.Endpoint == openai.Chat) {
			r.Mistyped("logprobs is %s, but must be %s", jsonvalue.Describe(m.Raw), map[bool]string{
				true: "true or false", false: "an integer"}[r.request.Endpoint == openai.Chat])
		}
	}
	if slices.ContainsFunc(parameter.Lookup(m.Key), func(p *parameter.Parameter) bool { return p.From != 0 }) {
		return
	}
	near := ""
	if name, ok := parameter.Near(m.Key); ok {
		near = fmt.Sprintf("; did you mean %q?", name)
	} else if foreign, ok := parameter.LookupForeign(m.Key); ok && foreign.Instead != "" {
		near = fmt.Sprintf("; it is one of %s, and Quire's name is %q", foreign.Engines, foreign.Instead)
	}
	r.Blame(m.Key, openai.CodeUnknown, func() {
		r.Fail("body has %q, which is not a parameter of %s; leave it out%s", m.Key, r.request.Endpoint, near)
	})
}

// translated returns a body whose prompt is in the columns that rows use for it.
func (r reader) translated(body []jsonvalue.Member) []jsonvalue.Member {
	if r.request.Endpoint == openai.Chat {
		return body
	}
	body = r.withTexts(body)
	i := slices.IndexFunc(body, func(m jsonvalue.Member) bool { return m.Key == r.PromptParam })
	if i < 0 || jsonvalue.IsNull(body[i].Raw) {
		return body
	}
	prompts, err := r.request.Endpoint.ParsePrompts(body[i].Raw)
	if err != nil {
		r.failWith(err)
		return body
	}
	if r.request.Endpoint.SecondsKey() != "" && (len(prompts) > 1 || prompts[0].Tokens != nil) {
		r.Blame(r.PromptParam, openai.CodeInvalidType, func() {
			r.Fail("%s is %s, but must be one text: give each its own line", r.PromptParam,
				jsonvalue.Abbreviate(body[i].Raw))
		})
		return body
	}
	for _, p := range prompts[1:] {
		r.Blame(r.PromptParam, openai.CodeInvalidType, func() { r.addPrompt(p) })
	}
	body = slices.Clone(body)
	if body[i] = (jsonvalue.Member{Key: "prompt", Raw: prompts[0].Text}); prompts[0].Tokens != nil {
		body[i] = jsonvalue.Member{Key: "prompt_token_ids", Raw: prompts[0].Tokens}
	}
	return body
}

// withTexts returns a body whose documents are texts: they may be objects with a text.
func (r reader) withTexts(body []jsonvalue.Member) []jsonvalue.Member {
	i := slices.IndexFunc(body, func(m jsonvalue.Member) bool {
		return m.Key == r.request.Endpoint.SecondsKey() && m.Key != ""
	})
	var items []json.RawMessage
	if i < 0 || json.Unmarshal(body[i].Raw, &items) != nil {
		return body
	}
	for k, item := range items {
		var object map[string]json.RawMessage
		if json.Unmarshal(item, &object) != nil || object == nil {
			continue
		}
		if len(object) != 1 || object["text"] == nil {
			r.Blame(body[i].Key, openai.CodeInvalidType, func() {
				r.Fail("%s[%d] is an object with members other than text, which are not read; give text", body[i].Key,
					k)
			})
		}
		items[k] = object["text"]
	}
	body = slices.Clone(body)
	body[i].Raw, _ = json.Marshal(items)
	return body
}

// addPrompt adds a prompt after others.
func (r reader) addPrompt(p openai.Prompt) {
	name, raw := "prompt", p.Text
	if p.Tokens != nil {
		name, raw = "prompt_token_ids", p.Tokens
	}
	one := record.Builder{Row: &record.Row{}, PromptParam: fmt.Sprintf("%s[%d]", r.PromptParam, len(r.More)+1)}
	if !one.DecodeKnown(name, raw) {
		r.Fail("%s is %s, but must be text or a list of token ids", one.PromptParam, jsonvalue.Abbreviate(raw))
	} else if rowErr, _ := one.Err.(*record.RowError); rowErr != nil {
		r.Fail("%s", rowErr.What)
	}
	r.More = append(r.More, record.Prompt{Text: one.Prompt, TokenIDs: one.TokenIDs})
}

// PromptText returns the prompt of a line of a batch file, as text for people.
func PromptText(object record.Object) string {
	r := &record.Builder{Row: &record.Row{}}
	m, url := &record.Mapping{}, ""
	if _ = json.Unmarshal(jsonvalue.Find(object, "url"), &url); openai.Endpoint(url).Known().Encodes() {
		m.Reads = record.Reads{PromptsAlone: true, Endpoints: []openai.Endpoint{openai.Endpoint(url).Known()}}
	}
	if given := decodeRequest(r, object, m); len(given) == 1 {
		r.Kind = record.PromptKinds[given[0]]
	}
	if len(r.More) > 0 { // which one a completion belongs to follows from n, which the job may set
		body, _ := jsonvalue.Members(jsonvalue.Find(object, "body"))
		r.Kind, r.Prompt = record.KindText, string(jsonvalue.Find(body, r.PromptParam))
	}
	return r.PromptText()
}
