// Package schema describes the columns of files as trees with Parquet's types, for all file formats. It merges the
// columns of several files, converts JSON to and from the values of columns, and knows which columns have a meaning.
package schema

import (
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// Layout describes how a column is stored in a file.
func (n *Node) Layout() string {
	text := fmt.Sprintf("%q %d %v %t", n.Name, n.Rep, n.Type, n.enc != nil)
	for _, f := range n.Fields {
		text += " (" + f.Layout() + ")"
	}
	return text
}

// Dictionaries requests dictionaries below n, because an input row's values repeat with each of its completions.
func Dictionaries(n *Node) {
	for _, f := range n.Fields {
		Dictionaries(f)
	}
	if _, odd := n.Type.(Annotated); n.IsLeaf && !odd && n.Type.Kind() != parquet.Boolean &&
		n.Type.Kind() != parquet.Int96 {
		n.enc = &parquet.RLEDictionary
	}
}

type Repetition int8

const (
	Required Repetition = iota
	Optional
	Repeated
)

// Node is one field of a schema tree, for reading, merging and writing. The library has no such tree: parquet.Group
// sorts its fields by name, and a file's own nodes carry that file's encodings and codecs.
type Node struct {
	Name   string
	Rep    Repetition
	Type   parquet.Type // for a leaf: physical and logical type; for a group: LIST, MAP or plain
	Fields []*Node      // for a group
	IsLeaf bool
	enc    encoding.Encoding
	words  bool // binary that is read as text

	// Number sets the fields below.
	Column int // number of the first leaf at or below this node
	Leaves int // number of leaves at or below it
	MaxDef int // definition level at which a value of this node is present
	MaxRep int
}

var (
	NullType = Annotated{Type: parquet.Int32Type, Logical: &format.LogicalType{Value: new(format.NullType)}}
	// emptyType is the type of the elements of lists that are all empty, so that they merge with the lists of any
	// other file. It is written as text, because many readers do not support lists of nulls.
	emptyType  = Annotated{Type: parquet.Int32Type, Logical: &format.LogicalType{Value: new(format.NullType)}}
	plainGroup = parquet.Group{}.Type()
	listGroup  = parquet.List(parquet.String()).Type()
)

func Leaf(name string, rep Repetition, typ parquet.Type) *Node {
	return &Node{Name: name, Rep: rep, Type: typ, IsLeaf: true}
}

func Group(name string, rep Repetition, fields ...*Node) *Node {
	return &Node{Name: name, Rep: rep, Type: plainGroup, Fields: fields}
}

// List returns a list in the standard three levels; it sets element's name.
func List(name string, rep Repetition, element *Node) *Node {
	element.Name = "element"
	return &Node{Name: name, Rep: rep, Type: listGroup, Fields: []*Node{Group("list", Repeated, element)}}
}

// NodeOf copies a column of a file. elements are the schema elements of the file in depth-first order, starting with
// c's own. It returns the elements after c's subtree.
func NodeOf(c *parquet.Column, elements []format.SchemaElement) (*Node, []format.SchemaElement) {
	n := &Node{Name: c.Name(), Type: c.Type(), IsLeaf: c.Leaf()}
	switch {
	case c.Optional():
		n.Rep = Optional
	case c.Repeated():
		n.Rep = Repeated
	}
	element := &elements[0]
	elements = elements[1:]
	if n.IsLeaf {
		if _, ok := element.LogicalType.Value.(*format.Float16Type); ok {
			n.Type = Annotated{Type: n.Type, Logical: &element.LogicalType}
		}
		if n.IsNull() {
			n.Type = NullType
		}
		return n, elements
	}
	for _, child := range c.Columns() {
		var f *Node
		f, elements = NodeOf(child, elements)
		n.Fields = append(n.Fields, f)
	}
	return n, elements
}

// Annotated is a type with a logical annotation for which the library has no type, so that a copy keeps it.
type Annotated struct {
	parquet.Type
	Logical *format.LogicalType
}

func (t Annotated) LogicalType() *format.LogicalType { return t.Logical }

func (t Annotated) String() string { return t.Logical.String() }

// Number sets column numbers and levels of the tree below root, a group that stands for the whole row.
func Number(root *Node) {
	column := 0
	var walk func(n *Node, def, rep int)
	walk = func(n *Node, def, rep int) {
		switch n.Rep {
		case Optional:
			def++
		case Repeated:
			def++
			rep++
		}
		n.MaxDef, n.MaxRep, n.Column = def, rep, column
		if n.IsLeaf {
			column++
		}
		for _, f := range n.Fields {
			walk(f, def, rep)
		}
		n.Leaves = column - n.Column
	}
	walk(root, 0, 0)
}

// Element returns the element node of a list in any of the forms that writers use: three levels under any names, two
// levels (a repeated field under a LIST), or a bare repeated field. It returns nil if n is not a list. The element is
// present in a row if its definition level is reached; a list within a list is not mistaken for its element.
func (n *Node) Element() *Node {
	if n.Rep == Repeated {
		return n
	}
	if n.IsLeaf || len(n.Fields) != 1 || n.Fields[0].Rep != Repeated {
		return nil
	}
	middle := n.Fields[0]
	if middle.IsLeaf || len(middle.Fields) != 1 || middle.Name == "array" || middle.Name == n.Name+"_tuple" {
		return middle
	}
	return middle.Fields[0]
}

func (n *Node) IsMap() bool {
	if n.IsLeaf || len(n.Fields) != 1 || n.Fields[0].Rep != Repeated || len(n.Fields[0].Fields) != 2 {
		return false
	}
	lt := n.Type.LogicalType()
	if lt == nil {
		return false
	}
	_, ok := lt.Value.(*format.MapType)
	return ok
}

// IsList reports whether n is the outer group of a list. A repeated node never is: it is its own [Node.Element].
func (n *Node) IsList() bool {
	if n.IsLeaf || n.Rep == Repeated {
		return false
	}
	lt := n.Type.LogicalType()
	if lt == nil {
		return false
	}
	_, ok := lt.Value.(*format.ListType)
	return ok && n.Element() != nil
}

func (n *Node) Field(name string) *Node {
	for _, f := range n.Fields {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// IsNull reports whether the column can hold only nulls.
func (n *Node) IsNull() bool {
	if !n.IsLeaf {
		return false
	}
	lt := n.Type.LogicalType()
	if lt == nil {
		return false
	}
	_, ok := lt.Value.(*format.NullType)
	return ok
}

// isEmptyList reports whether the column holds only empty lists of a JSONL file, and nulls.
func (n *Node) isEmptyList() bool {
	return n.IsList() && n.Element().IsEmpty()
}

// IsEmpty reports whether n is the element of a list that is always empty.
func (n *Node) IsEmpty() bool {
	t, ok := n.Type.(Annotated)
	return n.IsLeaf && ok && t.Logical == emptyType.Logical
}

// IsJSON reports whether values are text that holds JSON.
func (n *Node) IsJSON() bool { return n.IsLeaf && parquet.EqualTypes(n.Type, parquet.JSON().Type()) }

// isText reports whether values are UTF-8 by their type, so that readers may reject anything else.
func (n *Node) isText() bool {
	if !n.IsLeaf || n.Type.Kind() != parquet.ByteArray {
		return false
	}
	switch ct := n.Type.ConvertedType(); {
	case ct == nil:
		return false
	default:
		return *ct == deprecated.UTF8 || *ct == deprecated.Json || *ct == deprecated.Enum
	}
}

// Describe returns the type for an error message: "list of struct{role text, content text}".
func (n *Node) Describe() string {
	var s string
	switch {
	case n.IsNull():
		s = "null"
	case n.IsLeaf && n.isText():
		s = "text"
	case n.IsLeaf && isInteger(n.Type):
		s = integerName(n.Type)
	case n.IsLeaf && n.Type.LogicalType() == nil:
		s = strings.ToLower(n.Type.Kind().String())
		if n.Type.Kind() == parquet.ByteArray {
			s = "binary"
		}
	case n.IsLeaf:
		s = strings.ToLower(n.Type.String())
	case n.IsMap():
		kv := n.Fields[0]
		return fmt.Sprintf("map of %s to %s", kv.Fields[0].Describe(), kv.Fields[1].Describe())
	case n.IsList() && n.Element() != n.Fields[0]:
		return "list of " + n.Element().Describe()
	case n.IsList():
		return n.Fields[0].Describe()
	default:
		parts := make([]string, len(n.Fields))
		for i, f := range n.Fields {
			parts[i] = f.Name + " " + f.Describe()
		}
		s = "struct{" + strings.Join(parts, ", ") + "}"
	}
	if n.Rep == Repeated {
		return "list of " + s
	}
	return s
}

func isInteger(t parquet.Type) bool {
	_, ok := Integer(t)
	return ok
}

func integerName(t parquet.Type) string {
	bits := 64
	if t.Kind() == parquet.Int32 {
		bits = 32
	}
	if lt := t.LogicalType(); lt != nil {
		bits = int(lt.Value.(*format.IntType).BitWidth)
	}
	if signed, _ := Integer(t); signed {
		return fmt.Sprintf("int%d", bits)
	}
	return fmt.Sprintf("uint%d", bits)
}

// Clone copies the tree, so that it can be numbered again.
func (n *Node) Clone() *Node {
	c := *n
	c.Fields = make([]*Node, len(n.Fields))
	for i, f := range n.Fields {
		c.Fields[i] = f.Clone()
	}
	return &c
}

// Integer reports whether t holds integers and whether they are signed.
func Integer(t parquet.Type) (signed, ok bool) {
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
