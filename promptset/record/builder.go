package record

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/promptset/openai"
	"github.com/quire/quire/promptset/schema"
)

// Builder sets the fields of a row to what its file has, judges them, and notes the first thing wrong with the row.
type Builder struct {
	*Row
	Made bool // Prompt is what a template made
	// promptParam is the member of a batch file's line that has the prompt, and inBody says that parameters are in the
	// body of one; empty and false for other rows.
	PromptParam string
	InBody      bool
}

// NewRow returns a row whose prompt is a text that comes from no file: errors call its place from. As a message it is
// a conversation of one message of the user.
func (m *Mapping) NewRow(index int64, from, text string, message bool) *Row {
	r := &Builder{Row: &Row{Index: index, File: from, FileRow: index, Prompt: text}}
	r.Finish([]string{"prompt"}, m)
	if message {
		m.converse(r, nil)
	}
	return r.Row
}

// roles are the roles that a message may have: those that chat templates know.
var roles = []string{"system", "developer", "user", "assistant", "model", "tool", "function", "ipython", "environment"}

// Fail records the first thing wrong with a row.
func (r *Builder) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = r.Error(fmt.Sprintf(format, args...))
	}
}

// Blame notes what the first thing wrong with a row is about, if judge finds it.
func (r *Builder) Blame(param, code string, judge func()) {
	before := r.Err
	judge()
	if of, _ := r.Err.(*RowError); before == nil && of != nil && of.Param == "" {
		of.Param, of.Code = param, cmp.Or(of.Code, code)
	}
}

// Text checks a value that must be UTF-8.
func (r *Builder) Text(name string, b []byte) string {
	if !utf8.Valid(b) {
		r.Fail("%s is not valid UTF-8; re-encode it as UTF-8", name)
		return strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return string(b)
}

// Finish checks the row as a whole, once its fields are set. given names the prompt columns that are not null.
func (r *Builder) Finish(given []string, m *Mapping) {
	r.checkParent()
	switch len(given) {
	case 0:
		if r.Parent.ID == "" { // else it goes on with nothing in between
			wanted := strings.Join(schema.PromptNames, ", ")
			if m.Mapped() {
				wanted = m.PromptColumn
			}
			r.Fail("no prompt; give one of %s", wanted)
		}
	case 1:
	default:
		r.Fail("more than one prompt (%s); keep one and leave the others null", strings.Join(given, ", "))
	}
	if r.givenID = r.ID != ""; !r.givenID && !r.LostID {
		r.ID = strconv.FormatInt(r.Index, 10)
	}
	if r.Err != nil {
		r.Kind, r.Prompt, r.Messages, r.TokenIDs, r.Overrides = KindNone, "", nil, nil, Overrides{}
		r.More = nil
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
		r.More = nil
	}
}

// finishPrompt checks the prompt, which is given under a name.
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
			r.Fail("prompt_token_ids is empty; give at least one token")
		}
		for i, p := range r.More {
			if len(p.TokenIDs) == 0 {
				r.Fail("prompt[%d] is empty; give at least one token", i+1)
			}
		}
	}
}

// Token appends a token id.
func (r *Builder) Token(id int64) {
	if id < 0 || id > math.MaxInt32 {
		r.Fail("prompt_token_ids[%d] is %d; token ids are 0 to %d", len(r.TokenIDs), id, math.MaxInt32)
		return
	}
	r.TokenIDs = append(r.TokenIDs, int32(id))
}
