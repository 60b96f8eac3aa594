package promptset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/parameter"
)

// Message is one turn of a conversation.
type Message struct {
	Role string
	// Content is the text of the message; parts of it stand in lines.
	Content string
	// Object is the whole message as a JSON object, where it is not a role and a text: it has other members, no role,
	// or a content that is null or a list of text parts. Members that are null or empty are not there.
	Object string
}

// decodeMessages sets the messages of a row from JSON; false means that they are no list of objects, nor text with one.
func (r *Builder) decodeMessages(raw json.RawMessage) bool {
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
		if !isNullJSON(item) && item[0] != '{' {
			return false
		}
	}
	r.Messages = make([]Message, len(items))
	for i, item := range items {
		r.Messages[i] = r.message(i, item)
	}
	return true
}

// message reads a message.
func (r *Builder) message(i int, item json.RawMessage) (m Message) {
	var object []member
	if !isNullJSON(item) {
		var err error
		if object, err = membersOf(item); err != nil {
			r.fail("messages[%d]: %v", i, err)
		}
	}
	role := valueOf(object, "role")
	missing := isNullJSON(role) // which is the chat template's affair: it may not look for it
	switch {
	case missing && len(object) == 0:
		r.fail("messages[%d] has no role; use one of %s", i, strings.Join(roles, ", "))
	case !missing && json.Unmarshal(role, &m.Role) != nil:
		r.fail("messages[%d].role is %s; it must be text", i, kindJSON(role))
	case !missing && m.Role == "":
		r.fail("messages[%d] has the unknown role \"\"; use one of %s", i, strings.Join(roles, ", "))
	}
	var wide bool
	m.Content, wide = r.content(i, m.Role, valueOf(object, "content"))
	wide = wide || missing
	kept := object[:0:0]
	for _, o := range object {
		if o.key == "role" || o.key == "content" {
			if o.key == "content" || !missing {
				kept = append(kept, o)
			}
			continue
		}
		if r.judgeMember(i, o); !isEmptyJSON(o.raw) {
			kept = append(kept, member{o.key, untied(o.key, o.raw)})
			wide = true
		}
	}
	if wide {
		m.Object = string(compactJSON(joinMembers(kept)))
	}
	return m
}

// content reads the content of a message: its text, and whether it is more than that.
func (r *Builder) content(i int, role string, raw json.RawMessage) (text string, wide bool) {
	switch {
	case isNullJSON(raw) && slices.Contains([]string{"user", "system", "developer"}, role):
		r.fail("messages[%d] has no content; give it text", i)
	case isNullJSON(raw):
		return "", true
	case raw[0] == '[':
		return r.parts(i, raw), true
	case json.Unmarshal(raw, &text) != nil:
		r.fail("messages[%d].content is %s; it must be text or a list of text parts", i, kindJSON(raw))
	}
	return text, false
}

// parts reads the content of a message that is a list of text parts.
func (r *Builder) parts(i int, raw json.RawMessage) string {
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items) // which is a list
	texts := make([]string, len(items))
	for k, item := range items {
		var part struct {
			Type string
			Text *string
		}
		switch err := json.Unmarshal(item, &part); {
		case err != nil:
			r.fail("messages[%d].content[%d] is %s; it must be an object with the type text", i, k, kindJSON(item))
		case part.Type != "text":
			r.fail("messages[%d].content[%d] has the type %q; only text is supported", i, k, part.Type)
		case part.Text == nil:
			r.fail("messages[%d].content[%d] has no text", i, k)
		default:
			texts[k] = *part.Text
		}
	}
	return strings.Join(texts, "\n")
}

// isEmptyJSON says that there is nothing in a member: it is null, an object of nulls, or a list of such.
func isEmptyJSON(raw json.RawMessage) bool {
	var items []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case isNullJSON(raw):
		return true
	case raw[0] == '[':
		return json.Unmarshal(raw, &items) == nil && !slices.ContainsFunc(items, func(item json.RawMessage) bool {
			return !isEmptyJSON(item)
		})
	case raw[0] == '{' && json.Unmarshal(raw, &object) == nil:
		for _, v := range object {
			if !isNullJSON(v) {
				return false
			}
		}
		return true
	}
	return false
}

// lists are members that may be text with JSON in it, as a Parquet file may have what has no one type.
var lists = []string{"tool_calls", "function_call", "tools", "functions", "documents"}

// untied returns the JSON in a member that is text with it.
func untied(name string, raw json.RawMessage) json.RawMessage {
	var text string
	if slices.Contains(lists, name) && json.Unmarshal(raw, &text) == nil && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return raw
}

// joinMembers is the object of members.
func joinMembers(object []member) json.RawMessage {
	b := json.RawMessage("{")
	for i, m := range object {
		if i > 0 {
			b = append(b, ',')
		}
		raw := m.raw
		if isNullJSON(raw) {
			raw = json.RawMessage("null")
		}
		b = append(append(appendText(b, m.key), ':'), raw...)
	}
	return append(b, '}')
}

// judgeMember refuses a member of a message that asks for what Quire does not do.
func (r *Builder) judgeMember(i int, m member) {
	p := parameter.LookupMember(m.key)
	if p == nil {
		return
	}
	if verdict, _ := p.Judge(m.raw, func(string) string { return "" }); verdict != parameter.Refused {
		return
	}
	instead := ""
	if p.Note != "" {
		instead = " or " + p.Note
	}
	r.fail("messages[%d].%s is not supported as %s; leave it out%s", i, m.key, abbreviate(m.raw), instead)
}

