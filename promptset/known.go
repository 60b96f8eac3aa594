package promptset

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// knownNames are the columns that this package reads itself, in the order of the documentation.
var knownNames = []string{
	"prompt", "messages", "prompt_token_ids", "id",
	"n", "max_tokens", "temperature", "top_k", "top_p", "min_p", "seed", "generation", "stop", "ignore_eos",
}

var promptNames = knownNames[:3]

// refusedNames are parameters that other engines have and this one does not: a row that gives one is in error, since a completion that
// silently left it out would be another one than was asked for. Anything else that is not known is the user's own column.
var refusedNames = []string{
	"best_of", "use_beam_search", "num_beams", "length_penalty", "presence_penalty", "frequency_penalty", "repetition_penalty",
	"logit_bias", "min_tokens", "stop_token_ids", "bad_words", "allowed_token_ids", "typical_p", "tfs_z", "mirostat", "dry_multiplier",
	"xtc_probability", "response_format", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "grammar",
}

// wanted says which types a known column may have.
func wanted(name string) string {
	switch name {
	case "prompt":
		return "text or binary"
	case "messages":
		return "list of struct{role text, content text}"
	case "prompt_token_ids":
		return "list of integers"
	case "id":
		return "text or an integer"
	case "temperature", "top_p", "min_p":
		return "a number"
	case "stop":
		return "text or list of text"
	case "ignore_eos":
		return "boolean"
	}
	return "an integer"
}

// roles are the roles that a message may have: those that chat templates know.
var roles = []string{"system", "developer", "user", "assistant", "model", "tool", "function", "ipython", "environment"}

// fits says whether a Parquet column named name may have n's type.
func fits(name string, n *node) bool {
	switch name {
	case "prompt":
		return textual(n)
	case "messages":
		role, content := messageLeaves(n)
		return role != nil && content != nil
	case "prompt_token_ids":
		e := n.element()
		if e == nil || !e.leaf {
			return false
		}
		_, ok := integer(e.typ)
		return ok
	case "id":
		_, ok := integer(typeOf(n))
		return ok || textual(n)
	case "stop":
		e := n.element()
		return textual(n) || e != nil && e.leaf && e.maxRep == 1 && textualLeaf(e)
	case "ignore_eos":
		return n.leaf && n.rep != repeated && n.typ.Kind() == parquet.Boolean
	case "temperature", "top_p", "min_p":
		_, ok := integer(typeOf(n))
		return ok || float(n)
	}
	_, ok := integer(typeOf(n))
	return ok || float(n) // data frames turn integers with nulls into floats; values must be whole
}

func textualLeaf(n *node) bool {
	return n.leaf && n.typ.Kind() == parquet.ByteArray && (n.isText() || n.typ.LogicalType() == nil)
}

// readAsText marks the binary leaves of a known column: they are text, whatever their annotation.
func (n *node) readAsText() {
	n.words = n.leaf
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

// messageLeaves finds the role and content leaves of a messages column: a list of structs, or the struct of two lists that
// some tools make of it. They are nil if n is something else.
func messageLeaves(n *node) (role, content *node) {
	if e := n.element(); e != nil && !e.leaf {
		role, content = e.field("role"), e.field("content")
	} else if !n.leaf && n.rep != repeated {
		if r, c := n.field("role"), n.field("content"); r != nil && c != nil {
			role, content = r.element(), c.element()
		}
	}
	if role == nil || content == nil || !textualLeaf(role) || !textualLeaf(content) || role.maxRep != 1 || content.maxRep != 1 {
		return nil, nil
	}
	return role, content
}

// fail records the first thing wrong with a row.
func (r *Row) fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = r.Error(fmt.Sprintf(format, args...))
	}
}

// text checks a value that must be UTF-8.
func (r *Row) text(name string, b []byte) string {
	if !utf8.Valid(b) {
		r.fail("%s is not valid UTF-8; re-encode it as UTF-8", name)
		return strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return string(b)
}

// finish checks the row as a whole, once its fields are set. given names the prompt columns that are not null.
func (r *Row) finish(given []string) {
	switch len(given) {
	case 0:
		r.fail("no prompt; give one of %s", strings.Join(promptNames, ", "))
	case 1:
	default:
		r.fail("more than one prompt (%s); keep one and leave the others null", strings.Join(given, ", "))
	}
	if r.ID == "" {
		r.ID = strconv.FormatInt(r.Index, 10)
	}
	if r.Err != nil {
		r.Kind, r.Prompt, r.Messages, r.TokenIDs, r.Overrides = KindNone, "", nil, nil, Overrides{}
		return
	}
	switch given[0] {
	case "prompt":
		r.Kind = KindText
	case "messages":
		r.Kind = KindMessages
		if len(r.Messages) == 0 {
			r.fail("messages is empty; give at least one message")
		}
		for i, m := range r.Messages {
			if !slices.Contains(roles, m.Role) {
				r.fail("messages[%d] has the unknown role %q; use one of %s", i, m.Role, strings.Join(roles, ", "))
				break
			}
		}
	case "prompt_token_ids":
		r.Kind = KindTokens
		if len(r.TokenIDs) == 0 {
			r.fail("prompt_token_ids is empty; give at least one token")
		}
	}
	if r.Err != nil {
		r.Kind, r.Messages, r.TokenIDs, r.Overrides = KindNone, nil, nil, Overrides{}
	}
}

// token appends a token id.
func (r *Row) token(id int64) {
	if id < 0 || id > math.MaxInt32 {
		r.fail("prompt_token_ids[%d] is %d; token ids are 0 to %d", len(r.TokenIDs), id, math.MaxInt32)
		return
	}
	r.TokenIDs = append(r.TokenIDs, int32(id))
}

// number is a numeric override in the widest form of its kind.
type numeric struct {
	kind parquet.Kind // Int64, or Double
	i    int64
	u    uint64 // the same as i; for unsigned values above its range, big is set
	big  bool
	f    float64
}

func (v numeric) String() string {
	switch {
	case v.kind == parquet.Double:
		return strconv.FormatFloat(v.f, 'g', -1, 64)
	case v.big:
		return strconv.FormatUint(v.u, 10)
	}
	return strconv.FormatInt(v.i, 10)
}

// whole turns a float that is a whole number into that integer.
func (v numeric) whole() (numeric, bool) {
	if v.kind != parquet.Double {
		return v, true
	}
	if v.f != math.Trunc(v.f) || math.Abs(v.f) > 1<<53 {
		return v, false
	}
	return numeric{kind: parquet.Int64, i: int64(v.f), u: uint64(int64(v.f))}, true
}

// override sets the numeric override called name.
func (r *Row) override(name string, v numeric) {
	o := &r.Overrides
	switch name {
	case "temperature", "top_p", "min_p":
		f := v.f
		if v.kind != parquet.Double {
			f = float64(v.i)
			if v.big {
				f = float64(v.u)
			}
		}
		switch name {
		case "temperature":
			o.Temperature = &f
		case "top_p":
			o.TopP = &f
		case "min_p":
			o.MinP = &f
		}
		return
	}
	v, ok := v.whole()
	if !ok {
		r.fail("%s is %v; give a whole number", name, v)
		return
	}
	if name == "seed" {
		o.Seed = &v.u
		return
	}
	i := int(v.i)
	if v.big || int64(i) != v.i {
		r.fail("%s is %v; it must fit a signed %d-bit integer", name, v, strconv.IntSize)
		return
	}
	switch name {
	case "n":
		o.N = &i
	case "max_tokens":
		o.MaxTokens = &i
	case "top_k":
		o.TopK = &i
	case "generation":
		o.Generation = &i
	}
}
