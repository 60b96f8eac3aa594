package record

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/internal/plural"
)

// ReadableCalls returns tool calls as texts for people, from a JSON list in the form of OpenAI's API; "" is none.
func ReadableCalls(list string) (texts []string) {
	var calls []struct {
		Function struct {
			Name      string
			Arguments json.RawMessage // an object, or text that contains one
		}
	}
	if json.Unmarshal([]byte(list), &calls) != nil && list != "" { // other programs may have written it
		return []string{"calls: " + list}
	}
	for _, c := range calls {
		arguments, text := c.Function.Arguments, ""
		if json.Unmarshal(arguments, &text) == nil {
			arguments = json.RawMessage(text)
		}
		if json.Valid(arguments) {
			arguments = jsonvalue.Compact(arguments)
		}
		texts = append(texts, fmt.Sprintf("call: %s %s", c.Function.Name, arguments))
	}
	return texts
}

// PromptText returns the row's prompt as text for people: one message per line, token ids as numbers.
func (r *Row) PromptText() string {
	switch r.Kind {
	case KindText:
		return r.Prompt
	case KindMessages:
		var lines []string
		for _, m := range r.Messages {
			lines = append(lines, m.Role+": "+m.Content)
			var more struct {
				Calls json.RawMessage `json:"tool_calls"`
			}
			if json.Unmarshal([]byte(m.Object), &more) == nil && !jsonvalue.IsNull(more.Calls) {
				lines = append(lines, ReadableCalls(string(more.Calls))...)
			}
		}
		return strings.Join(lines, "\n")
	case KindTokens:
		return fmt.Sprintf("%s: %v", plural.Count(len(r.TokenIDs), "token"), r.TokenIDs)
	}
	return "(no prompt)"
}

var PromptKinds = map[string]Kind{"prompt": KindText, "messages": KindMessages, "prompt_token_ids": KindTokens}
