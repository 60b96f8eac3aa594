package reply

import "strings"

// The marks of harmony, the format of gpt-oss: a completion is several messages, each with a channel, and some with a
// recipient.
const (
	messageStart, channelMark, constrainMark = "<|start|>", "<|channel|>", "<|constrain|>"
	bodyMark                                 = "<|message|>"
	messageEnd, callMark, returnMark         = "<|end|>", "<|call|>", "<|return|>"
	functionsOf                              = "functions."
)

var harmonyMarks = []string{messageStart, channelMark, constrainMark, bodyMark, messageEnd, callMark, returnMark}

// message is a message of harmony.
type message struct {
	channel, recipient, body string
	whole                    string // including its marks
}

// messages splits a text into messages. It returns false if the text does not have this format.
func messages(text string) (list []message, ok bool) {
	for strings.TrimSpace(text) != "" {
		head, tail, found := strings.Cut(text, bodyMark)
		if !found {
			return nil, false
		}
		var m message
		if !m.head(head) {
			return nil, false
		}
		size := 0 // length of a call's arguments, whose texts may contain marks
		if strings.HasPrefix(m.recipient, functionsOf) {
			_, size, _ = decodeObject(tail)
		}
		end := len(tail)
		for _, mark := range []string{messageEnd, callMark, returnMark, messageStart} {
			if index := strings.Index(tail[size:end], mark); index >= 0 {
				end = size + index
			}
		}
		m.body = tail[:end]
		rest := tail[end:]
		for _, mark := range []string{messageEnd, callMark, returnMark} {
			rest = strings.TrimPrefix(rest, mark)
		}
		m.whole = text[:len(text)-len(rest)]
		list, text = append(list, m), rest
	}
	return list, len(list) > 0
}

// head reads the head of a message: a role and a channel, either of which may have a recipient.
func (m *message) head(head string) bool {
	head, _, _ = strings.Cut(head, constrainMark)
	role, channel, found := strings.Cut(head, channelMark)
	if !found {
		return false
	}
	words := strings.Fields(channel)
	if len(words) == 0 {
		return false
	}
	m.channel = words[0]
	for _, word := range append(strings.Fields(role), words[1:]...) {
		if to, ok := strings.CutPrefix(word, "to="); ok {
			m.recipient = to
		}
	}
	return true
}

// splitHarmony returns the analysis of a completion and the rest: the text of the other messages, or with calls of
// tools among them these messages as they are. open reports whether the prompt ends with the head of the analysis.
func splitHarmony(text string, open bool) (reasoning, rest string) {
	whole := text
	if open {
		whole = channelMark + "analysis" + bodyMark + text
	}
	list, ok := messages(whole)
	if !ok {
		return "", text
	}
	var thoughts, others, bodies []string
	calls := false
	for _, m := range list {
		if m.channel == "analysis" && m.recipient == "" {
			thoughts = append(thoughts, m.body)
			continue
		}
		others, bodies = append(others, m.whole), append(bodies, m.body)
		calls = calls || m.recipient != ""
	}
	if reasoning = strings.Join(thoughts, "\n"); calls {
		return reasoning, strings.Join(others, "")
	}
	return reasoning, strings.Join(bodies, "\n")
}

// harmony reads messages to functions. The other messages are the rest: their texts if they are only of the final
// channel and the commentary, and the whole messages if they are calls that do not follow the form.
func harmony(text string) (calls []ToolCall, rest string) {
	list, ok := messages(text)
	if !ok {
		return nil, text
	}
	var whole, bodies []string
	thinks := false
	for _, m := range list {
		name, isCall := strings.CutPrefix(m.recipient, functionsOf)
		if !isCall {
			whole, bodies = append(whole, m.whole), append(bodies, m.body)
			thinks = thinks || m.channel == "analysis"
			continue
		}
		raw, size, ok := decodeObject(m.body)
		if body := strings.TrimSpace(m.body); body == "" {
			raw, size, ok = "{}", len(m.body), true
		}
		if !ok || name == "" || strings.TrimSpace(m.body[size:]) != "" {
			whole, bodies = append(whole, m.whole), append(bodies, m.whole)
			continue
		}
		calls = append(calls, ToolCall{Name: name, Arguments: raw})
	}
	if thinks {
		return calls, strings.Join(whole, "")
	}
	return calls, strings.Join(bodies, "\n")
}
