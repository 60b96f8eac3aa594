package promptset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset/openai"
)

// Request is what of a line of an OpenAI batch file is for its answer. Rows of other files have none: a nil Request.
type Request struct {
	customID string // empty where the line has none that can be used
	endpoint openai.Endpoint
	model    string // that the line names; empty where it names none
	logprobs bool   // of the drawn tokens are wanted
	tokenIDs bool   // are wanted
	asIDs    bool   // tokens are named by their ids
}

// requestLine is the source of a row that is a line of a batch file.
type requestLine struct {
	Object
	request *Request
}

// RequestOf returns the request that a row is, nil for a row that is none.
func RequestOf(row *Row) *Request {
	if line, ok := row.Source.(requestLine); ok {
		return line.request
	}
	return nil
}

// PromptParam is the member of the line's body that has the prompt; empty for other rows.
func (r *Request) PromptParam() string {
	if r == nil {
		return ""
	}
	return r.endpoint.PromptKey()
}

// Model returns the model that the line names, "" where it names none.
func (r *Request) Model() string {
	if r == nil {
		return ""
	}
	return r.model
}

// WantsTokenIDs says that the line asks for the ids of tokens.
func (r *Request) WantsTokenIDs() bool { return r != nil && r.tokenIDs }

// isRequest says whether an object is a line of an OpenAI batch file, and no row with columns of such names.
func isRequest(object []member) bool {
	has := func(key string) bool { return valueOf(object, key) != nil }
	return openai.IsRequest(has) && !slices.ContainsFunc(promptNames, has)
}

// requestReader sets a row to what a line of a batch file has.
type requestReader struct {
	*Builder
	request *Request
}

// decodeRequest sets the row's fields from a line of an OpenAI batch file, and returns which prompts are given.
func decodeRequest(row *Builder, object Object, m *Mapping) (given []string) {
	line, err := openai.ParseRequest(func(key string) json.RawMessage { return valueOf(object, key) })
	r := requestReader{row, &Request{customID: line.CustomID, endpoint: line.URL}}
	row.ID, row.Source = line.CustomID, requestLine{object, r.request}
	row.inBody, row.promptParam = true, r.request.PromptParam()
	if err != nil {
		r.LostID = line.CustomID == ""
		r.failWith(err)
		return nil
	}
	body, err := membersOf(line.Body)
	if err != nil {
		r.blame("body", openai.CodeInvalidLine, func() { r.fail("body: %v", err) })
		return nil
	}
	r.readAnswerForm(body)
	for _, o := range body {
		r.blame(o.key, openai.CodeUnsupported, func() { r.judgeBody(o) })
	}
	given = r.decodeJSON(r.translated(body), m)
	if len(given) == 0 {
		r.blame(r.promptParam, openai.CodeMissing, func() { r.fail("body has no %s", r.promptParam) })
	}
	return given
}

// failWith is fail with an error that may be of package openai.
func (r requestReader) failWith(err error) {
	of := &openai.Error{}
	errors.As(err, &of)
	r.blame(of.Param, of.Code, func() { r.fail("%v", err) })
}

// readAnswerForm reads what the answer is to have. Values of wrong types are judged elsewhere.
func (r requestReader) readAnswerForm(body []member) {
	if raw := valueOf(body, "model"); !isNullJSON(raw) && json.Unmarshal(raw, &r.request.model) != nil {
		r.blame("model", "", func() { r.mistyped("model is %s, but must be text", kindJSON(raw)) })
	}
	raw := valueOf(body, "logprobs")
	if r.request.logprobs = string(raw) == "true"; r.request.endpoint == openai.Completions {
		_, r.request.logprobs = parseNumber(raw)
	}
	if raw = valueOf(body, "top_logprobs"); !isNullJSON(raw) && string(raw) != "0" && !r.request.logprobs {
		r.blame("top_logprobs", openai.CodeInvalidValue, func() {
			r.fail("top_logprobs is %s and logprobs is not true; give both, or none", abbreviate(raw))
		})
	}
	r.request.tokenIDs = string(valueOf(body, "return_token_ids")) == "true"
	r.request.asIDs = string(valueOf(body, "return_tokens_as_token_ids")) == "true"
}

