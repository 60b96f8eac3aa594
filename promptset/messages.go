package promptset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/parameter"
)

// maxPassed bounds the members of messages that are noted of a file.
const maxPassed = 100

// decodeMessages sets the messages of a JSONL row; false means that they are no list of objects.
func (r *Row) decodeMessages(raw json.RawMessage) bool {
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
		object := r.splitMessage(i, item)
		r.messageText(i, "role", object, &r.Messages[i].Role)
		for _, m := range object {
			r.judgeMember(i, m)
		}
		r.messageText(i, "content", object, &r.Messages[i].Content)
	}
	return true
}

// splitMessage returns the members of a message. One that is null has none.
func (r *Row) splitMessage(i int, item json.RawMessage) []member {
	if isNullJSON(item) {
		return nil
	}
	object, err := membersOf(item)
	if err != nil {
		r.fail("messages[%d]: %v", i, err)
	}
	return object
}

// messageText reads the role or the content of a message.
func (r *Row) messageText(i int, key string, object []member, text *string) {
	at := slices.IndexFunc(object, func(m member) bool { return m.key == key })
	switch {
	case at < 0 || isNullJSON(object[at].raw):
		r.fail("messages[%d] has no %s; give it text", i, key)
	case json.Unmarshal(object[at].raw, text) != nil:
		r.fail("messages[%d].%s is %s; it must be text", i, key, kindJSON(object[at].raw))
	}
}

// judgeMember refuses a member of a message that asks for what no template gets.
func (r *Row) judgeMember(i int, m member) {
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

// noteMembers notes the user's own members of the messages of a JSONL row.
func (s *Source) noteMembers(raw json.RawMessage) {
	var items []map[string]json.RawMessage
	if len(s.passed) >= maxPassed || json.Unmarshal(raw, &items) != nil {
		return
	}
	for _, item := range items {
		for name, value := range item {
			if usersOwn(name) && !isNullJSON(value) && len(s.passed) < maxPassed && !slices.Contains(s.passed, name) {
				s.passed = append(s.passed, name)
			}
		}
	}
}

// usersOwn says whether a member of a message is neither read nor judged.
func usersOwn(name string) bool {
	return name != "role" && name != "content" && parameter.LookupMember(name) == nil
}

// passed returns the user's own members of the messages of a Parquet file.
func (pf *parquetFile) passed() (names []string) {
	c := pf.known["messages"]
	if c == nil {
		return nil
	}
	for _, f := range messageFields(c) {
		if usersOwn(f.name) && !f.isNull() && len(names) < maxPassed {
			names = append(names, f.name)
		}
	}
	return names
}

// messageFields returns the fields of the structs of a messages column, or those of its struct of lists.
func messageFields(n *node) []*node {
	if e := n.element(); e != nil {
		return e.fields
	}
	return n.fields
}

// judgedFields returns the fields of a messages column that the table of parameters judges.
func judgedFields(c *node) (judged []*node) {
	for _, f := range messageFields(c) {
		if parameter.LookupMember(f.name) != nil && !f.isNull() {
			judged = append(judged, f)
		}
	}
	return judged
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

// messageLeaves finds the role and content leaves of a messages column: a list of structs, or the struct of lists that
// some tools make of it. They are nil if n is something else, or has two fields of one name.
func messageLeaves(n *node) (role, content *node) {
	if twice(messageFields(n)) {
		return nil, nil
	}
	if e := n.element(); e != nil && !e.leaf {
		role, content = e.field("role"), e.field("content")
	} else if !n.leaf && n.rep != repeated {
		if r, c := n.field("role"), n.field("content"); r != nil && c != nil {
			role, content = r.element(), c.element()
		}
	}
	if role == nil || content == nil || !textualLeaf(role) || !textualLeaf(content) ||
		role.maxRep != 1 || content.maxRep != 1 {
		return nil, nil
	}
	return role, content
}

// messages reads the column messages of a Parquet row.
func (r *groupReader) messages(row *Row, c *node) {
	role, content := messageLeaves(c)
	roleList, contentList := c, c
	split := false
	if e := c.element(); e == nil || e.leaf {
		split = true
		roleList, contentList = c.field("role"), c.field("content")
	}
	r.elements(roleList, role, func(v parquet.Value, null bool) {
		m := Message{}
		if null {
			row.fail("messages[%d] has no role; use one of %s", len(row.Messages), strings.Join(roles, ", "))
		} else {
			m.Role = row.text(fmt.Sprintf("messages[%d].role", len(row.Messages)), v.ByteArray())
		}
		row.Messages = append(row.Messages, m)
	})
	r.judgeMembers(row, c, split)
	i := 0
	r.elements(contentList, content, func(v parquet.Value, null bool) {
		if null {
			row.fail("messages[%d] has no content; give it text", i)
		} else if i < len(row.Messages) {
			row.Messages[i].Content = row.text(fmt.Sprintf("messages[%d].content", i), v.ByteArray())
		}
		i++
	})
	if i != len(row.Messages) {
		row.fail("messages has %d roles and %d contents; give each message both", len(row.Messages), i)
	}
}

// judgeMembers judges what messages have besides role and content, as JSON: so it means the same in both formats. split
// says that the column is a struct of lists.
func (r *groupReader) judgeMembers(row *Row, c *node, split bool) {
	if !slices.ContainsFunc(r.pf.members, r.hasValue) {
		return
	}
	a := &assembler{values: row.values}
	a.index()
	raw := a.column(nil, c)
	if !split {
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			row.fail("messages cannot be read: %v; write the file anew", err)
		}
		for i, item := range items {
			for _, m := range row.splitMessage(i, item) {
				row.judgeMember(i, m)
			}
		}
		return
	}
	var lists map[string]json.RawMessage
	if err := json.Unmarshal(raw, &lists); err != nil {
		row.fail("messages cannot be read: %v; write the file anew", err)
	}
	for _, f := range r.pf.members {
		var values []json.RawMessage
		if json.Unmarshal(lists[f.name], &values) != nil {
			values = []json.RawMessage{lists[f.name]} // one value, for all messages
		}
		for i, v := range values {
			row.judgeMember(i, member{f.name, v})
		}
	}
}

// hasValue says whether anything below a node is not null in the current row.
func (r *groupReader) hasValue(n *node) bool {
	return slices.ContainsFunc(r.columns[n.column:n.column+n.leaves], func(leaf []parquet.Value) bool {
		return slices.ContainsFunc(leaf, func(v parquet.Value) bool { return !v.IsNull() })
	})
}