// messageFields returns the fields of the structs of a messages column, or those of its struct of lists.
func messageFields(n *node) []*node {
	if e := n.element(); e != nil {
		return e.fields
	}
	return n.fields
}

// twice says whether two nodes have one name.
func twice(nodes []*node) bool {
	for i, n := range nodes {
		if slices.ContainsFunc(nodes[:i], func(o *node) bool { return o.name == n.name }) {
			return true
		}
	}
	return false
}

// areMessages says that a Parquet column can be messages: a list of structs with role and content, the struct of lists
// that some tools make of it, or text with JSON.
func areMessages(n *node) bool {
	if e := n.element(); textual(n) || e != nil && e.isNull() { // lists without messages
		return true
	}
	if n.leaf || twice(messageFields(n)) {
		return false
	}
	var role, content *node
	for _, f := range messageFields(n) {
		switch f.name {
		case "role":
			role = f
		case "content":
			content = f
		}
	}
	if role == nil || content == nil {
		return false
	}
	if n.element() == nil {
		role, content = role.element(), content.element()
	}
	return role != nil && content != nil && textualLeaf(role) && (textualLeaf(content) || content.isNull() ||
		content.element() != nil) && role.maxRep == 1
}

// plainMessages finds the leaves of a messages column that is a list of structs with text as role and content. They are
// nil for other columns.
func plainMessages(n *node) (role, content *node) {
	e := n.element()
	if e == nil || e.leaf {
		return nil, nil
	}
	role, content = e.field("role"), e.field("content")
	if !textualLeaf(role) || !textualLeaf(content) || role.maxRep != 1 || content.maxRep != 1 {
		return nil, nil
	}
	return role, content
}

// messages reads the column messages of a Parquet row.
func (r *groupReader) messages(row *Builder, c *node) {
	role, content := plainMessages(c)
	if role != nil && !slices.ContainsFunc(messageFields(c), func(f *node) bool {
		return f != role && f != content && r.hasValue(f)
	}) && !r.lacks(c, content) && !r.lacks(c, role) {
		r.elements(c, role, func(v parquet.Value, _ bool) {
			row.Messages = append(row.Messages, Message{
				Role: row.text(fmt.Sprintf("messages[%d].role", len(row.Messages)), v.ByteArray())})
		})
		i := 0
		r.elements(c, content, func(v parquet.Value, _ bool) {
			row.Messages[i].Content = row.text(fmt.Sprintf("messages[%d].content", i), v.ByteArray())
			i++
		})
		return
	}
	raw := r.json(c)
	if raw == nil {
		return
	}
	if c.element() == nil && !c.leaf {
		raw = row.transposed(raw)
	}
	r.checkText(row, c)
	if !row.decodeMessages(raw) {
		row.fail("messages is %s; it must be %s", kindJSON(raw), wanted("messages"))
	}
}

// checkText looks at all text below a column.
func (r *groupReader) checkText(row *Builder, c *node) {
	for _, leaf := range r.columns[c.column : c.column+c.leaves] {
		for _, v := range leaf {
			if v.Kind() == parquet.ByteArray && !v.IsNull() && !utf8.Valid(v.ByteArray()) {
				row.fail("%s is not valid UTF-8; re-encode it as UTF-8", c.name)
			}
		}
	}
}

// lacks says that a leaf of a list of structs is null in the current row.
func (r *groupReader) lacks(list, leaf *node) (null bool) {
	r.elements(list, leaf, func(_ parquet.Value, isNull bool) { null = null || isNull })
	return null
}

// transposed turns the JSON of a struct of lists into that of a list of structs. A value that is no list is of each.
func (r *Builder) transposed(raw json.RawMessage) json.RawMessage {
	fields, err := membersOf(raw)
	if err != nil {
		r.fail("messages cannot be read: %v; write the file anew", err)
		return raw
	}
	var messages [][]member
	roles, contents := countItems(valueOf(fields, "role")), countItems(valueOf(fields, "content"))
	if roles != contents {
		r.fail("messages has %d roles and %d contents; give each message both", roles, contents)
	}
	for _, f := range fields {
		var values []json.RawMessage
		if json.Unmarshal(f.raw, &values) != nil {
			for i := range messages {
				messages[i] = append(messages[i], f)
			}
			continue
		}
		for i, v := range values {
			if i == len(messages) {
				messages = append(messages, nil)
			}
			messages[i] = append(messages[i], member{f.key, v})
		}
	}
	items := json.RawMessage("[")
	for i, m := range messages {
		if i > 0 {
			items = append(items, ',')
		}
		items = append(items, joinMembers(m)...)
	}
	return append(items, ']')
}

func countItems(raw json.RawMessage) int {
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items) // which is a list, or nothing
	return len(items)
}

// hasValue says whether anything below a node is not null in the current row.
func (r *groupReader) hasValue(n *node) bool {
	return slices.ContainsFunc(r.columns[n.column:n.column+n.leaves], func(leaf []parquet.Value) bool {
		return slices.ContainsFunc(leaf, func(v parquet.Value) bool { return !v.IsNull() })
	})
}
