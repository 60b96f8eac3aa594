package schema

import (
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/quire/quire/data/parameter"
)

// MaxKeys bounds the number of columns of a JSONL file.
const MaxKeys = 10_000

// KnownNode returns the column of a known key, or of another name for a parameter. Its type does not depend on its
// values: values that do not fit are errors of their rows, and null in the output. It is nil for other keys and for
// messages, which may have more than role and content.
func KnownNode(name string) *Node {
	switch name {
	case "prompt", "id", ParentName:
		return JSONText.Node(name)
	case "parent_generation", "parent_length":
		return JSONInt.Node(name)
	case "prompt_token_ids":
		return List(name, Optional, Leaf("", Optional, parquet.Int32Type))
	}
	switch parameter.TypeOf(name) {
	case parameter.Number:
		return JSONDouble.Node(name)
	case parameter.Integer:
		return JSONInt.Node(name)
	case parameter.Seed:
		return Leaf(name, Optional, parquet.Uint(64).Type())
	case parameter.TextList:
		return List(name, Optional, JSONText.Node(""))
	case parameter.Boolean:
		return JSONBool.Node(name)
	case parameter.Word:
		return JSONText.Node(name)
	case parameter.Object, parameter.List:
		if concernsAll(name) {
			return JSONAny.Node(name)
		}
	}
	return nil
}

// KnownNames lists the columns that this package interprets, in the order of the documentation.
var KnownNames = append([]string{"prompt", "messages", "prompt_token_ids", "id", ParentName, "parent_generation",
	"parent_length"}, slices.DeleteFunc(parameter.OwnNames(), judgedAsJSON)...)

// judgedAsJSON reports whether the values of a name are read as JSON, as for names of other engines: such a column
// may have any type.
func judgedAsJSON(name string) bool {
	t := parameter.TypeOf(name)
	return t == parameter.Structured || t == parameter.IntegerList || t == parameter.BiasesOfTokens
}

var PromptNames = KnownNames[:3]

// Wanted describes which types a known column may have.
func Wanted(name string) string {
	switch name {
	case "prompt":
		return "text or binary"
	case "messages":
		return "list of struct{role text, content text}"
	case "prompt_token_ids":
		return "list of integers"
	case "id", ParentName:
		return "text or a whole number"
	case "parent_generation", "parent_length":
		return "an integer"
	}
	return parameter.TypeOf(name).String()
}

// Concerns reports whether a column is a parameter, rather than the user's own, given one of these prompt columns.
func Concerns(name string, prompts []string) bool {
	p := parameter.Sink(name)
	return p == nil || slices.ContainsFunc(prompts, p.Concerns) ||
		!slices.ContainsFunc(PromptNames, func(prompt string) bool { return !p.Concerns(prompt) })
}

// ResultNames are the parameters whose names are also names of output columns.
var ResultNames = []string{"generation", "logprobs", "top_logprobs", "prompt_logprobs"}

// IsResult reports whether a list in a column named like a parameter was put there by a job, such as top_logprobs:
// other columns of an output are then present.
func IsResult(name string, has func(column string) bool) bool {
	return parameter.Sink(name) != nil && has("finish_reason") && has("completion_tokens") &&
		slices.Contains(ResultNames, name)
}

// concernsAll reports whether a column is a parameter with any prompt column.
func concernsAll(name string) bool { return Concerns(name, nil) }

// Fits reports whether a Parquet column named name may have n's type.
func Fits(name string, n *Node) bool {
	switch name {
	case "prompt":
		return textual(n)
	case "messages":
		return areMessages(n)
	case "prompt_token_ids":
		e := n.Element()
		if e == nil || !e.IsLeaf {
			return false
		}
		_, ok := Integer(e.Type)
		return ok || e.IsNull()
	case "id", ParentName:
		_, ok := Integer(typeOf(n))
		return ok || float(n) || textual(n) || IsUUID(n)
	}
	switch parameter.TypeOf(name) {
	case parameter.TextList:
		return FitsTexts(n)
	case parameter.Boolean:
		return n.IsLeaf && n.Rep != Repeated && n.Type.Kind() == parquet.Boolean
	case parameter.Word:
		return textual(n)
	case parameter.Object: // a struct, a map, or text
		return textual(n) || !n.IsLeaf && n.Rep != Repeated && (n.Element() == nil || n.IsMap())
	case parameter.List:
		return textual(n) || n.Element() != nil && !n.IsMap()
	}
	_, ok := Integer(typeOf(n))
	return ok || float(n) // where it must be an integer, the values must be whole
}