// judgeBody refuses a member of a body that is no parameter of OpenAI's or vLLM's servers, and what no batch has.
func (r requestReader) judgeBody(m member) {
	if isNullJSON(m.raw) {
		return
	}
	switch m.key {
	case r.request.endpoint.PromptKey():
		return
	case "stream":
		if string(m.raw) != "false" {
			r.fail("stream is %s, and the answers of a batch are no streams; leave it out", abbreviate(m.raw))
		}
	case "return_prompt_text", "return_token_offsets":
		if string(m.raw) != "false" {
			r.fail("%s is %s, and answers do not have them; leave it out", m.key, abbreviate(m.raw))
		}
	case "logprobs":
		if isBool := m.raw[0] == 't' || m.raw[0] == 'f'; isBool != (r.request.endpoint == openai.Chat) {
			r.mistyped("logprobs is %s, but must be %s", kindJSON(m.raw), map[bool]string{
				true: "true or false", false: "an integer"}[r.request.endpoint == openai.Chat])
		}
	}
	if slices.ContainsFunc(parameter.Lookup(m.key), func(p *parameter.Parameter) bool { return p.From != 0 }) {
		return
	}
	near := ""
	if name, ok := parameter.Near(m.key); ok {
		near = fmt.Sprintf("; did you mean %q?", name)
	} else if of, ok := parameter.LookupForeign(m.key); ok && of.Instead != "" {
		near = fmt.Sprintf("; it is one of %s, and Quire's name is %q", of.Engines, of.Instead)
	}
	r.blame(m.key, openai.CodeUnknown, func() {
		r.fail("body has %q, which is no parameter of %s; leave it out%s", m.key, r.request.endpoint, near)
	})
}

// translated returns a body whose prompt is in the columns that rows have for it.
func (r requestReader) translated(body []member) []member {
	if r.request.endpoint != openai.Completions {
		return body
	}
	i := slices.IndexFunc(body, func(m member) bool { return m.key == "prompt" })
	if i < 0 || isNullJSON(body[i].raw) {
		return body
	}
	prompts, err := openai.ParsePrompts(body[i].raw)
	if err != nil {
		r.failWith(err)
		return body
	}
	for _, p := range prompts[1:] {
		r.blame(r.promptParam, openai.CodeInvalidType, func() { r.addPrompt(p) })
	}
	body = slices.Clone(body)
	if body[i].raw = prompts[0].Text; prompts[0].Tokens != nil {
		body[i] = member{"prompt_token_ids", prompts[0].Tokens}
	}
	return body
}

// addPrompt adds a prompt behind others.
func (r requestReader) addPrompt(p openai.Prompt) {
	name, raw := "prompt", p.Text
	if p.Tokens != nil {
		name, raw = "prompt_token_ids", p.Tokens
	}
	one := Builder{Row: &Row{}}
	if !one.decodeKnown(name, raw) {
		r.fail("prompt[%d] is %s, but must be text or a list of token ids", len(r.More)+1, abbreviate(raw))
	} else if of, _ := one.Err.(*RowError); of != nil {
		r.fail("prompt[%d]: %s", len(r.More)+1, of.What)
	}
	r.More = append(r.More, Prompt{one.Prompt, one.TokenIDs})
}

// requestPrompt is the prompt of a line of a batch file, as text for people.
func requestPrompt(object Object) string {
	r := &Builder{Row: &Row{}}
	if given := decodeRequest(r, object, &Mapping{}); len(given) == 1 {
		r.Kind = promptKinds[given[0]]
	}
	if len(r.More) > 0 { // which one is completed follows from n, which may be the job's
		line, _ := openai.ParseRequest(func(key string) json.RawMessage { return valueOf(object, key) })
		body, _ := membersOf(line.Body)
		r.Kind, r.Prompt = KindText, string(valueOf(body, r.promptParam))
	}
	return r.PromptText()
}
