package record

import (
	"encoding/json"
	"slices"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/setting"
)

// addBefore adds what precedes the prompt of a row.
func (m *Mapping) addBefore(r *Builder) {
	if r.Parent.ID != "" { // the first row of a family has it already
		if m.Chat {
			m.converse(r, nil)
		}
		return
	}
	if m.System == "" && m.Prefix == "" && !m.Chat || r.Kind == KindNone {
		return
	}
	if r.Kind == KindTokens {
		if m.System == "" && m.Prefix == "" {
			return
		}
		r.Fail("prompt_token_ids are used as they are, and the job has `system` or `prefix-file`; leave that out, or " +
			"give the row a prompt")
		return
	}
	r.Prompt = m.Prefix + r.Prompt
	for i := range r.More {
		r.More[i].Text = m.Prefix + r.More[i].Text
	}
	switch {
	case r.Kind == KindMessages:
		if err := m.prefixMessages(r.Messages); err != nil {
			r.Fail("%w", err)
		}
		r.Prompt = ""
		if m.System != "" && !slices.Contains([]string{"system", "developer"}, r.Messages[0].Role) {
			r.Messages = slices.Insert(r.Messages, 0, Message{Role: "system", Content: m.System})
		}
	case m.System != "":
		m.converse(r, []Message{{Role: "system", Content: m.System}})
	case m.Chat:
		m.converse(r, nil)
	}
}

// converse makes the prompt of a row a user message after other messages.
func (m *Mapping) converse(r *Builder, before []Message) {
	switch {
	case r.Kind != KindText:
	case len(r.More) > 0:
		r.Fail("the row has several prompts, and `system` and `prompt-as` make a prompt a message; give each a row")
	default:
		r.Messages = append(before, Message{Role: "user", Content: r.Prompt})
		r.Kind, r.Prompt = KindMessages, ""
	}
}

// prefixMessages puts the prefix before the first user message.
func (m *Mapping) prefixMessages(messages []Message) error {
	if m.Prefix == "" {
		return nil
	}
	i := slices.IndexFunc(messages, func(m Message) bool { return m.Role == "user" })
	if i < 0 {
		return setting.Errorf("messages have no user message that the text of `prefix-file` could precede")
	}
	first := &messages[i]
	if first.Object != "" {
		object, err := jsonvalue.Members(json.RawMessage(first.Object))
		if err != nil {
			return err
		}
		for k := range object {
			if object[k].Key == "content" {
				object[k].Raw = m.prefixContent(object[k].Raw)
			}
		}
		first.Object = string(jsonvalue.Join(object))
	}
	first.Content = m.Prefix + first.Content
	return nil
}

// prefixContent puts the prefix before a message's content, which is text or a list of texts.
func (m *Mapping) prefixContent(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return jsonvalue.AppendText(nil, m.Prefix+text)
	}
	var parts []json.RawMessage
	_ = json.Unmarshal(raw, &parts)
	all, _ := json.Marshal(append([]json.RawMessage{jsonvalue.Join([]jsonvalue.Member{{Key: "type",
		Raw: json.RawMessage(`"text"`)},
		{Key: "text", Raw: jsonvalue.AppendText(nil, m.Prefix)}})}, parts...))
	return all
}
