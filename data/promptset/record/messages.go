package record

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/jsonvalue"
)

// Message is one turn of a conversation.
type Message struct {
	Role string
	// Content is the text of the message; its parts are joined by newlines.
	Content string
	// Object is the whole message as a JSON object, if it is more than a role and a text: it has other members, no
	// role, or a content that is null or a list of text parts. Members that are null or empty are left out.
	Object string
}

// DecodeMessages sets the messages of a row from JSON. It returns false if they are not a list of objects, or text
// that contains one.
func (r *Builder) DecodeMessages(raw json.RawMessage) bool {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if raw = json.RawMessage(strings.TrimSpace(text)); !json.Valid(raw) {
			return false
		}
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return false
	}
	for _, item := range items {
		if !jsonvalue.IsNull(item) && item[0] != '{' {
			return false
		}
	}
	r.Messages = make([]Message, len(items))
	for i, item := range items {
		r.Messages[i] = r.message(i, item)
	}
	return true
}

// message parses a message.
func (r *Builder) message(i int, item json.RawMessage) (m Message) {
	var object []jsonvalue.Member
	if !jsonvalue.IsNull(item) {
		var err error
		if object, err = jsonvalue.Members(item); err != nil {
			r.Fail("messages[%d]: %v", i, err)
		}
	}
	role := jsonvalue.Find(object, "role")
	missing := jsonvalue.IsNull(role) // left to the chat template, which may not use it
	switch {
	case missing && len(object) == 0:
		r.Fail("messages[%d] has no role; use one of %s", i, strings.Join(roles, ", "))
	case !missing && json.Unmarshal(role, &m.Role) != nil:
		r.Fail("messages[%d].role is %s; it must be text", i, jsonvalue.Describe(role))
	case !missing && m.Role == "":
		r.Fail("messages[%d] has the unknown role \"\"; use one of %s", i, strings.Join(roles, ", "))
	}
	var wide bool
	m.Content, wide = r.content(i, m.Role, jsonvalue.Find(object, "content"))
	wide = wide || missing
	kept := object[:0:0]
	for _, o := range object {
		if o.Key == "role" || o.Key == "content" {
			if o.Key == "content" || !missing {
				kept = append(kept, o)
			}
			continue
		}
		if r.judgeMember(i, o); !jsonvalue.IsEmpty(o.Raw) {
			kept = append(kept, jsonvalue.Member{Key: o.Key, Raw: untied(o.Key, o.Raw)})
			wide = true
		}
	}
	if wide {
		m.Object = string(jsonvalue.Compact(jsonvalue.Join(kept)))
	}
	return m
}

// content parses the content of a message: its text, and whether it is more than that.
func (r *Builder) content(i int, role string, raw json.RawMessage) (text string, wide bool) {
	switch {
	case jsonvalue.IsNull(raw) && slices.Contains([]string{"user", "system", "developer"}, role):
		r.Fail("messages[%d] has no content; give it text", i)
	case jsonvalue.IsNull(raw):
		return "", true
	case raw[0] == '[':
		return r.parts(i, raw), true
	case json.Unmarshal(raw, &text) != nil:
		r.Fail("messages[%d].content is %s; it must be text or a list of text parts", i, jsonvalue.Describe(raw))
	}
	return text, false
}

// parts parses the content of a message that is a list of text parts.
func (r *Builder) parts(i int, raw json.RawMessage) string {
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items) // the caller has checked that it is a list
	texts := make([]string, len(items))
	for k, item := range items {
		var part struct {
			Type string
			Text *string
		}
		switch err := json.Unmarshal(item, &part); {
		case err != nil:
			r.Fail("messages[%d].content[%d] is %s; it must be an object with the type text", i, k,
				jsonvalue.Describe(item))
		case part.Type != "text":
			r.Fail("messages[%d].content[%d] has the type %q; only text is supported", i, k, part.Type)
		case part.Text == nil:
			r.Fail("messages[%d].content[%d] has no text", i, k)
		default:
			texts[k] = *part.Text
		}
	}
	return strings.Join(texts, "\n")
}

// lists are members that may be text that contains JSON, as Parquet files store values without a single type.
var lists = []string{"tool_calls", "function_call", "tools", "functions", "documents"}

// untied returns the JSON in a member that is text.
func untied(name string, raw json.RawMessage) json.RawMessage {
	var text string
	if slices.Contains(lists, name) && json.Unmarshal(raw, &text) == nil && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return raw
}

// judgeMember rejects a member of a message that asks for something Quire does not do.
func (r *Builder) judgeMember(i int, m jsonvalue.Member) {
	p := parameter.LookupMember(m.Key)
	if p == nil {
		return
	}
	if verdict, _ := p.Judge(m.Raw, func(string) string { return "" }); verdict != parameter.Refused {
		return
	}
	instead := ""
	if p.Note != "" {
		instead = " or " + p.Note
	}
	r.Fail("messages[%d].%s is not supported as %s; leave it out%s", i, m.Key, jsonvalue.Abbreviate(m.Raw), instead)
}

// Transposed converts the JSON of a struct of lists to a list of structs. A value that is not a list belongs to each
// struct.
func (r *Builder) Transposed(raw json.RawMessage) json.RawMessage {
	fields, err := jsonvalue.Members(raw)
	if err != nil {
		r.Fail("messages cannot be read: %v; write the file again", err)
		return raw
	}
	var messages [][]jsonvalue.Member
	roles, contents := countItems(jsonvalue.Find(fields, "role")), countItems(jsonvalue.Find(fields, "content"))
	if roles != contents {
		r.Fail("messages has %d roles and %d contents; give each message both", roles, contents)
	}
	for _, f := range fields {
		var values []json.RawMessage
		if json.Unmarshal(f.Raw, &values) != nil {
			for i := range messages {
				messages[i] = append(messages[i], f)
			}
			continue
		}
		for i, v := range values {
			if i == len(messages) {
				messages = append(messages, nil)
			}
			messages[i] = append(messages[i], jsonvalue.Member{Key: f.Key, Raw: v})
		}
	}
	items := json.RawMessage("[")
	for i, m := range messages {
		if i > 0 {
			items = append(items, ',')
		}
		items = append(items, jsonvalue.Join(m)...)
	}
	return append(items, ']')
}

func countItems(raw json.RawMessage) int {
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items) // the caller has checked that it is a list, or nothing
	return len(items)
}
