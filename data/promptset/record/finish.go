package record

import (
	"slices"
	"strconv"
	"strings"

	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/schema"
)

// Finish checks the row as a whole, once its fields are set. given lists the prompt columns that are not null.
func (r *Builder) Finish(given []string, m *Mapping) {
	r.checkParent()
	switch len(given) {
	case 0:
		if r.Parent.ID == "" { // with a parent, a row without a prompt continues directly
			wanted := strings.Join(schema.PromptNames, ", ")
			if m.Mapped() {
				wanted = m.promptColumn()
			}
			r.Fail("no prompt; give one of %s", wanted)
		}
	case 1:
	default:
		r.Fail("more than one prompt (%s); keep one and leave the others null", strings.Join(given, ", "))
	}
	if len(given) == 1 && m.Reads.NeedsSeconds && r.Seconds == nil {
		r.Fail("no documents; give one of %s", strings.Join(m.Reads.Seconds, ", "))
	}
	if n := len(r.Seconds); n > 1 && !m.Reads.NeedsSeconds {
		r.Fail("%s has %d texts, and a row is one pair; give each its own row", strings.Join(m.Reads.Seconds, ", "), n)
	}
	if r.givenID = r.ID != ""; !r.givenID && !r.LostID {
		r.ID = strconv.FormatInt(r.Index, 10)
	}
	if r.Err != nil {
		r.Kind, r.Prompt, r.Messages, r.TokenIDs, r.Overrides = KindNone, "", nil, nil, Overrides{}
		r.More, r.Seconds = nil, nil
		r.Parent = Parent{}
		return
	}
	if len(given) == 0 {
		return
	}
	r.Blame(r.PromptParam, openai.CodeInvalidValue, func() {
		if r.finishPrompt(given[0]); r.Err == nil {
			m.addBefore(r)
		}
	})
	if r.Err != nil {
		r.Kind, r.Messages, r.TokenIDs, r.Overrides, r.Parent = KindNone, nil, nil, Overrides{}, Parent{}
		r.More, r.Seconds = nil, nil
	}
}

// finishPrompt checks the prompt, which is in the column given.
func (r *Builder) finishPrompt(given string) {
	switch given {
	case "prompt":
		r.Kind = KindText
	case "messages":
		r.Kind = KindMessages
		if len(r.Messages) == 0 {
			r.Fail("messages is empty; give at least one message")
		}
		for i, m := range r.Messages {
			if !slices.Contains(roles, m.Role) && (m.Role != "" || m.Object == "") {
				r.Fail("messages[%d] has the unknown role %q; use one of %s", i, m.Role, strings.Join(roles, ", "))
				break
			}
		}
	case "prompt_token_ids":
		r.Kind = KindTokens
		if len(r.TokenIDs) == 0 && r.Parent.ID == "" {
			r.Fail("%s is empty; give at least one token", r.tokensName())
		}
		for i, p := range r.More {
			if len(p.TokenIDs) == 0 {
				r.Fail("%s[%d] is empty; give at least one token", r.tokensName(), i+1)
			}
		}
	}
}

// roles are the message roles that chat templates know.
var roles = []string{"system", "developer", "user", "assistant", "model", "tool", "function", "ipython", "environment"}

// NewRow returns a row whose prompt is a text that does not come from a file: errors call its place from. As a
// message it is a conversation with one user message.
func (m *Mapping) NewRow(index int64, from, text string, message bool) *Row {
	r := &Builder{Row: &Row{Index: index, File: from, FileRow: index, Prompt: text}}
	r.Finish([]string{"prompt"}, m)
	if message {
		m.converse(r, nil)
	}
	return r.Row
}

// checkParent rejects what has a meaning only together with a parent.
func (r *Builder) checkParent() {
	if r.Parent.ID != "" {
		return
	}
	for name, n := range map[string]*int{"parent_generation": r.Parent.Generation, "parent_length": r.Parent.Length} {
		if n != nil {
			r.Fail("%s is %d and the row has no parent; give it one, or leave %s out", name, *n, name)
		}
	}
}
