package promptset

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset/openai"
)

// request is what of a line of an OpenAI batch file is for its answer.
type request struct {
	customID string // empty where the line has none that can be used
	endpoint openai.Endpoint
	model    string // that the line names; empty where it names none
	logprobs bool   // of the drawn tokens are wanted
	tokenIDs bool   // are wanted
	asIDs    bool   // tokens are named by their ids
}

// isRequest says whether an object is a line of an OpenAI batch file, and no row with columns of such names.
func isRequest(object []member) bool {
	has := func(key string) bool {
		return slices.ContainsFunc(object, func(m member) bool { return m.key == key })
	}
	return openai.IsRequest(has) && !slices.ContainsFunc(promptNames, has)
}

// decode sets the row's known fields from its object, and returns which prompts are given.
func (r *Row) decode(s *Source) (given []string) {
	if !s.requests {
		given = r.decodeJSON(r.object, s.mapping)
		r.object = s.mapping.passed(r, r.object)
		return given
	}
	given = r.decodeRequest(s.mapping)
	if first, again := s.repeated[r.FileRow]; again {
		at := fmt.Sprintf("line %d", first.line)
		if first.file.Name != s.Name {
			at = first.file.rowsName() + " " + at
		}
		r.blame("custom_id", openai.CodeRepeatedID, func() {
			r.fail("custom_id %s is that of %s; give each line one of its own", visible.Quoted(r.request.customID), at)
		})
	}
	return given
}

// decodeRequest sets the row's known fields from a line of an OpenAI batch file, and returns which prompts are given.
func (r *Row) decodeRequest(m *Mapping) (given []string) {
	line, err := openai.ParseRequest(func(key string) json.RawMessage { return valueOf(r.object, key) })
	r.ID = line.CustomID
	r.request = &request{customID: line.CustomID, endpoint: line.URL}
	if err != nil {
		r.lostID = line.CustomID == ""
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
		r.blame(r.PromptParam(), openai.CodeMissing, func() { r.fail("body has no %s", r.PromptParam()) })
	}
	return given
}

// PromptParam is the member of a batch file's line that has the prompt; empty for other rows.
func (r *Row) PromptParam() string {
	if r.request == nil {
		return ""
	}
	return r.request.endpoint.PromptKey()
}

// readAnswerForm reads what the answer is to have. Values of wrong types are judged elsewhere.
func (r *Row) readAnswerForm(body []member) {
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
func (r *Row) judgeBody(m member) {
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
func (r *Row) translated(body []member) []member {
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
		r.blame(r.PromptParam(), openai.CodeInvalidType, func() { r.addPrompt(p) })
	}
	body = slices.Clone(body)
	if body[i].raw = prompts[0].Text; prompts[0].Tokens != nil {
		body[i] = member{"prompt_token_ids", prompts[0].Tokens}
	}
	return body
}

// addPrompt adds a prompt behind others.
func (r *Row) addPrompt(p openai.Prompt) {
	name, raw := "prompt", p.Text
	if p.Tokens != nil {
		name, raw = "prompt_token_ids", p.Tokens
	}
	var one Row
	if !one.decodeKnown(name, raw) {
		r.fail("prompt[%d] is %s, but must be text or a list of token ids", len(r.More)+1, abbreviate(raw))
	} else if of, _ := one.Err.(*RowError); of != nil {
		r.fail("prompt[%d]: %s", len(r.More)+1, of.What)
	}
	r.More = append(r.More, Prompt{one.Prompt, one.TokenIDs})
}

// customID is the custom_id of a line of a batch file, by a digest that no two ids share, and where it is.
type customID struct {
	name      [16]byte
	file      *Source
	row, line int64
}

// noteRequest notes what the scan of a JSONL file comes to: whether lines are those of a batch file, and their ids.
func (s *Source) noteRequest(object []member, line int64) {
	id := valueOf(object, "custom_id")
	if id == nil || valueOf(object, "url") == nil && valueOf(object, "body") == nil {
		return
	}
	if isRequest(object) {
		s.requests = true
		s.noteBody(valueOf(object, "body"))
	}
	var text string
	if json.Unmarshal(id, &text) == nil && text != "" {
		sum := sha256.Sum256([]byte(text))
		s.customID = append(s.customID, customID{[16]byte(sum[:16]), nil, s.Rows, line})
	}
}

// noteBody notes which parameters the body of a line has.
func (s *Source) noteBody(raw json.RawMessage) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	body, _ := membersOf(raw)
	for _, m := range body {
		if !isNullJSON(m.raw) && !slices.Contains(s.bodies, m.key) && len(parameter.Lookup(m.key)) > 0 {
			s.bodies = append(s.bodies, m.key)
		}
	}
}

// requestColumns are the columns of a batch file, whatever is in its lines, in place of those that these seem to make.
func (s *Source) requestColumns(columns []*node) []*node {
	if !s.requests {
		s.customID = nil
		return columns
	}
	s.texts = []span{{0, math.MaxInt64}}
	for i, c := range columns {
		switch {
		case c.name == "body":
			columns[i] = jsonAny.node(c.name)
		case slices.Contains(openai.Keys, c.name):
			columns[i] = jsonText.node(c.name)
		}
	}
	return columns
}

// findRepeated finds the lines of batch files whose custom_id an earlier line has.
func (r *Reader) findRepeated() {
	var all []customID
	place := map[string]int{}
	for i := range r.sources {
		s := &r.sources[i]
		for _, id := range s.customID {
			id.file = s
			all = append(all, id)
		}
		place[s.Name], s.customID = i, nil
	}
	slices.SortFunc(all, func(a, b customID) int {
		return cmp.Or(bytes.Compare(a.name[:], b.name[:]), cmp.Compare(place[a.file.Name], place[b.file.Name]),
			cmp.Compare(a.row, b.row))
	})
	first := 0
	for i := 1; i < len(all); i++ {
		if all[i].name != all[first].name {
			first = i
			continue
		}
		s := all[i].file
		if s.repeated == nil {
			s.repeated = map[int64]customID{}
		}
		s.repeated[all[i].row] = all[first]
	}
}

// NoRequests names the first file that has rows and is no batch file of OpenAI, "" where there is none.
func (r *Reader) NoRequests() string {
	for _, s := range r.sources {
		if !s.requests && s.Rows > 0 {
			return s.Name
		}
	}
	return ""
}

// RequestModel returns the model that a line of a batch file names, "" where it names none.
func (r *Row) RequestModel() string {
	if r.request == nil {
		return ""
	}
	return r.request.model
}

// WantsTokenIDs says that a line of a batch file asks for the ids of tokens.
func (r *Row) WantsTokenIDs() bool { return r.request != nil && r.request.tokenIDs }
