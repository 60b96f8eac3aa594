package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quire/quire/text/chat/jinja"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	// Object is the whole message as a JSON object, if it is more than a role and a text. It may have any members.
	// Its content may be a list of text parts, or null.
	Object json.RawMessage `json:"-"`
}

// UnmarshalJSON parses a message with any members.
func (m *Message) UnmarshalJSON(b []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	*m = Message{}
	if len(members) != 2 || !isText(members["role"], &m.Role) || !isText(members["content"], &m.Content) {
		*m = Message{Object: append(json.RawMessage(nil), b...)}
	}
	return nil
}

func isText(raw json.RawMessage, to *string) bool {
	return len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, to) == nil
}

// list returns messages in the form that the template takes.
func (t *Template) list(messages []Message) (*jinja.List, error) {
	list := &jinja.List{Items: make([]any, len(messages))}
	for i, m := range messages {
		if len(m.Object) == 0 {
			list.Items[i] = jinja.NewDict("role", m.Role, "content", m.Content)
			continue
		}
		v, err := value(m.Object)
		if err != nil {
			return nil, fmt.Errorf("messages[%d] is %w", i, err)
		}
		d, ok := v.(*jinja.Dict)
		if !ok {
			return nil, fmt.Errorf("messages[%d] is not an object", i)
		}
		if list.Items[i], err = t.message(d); err != nil {
			return nil, fmt.Errorf("messages[%d]%w", i, err)
		}
	}
	return list, nil
}

// reasoningNames are the members in which templates look for the reasoning of a message.
var reasoningNames = []string{"reasoning_content", "thinking", "reasoning"}

// needed are members that must not be dropped silently.
var needed = []string{"tool_calls", "function_call", "functions", "tools", "documents", "tool_plan", "tool_results",
	"tool_responses"}

// message returns a message in the form that the template takes: without members that are null, with its reasoning
// under the template's names for it, and with content and tool calls in the template's form.
func (t *Template) message(given *jinja.Dict) (*jinja.Dict, error) {
	var pairs []any
	var reasoning any
	for _, name := range reasoningNames {
		if v, _ := given.Get(name); v != nil && reasoning == nil {
			reasoning = v
		}
	}
	if reasoning != nil { // as transformers does
		pairs = append(pairs, "thinking", reasoning)
	}
	calls, _ := given.Get("tool_calls")
	for k, v := range given.All() {
		switch {
		case k == "content":
			v = t.content(v, calls != nil)
		case v == nil:
			continue
		case k == "tool_calls":
			v = t.toolCalls(v)
		}
		pairs = append(pairs, k, v)
	}
	if reasoning != nil {
		pairs = append(pairs, "reasoning_content", reasoning)
	}
	message := jinja.NewDict(pairs...)
	if _, ok := message.Get("role"); !ok && t.mentions("role") {
		return nil, errors.New(" has no role, which the chat template looks for; give it one")
	}
	for _, name := range needed {
		if v, ok := message.Get(name); ok && !isEmpty(v) && !t.mentions(name) {
			return nil, fmt.Errorf(".%s is nothing that the chat template writes; leave it out, or give "+
				"--chat-template one that does", name)
		}
	}
	return message, nil
}

// isEmpty reports whether a list or an object is empty.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case *jinja.List:
		return len(v.Items) == 0
	case *jinja.Dict:
		return v.Len() == 0
	}
	return false
}

// content returns the content of a message in a form that the template takes. If the template takes only text, the
// texts of a list become lines. Null becomes empty text, except next to calls, because some templates check for it
// there.
func (t *Template) content(v any, calls bool) any {
	switch v := v.(type) {
	case nil:
		if calls && t.manners().null {
			return nil
		}
		return ""
	case *jinja.List:
		if t.manners().parts {
			return v
		}
		var texts []string
		for _, item := range v.Items {
			if part, ok := item.(*jinja.Dict); ok {
				item, _ = part.Get("text")
			}
			if text, ok := item.(string); ok {
				texts = append(texts, text)
			}
		}
		return strings.Join(texts, "\n")
	}
	return v
}

// toolCalls returns calls with their arguments in the form that the template takes. In OpenAI's API they are text,
// but most templates want the object.
func (t *Template) toolCalls(v any) any {
	list, ok := v.(*jinja.List)
	if !ok {
		return v
	}
	calls := make([]any, len(list.Items))
	for i, item := range list.Items {
		calls[i] = item
		call, ok := item.(*jinja.Dict)
		if !ok {
			continue
		}
		if function, ok := call.Get("function"); ok {
			if f, ok := function.(*jinja.Dict); ok {
				calls[i] = with(call, "function", t.arguments(f))
			}
			continue
		}
		calls[i] = t.arguments(call) // transformers also accepts calls without the outer function
	}
	return &jinja.List{Items: calls}
}