// FitsTexts reports whether a Parquet column may be text, or a list of texts.
func FitsTexts(n *Node) bool {
	e := n.Element()
	return textual(n) || e != nil && e.IsLeaf && e.MaxRep == 1 && (textualLeaf(e) || e.IsNull())
}

func textualLeaf(n *Node) bool {
	return n.IsLeaf && n.Type.Kind() == parquet.ByteArray && (n.isText() || n.Type.LogicalType() == nil)
}

// ReadAsText marks the binary leaves of a known column as text, regardless of their annotation.
func (n *Node) ReadAsText() {
	n.words = n.IsLeaf && !n.IsJSON()
	for _, f := range n.Fields {
		f.ReadAsText()
	}
}

func textual(n *Node) bool { return n.Rep != Repeated && textualLeaf(n) }

// float reports whether a column has numbers that may have a fraction. Programs turn integers with nulls into floats,
// and integers beyond 64 bits into decimals.
func float(n *Node) bool {
	t := typeOf(n)
	return t != nil && (t.Kind() == parquet.Float || t.Kind() == parquet.Double || IsDecimal(t))
}

// IsUUID reports whether a column has UUIDs.
func IsUUID(n *Node) bool {
	t := typeOf(n)
	if t == nil || t.LogicalType() == nil {
		return false
	}
	_, ok := t.LogicalType().Value.(*format.UUIDType)
	return ok
}

// typeOf returns the type of a single-valued leaf, nil for anything else.
func typeOf(n *Node) parquet.Type {
	if !n.IsLeaf || n.Rep == Repeated {
		return nil
	}
	return n.Type
}

// WholeBelow returns the number below which a column of floats represents all integers, 0 for other columns.
func WholeBelow(c *Node) float64 {
	if !c.IsLeaf {
		return 0
	}
	if lt := c.Type.LogicalType(); lt != nil {
		if _, half := lt.Value.(*format.Float16Type); half {
			return 1 << 11
		}
	}
	switch {
	case c.Type.Kind() == parquet.Float:
		return 1 << 24
	case c.Type.Kind() == parquet.Double:
		return 1 << 53
	}
	return 0
}

// MessageFields returns the fields of the structs of a messages column, or the fields of its struct of lists.
func MessageFields(n *Node) []*Node {
	if e := n.Element(); e != nil {
		return e.Fields
	}
	return n.Fields
}

// twice reports whether two nodes have the same name.
func twice(nodes []*Node) bool {
	for i, n := range nodes {
		if slices.ContainsFunc(nodes[:i], func(o *Node) bool { return o.Name == n.Name }) {
			return true
		}
	}
	return false
}

// areMessages reports whether a Parquet column can be messages: a list of structs with role and content, the struct
// of lists that some tools make of it, or text that holds JSON.
func areMessages(n *Node) bool {
	if e := n.Element(); textual(n) || e != nil && e.IsNull() { // lists without messages
		return true
	}
	if n.IsLeaf || twice(MessageFields(n)) {
		return false
	}
	var role, content *Node
	for _, f := range MessageFields(n) {
		switch f.Name {
		case "role":
			role = f
		case "content":
			content = f
		}
	}
	if role == nil || content == nil {
		return false
	}
	if n.Element() == nil {
		role, content = role.Element(), content.Element()
	}
	return role != nil && content != nil && textualLeaf(role) && (textualLeaf(content) || content.IsNull() ||
		content.Element() != nil) && role.MaxRep == 1
}

// PlainMessages returns the leaves of a messages column that is a list of structs with text as role and content. They
// are nil for other columns.
func PlainMessages(n *Node) (role, content *Node) {
	e := n.Element()
	if e == nil || e.IsLeaf {
		return nil, nil
	}
	role, content = e.Field("role"), e.Field("content")
	if !textualLeaf(role) || !textualLeaf(content) || role.MaxRep != 1 || content.MaxRep != 1 {
		return nil, nil
	}
	return role, content
}

// ForeignNames returns the entries of the parameter table for a column, other than the one that reads it as one of
// Quire's own parameters.
func ForeignNames(column string) []*parameter.Parameter {
	var found []*parameter.Parameter
	for _, p := range parameter.Lookup(column) {
		if (!p.Own() || judgedAsJSON(p.Name)) && !p.Passes() {
			found = append(found, p)
		}
	}
	return found
}

// IDName is the column that names a row.
const IDName = "id"

// ParentName is the column that names the row which a row continues.
const ParentName = "parent"

// TextNames are the columns that a model without a tokenizer cannot use.
var TextNames = PromptNames[:2]
