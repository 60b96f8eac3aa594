package promptset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset/openai"
)

// knownNames are the columns that this package reads itself, in the order of the documentation.
var knownNames = append([]string{"prompt", "messages", "prompt_token_ids", "id", parentName, "parent_generation",
	"parent_length"}, slices.DeleteFunc(parameter.OwnNames(), judgedAsJSON)...)

// judgedAsJSON says that the values of a name are read as JSON, as those of names that other engines have: a column may
// have any type.
func judgedAsJSON(name string) bool {
	t := parameter.TypeOf(name)
	return t == parameter.Structured || t == parameter.IntegerList || t == parameter.BiasesOfTokens
}

var promptNames = knownNames[:3]

// wanted says which types a known column may have.
func wanted(name string) string {
	switch name {
	case "prompt":
		return "text or binary"
	case "messages":
		return "list of struct{role text, content text}"
	case "prompt_token_ids":
		return "list of integers"
	case "id", parentName:
		return "text or a whole number"
	case "parent_generation", "parent_length":
		return "an integer"
	}
	return parameter.TypeOf(name).String()
}

// concerns says that a column is a parameter beside one of these prompt columns, and not the user's own.
func concerns(name string, prompts []string) bool {
	p := parameter.Sink(name)
	return p == nil || slices.ContainsFunc(prompts, p.Concerns) ||
		!slices.ContainsFunc(promptNames, func(prompt string) bool { return !p.Concerns(prompt) })
}

// resultNames are the parameters that are names of columns of an output, too.
var resultNames = []string{"generation", "logprobs", "top_logprobs", "prompt_logprobs"}

// isResult says that a list of this name, which is a parameter's, is what a job put there, such as top_logprobs: it
// stands beside other columns of an output.
func isResult(name string, has func(column string) bool) bool {
	return parameter.Sink(name) != nil && has("finish_reason") && has("completion_tokens") &&
		slices.Contains(resultNames, name)
}

// concernsAll says that a column is a parameter beside any prompt column.
func concernsAll(name string) bool { return concerns(name, nil) }

// roles are the roles that a message may have: those that chat templates know.
var roles = []string{"system", "developer", "user", "assistant", "model", "tool", "function", "ipython", "environment"}

// fits says whether a Parquet column named name may have n's type.
func fits(name string, n *node) bool {
	switch name {
	case "prompt":
		return textual(n)
	case "messages":
		return areMessages(n)
	case "prompt_token_ids":
		e := n.element()
		if e == nil || !e.leaf {
			return false
		}
		_, ok := integer(e.typ)
		return ok || e.isNull()
	case "id", parentName:
		_, ok := integer(typeOf(n))
		return ok || float(n) || textual(n)
	}
	switch parameter.TypeOf(name) {
	case parameter.TextList:
		e := n.element()
		return textual(n) || e != nil && e.leaf && e.maxRep == 1 && (textualLeaf(e) || e.isNull())
	case parameter.Boolean:
		return n.leaf && n.rep != repeated && n.typ.Kind() == parquet.Boolean
	case parameter.Word:
		return textual(n)
	case parameter.Object: // a struct, a map, or text
		return textual(n) || !n.leaf && n.rep != repeated && (n.element() == nil || n.isMap())
	case parameter.List:
		return textual(n) || n.element() != nil && !n.isMap()
	}
	_, ok := integer(typeOf(n))
	return ok || float(n) // data frames turn integers with nulls into floats; values must be whole
}

func textualLeaf(n *node) bool {
	return n.leaf && n.typ.Kind() == parquet.ByteArray && (n.isText() || n.typ.LogicalType() == nil)
}

// readAsText marks the binary leaves of a known column: they are text, whatever their annotation.
func (n *node) readAsText() {
	n.words = n.leaf && !n.isJSON()
	for _, f := range n.fields {
		f.readAsText()
	}
}

func textual(n *node) bool { return n.rep != repeated && textualLeaf(n) }

func float(n *node) bool {
	return n.leaf && n.rep != repeated && (n.typ.Kind() == parquet.Float || n.typ.Kind() == parquet.Double)
}

// typeOf returns the type of a single-valued leaf, nil for anything else.
func typeOf(n *node) parquet.Type {
	if !n.leaf || n.rep == repeated {
		return nil
	}
	return n.typ
}

// integer says whether t holds integers and whether they are signed.
func integer(t parquet.Type) (signed, ok bool) {
	if t == nil || t.Kind() != parquet.Int32 && t.Kind() != parquet.Int64 {
		return false, false
	}
	lt := t.LogicalType()
	if lt == nil {
		return true, true
	}
	i, ok := lt.Value.(*format.IntType)
	return ok && i.IsSigned, ok
}

// fail records the first thing wrong with a row.
func (r *Builder) fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = r.Error(fmt.Sprintf(format, args...))
	}
}

// blame notes what the first thing wrong with a row is about, if judge finds it.
func (r *Builder) blame(param, code string, judge func()) {
	before := r.Err
	judge()
	if of, _ := r.Err.(*RowError); before == nil && of != nil && of.Param == "" {
		of.Param, of.Code = param, cmp.Or(of.Code, code)
	}
}

// text checks a value that must be UTF-8.
func (r *Builder) text(name string, b []byte) string {
	if !utf8.Valid(b) {
		r.fail("%s is not valid UTF-8; re-encode it as UTF-8", name)
		return strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return string(b)
}

// finish checks the row as a whole, once its fields are set. given names the prompt columns that are not null.
func (r *Builder) finish(given []string, m *Mapping) {
	r.checkParent()
	switch len(given) {
	case 0:
		if r.Parent.ID == "" { // else it goes on with nothing in between
			wanted := strings.Join(promptNames, ", ")
			if m.mapped() {
				wanted = m.PromptColumn
			}
			r.fail("no prompt; give one of %s", wanted)
		}
	case 1:
	default:
		r.fail("more than one prompt (%s); keep one and leave the others null", strings.Join(given, ", "))
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
	r.blame(r.promptParam, openai.CodeInvalidValue, func() {
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
			r.fail("messages is empty; give at least one message")
		}
		for i, m := range r.Messages {
			if !slices.Contains(roles, m.Role) && (m.Role != "" || m.Object == "") {
				r.fail("messages[%d] has the unknown role %q; use one of %s", i, m.Role, strings.Join(roles, ", "))
				break
			}
		}
	case "prompt_token_ids":
		r.Kind = KindTokens
		if len(r.TokenIDs) == 0 && r.Parent.ID == "" {
			r.fail("prompt_token_ids is empty; give at least one token")
		}
		for i, p := range r.More {
			if len(p.TokenIDs) == 0 {
				r.fail("prompt[%d] is empty; give at least one token", i+1)
			}
		}
	}
}

// token appends a token id.
func (r *Builder) token(id int64) {
	if id < 0 || id > math.MaxInt32 {
		r.fail("prompt_token_ids[%d] is %d; token ids are 0 to %d", len(r.TokenIDs), id, math.MaxInt32)
		return
	}
	r.TokenIDs = append(r.TokenIDs, int32(id))
}

// wholeBelow is the number below which a column of floats holds all whole numbers, 0 for other columns.
func wholeBelow(c *node) float64 {
	if !c.leaf {
		return 0
	}
	if lt := c.typ.LogicalType(); lt != nil {
		if _, half := lt.Value.(*format.Float16Type); half {
			return 1 << 11
		}
	}
	switch {
	case c.typ.Kind() == parquet.Float:
		return 1 << 24
	case c.typ.Kind() == parquet.Double:
		return 1 << 53
	}
	return 0
}