func (t *Template) arguments(function *jinja.Dict) *jinja.Dict {
	v, ok := function.Get("arguments")
	if !ok {
		return function
	}
	text, isText := v.(string)
	switch {
	case isText && strings.TrimSpace(text) == "" && t.manners().argumentText:
		return with(function, "arguments", "{}")
	case isText && strings.TrimSpace(text) == "":
		return with(function, "arguments", jinja.NewDict())
	case isText && !t.manners().argumentText:
		if v, err := value([]byte(text)); err == nil {
			if object, ok := v.(*jinja.Dict); ok {
				return with(function, "arguments", object)
			}
		}
	case !isText && t.manners().argumentText:
		if text, err := jinja.ToJSON(v, limits); err == nil {
			return with(function, "arguments", text)
		}
	}
	return function
}

// with returns a dict in which a key has a different value.
func with(d *jinja.Dict, key string, value any) *jinja.Dict {
	var pairs []any
	for k, v := range d.All() {
		if k == key {
			v = value
		}
		pairs = append(pairs, k, v)
	}
	return jinja.NewDict(pairs...)
}

// manners are the differences of templates, found by rendering small conversations.
type manners struct {
	parts        bool // content may be a list of text parts
	null         bool // content may be null in messages with calls
	argumentText bool // the arguments of calls are text, and no object
}

// needle is a text that does not occur in templates.
const needle = "quire7needle"

// ends are special tokens that templates may write.
var ends = map[string]string{"bos_token": "<s>", "eos_token": "</s>"}

// trials bounds each rendering of learn.
var trials = jinja.Limits{Output: 1 << 20, Memory: 16 << 20, Time: time.Second}

// learn finds the manners of a template.
func (t *Template) learn() (m manners) {
	render := func(turns string) string {
		list, err := value([]byte(turns))
		if err != nil {
			return ""
		}
		vars, err := t.vars(list, Options{AddGenerationPrompt: true, Special: ends})
		if err != nil {
			return ""
		}
		text, _ := t.t.Render(vars, trials)
		return text
	}
	call := func(content, arguments, suffix string) string {
		return render(`[{"role": "user", "content": "?"}, {"role": "assistant", "content": ` + content +
			`, "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": ` +
			arguments + `}}]}` + suffix + `]`)
	}
	parts := render(`[{"role": "user", "content": [{"type": "text", "text": "` + needle + `"}]}]`)
	m.parts = strings.Contains(parts, needle) && !strings.Contains(parts, "'"+needle) &&
		!strings.Contains(parts, `"`+needle)
	object, text := `{"a": "`+needle+`"}`, `"{\"a\": \"`+needle+`\"}"`
	for _, content := range []string{`""`, "null"} { // some templates write calls only next to one of them
		asObject := call(content, object, "")
		if strings.Contains(asObject, needle) && !strings.Contains(asObject, "'"+needle) {
			break
		}
		m.argumentText = m.argumentText || strings.Contains(call(content, text, ""), object)
	}
	if m.argumentText {
		object = text
	}
	m.null = call("null", object, "") != ""
	for _, suffix := range []string{"", `, {"role": "tool", "name": "f", "tool_call_id": "abcdefghi", "content": "1"}`} {
		null, empty := call("null", object, suffix), call(`""`, object, suffix)
		if null == "" && empty != "" || strings.Count(null, "None") > strings.Count(empty, "None") {
			m.null = false
		}
	}
	return m
}

// continued marks the end of the last message's text. cut truncates the rendered text there, as transformers does for
// continue_final_message.
const continued = "CONTINUE_FINAL_MESSAGE_TAG "

var errNothingToContinue = errors.New("continue_final_message: the last message has no text to continue")

// mark marks the end of the last message and returns its text.
func mark(messages *jinja.List) (final string, err error) {
	if len(messages.Items) == 0 {
		return "", errNothingToContinue
	}
	last := len(messages.Items) - 1
	d := messages.Items[last].(*jinja.Dict)
	content, _ := d.Get("content")
	switch content := content.(type) {
	case string:
		messages.Items[last] = with(d, "content", content+continued)
		return content, nil
	case *jinja.List:
		parts := append([]any(nil), content.Items...)
		for i := len(parts) - 1; i >= 0; i-- {
			part, ok := parts[i].(*jinja.Dict)
			if !ok {
				continue
			}
			if text, _ := part.Get("text"); text != nil {
				final, _ := text.(string)
				parts[i] = with(part, "text", final+continued)
				messages.Items[last] = with(d, "content", &jinja.List{Items: parts})
				return final, nil
			}
		}
	}
	return "", errNothingToContinue
}

// cut ends a rendered text after its last message.
func cut(text, final string) (string, error) {
	tag := strings.TrimSpace(continued)
	index := strings.LastIndex(text, tag)
	if index < 0 || !strings.Contains(text, jinja.Strip(final)) {
		return "", errors.New("continue_final_message: the chat template does not write the last message as it is")
	}
	if strings.HasPrefix(text[index:], continued) {
		return text[:index], nil
	}
	return jinja.StripRight(text[:index]), nil // the template strips messages
}
