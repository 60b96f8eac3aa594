package promptset

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

type repetition int8

const (
	required repetition = iota
	optional
	repeated
)

// node is one field of a schema tree, for reading, merging and writing. The library has no such tree: parquet.Group sorts
// its fields by name, and a file's own nodes carry that file's encodings and codecs.
type node struct {
	name   string
	rep    repetition
	typ    parquet.Type // of a leaf: physical and logical type; of a group: LIST, MAP or plain
	fields []*node      // of a group
	leaf   bool
	enc    encoding.Encoding
	words  bool // binary that we read as text

	// Set by number.
	column int // of the first leaf at or below this node
	leaves int // how many leaves are at or below it
	maxDef int // definition level at which a value of this node is present
	maxRep int
}

var (
	nullType = annotated{Type: parquet.Int32Type, logical: &format.LogicalType{Value: new(format.NullType)}}
	// emptyType is of the elements of lists that are all empty, so that any list of another file goes with them. It is
	// written as text: many readers know no list of nulls.
	emptyType  = annotated{Type: parquet.Int32Type, logical: &format.LogicalType{Value: new(format.NullType)}}
	plainGroup = parquet.Group{}.Type()
	listGroup  = parquet.List(parquet.String()).Type()
)

// parquetField is a node as the Parquet library sees it.
type parquetField struct{ n *node }

// AsParquet is a tree for the Parquet library.
func AsParquet(n *node) parquet.Field { return parquetField{n} }

func (f parquetField) ID() int                                { return 0 }
func (f parquetField) String() string                         { return f.n.describe() }
func (f parquetField) Type() parquet.Type                     { return f.n.typ }
func (f parquetField) Optional() bool                         { return f.n.rep == optional }
func (f parquetField) Repeated() bool                         { return f.n.rep == repeated }
func (f parquetField) Required() bool                         { return f.n.rep == required }
func (f parquetField) Leaf() bool                             { return f.n.leaf }
func (f parquetField) Encoding() encoding.Encoding            { return f.n.enc }
func (f parquetField) Compression() compress.Codec            { return nil }
func (f parquetField) GoType() reflect.Type                   { return reflect.TypeFor[any]() }
func (f parquetField) Name() string                           { return f.n.name }
func (f parquetField) Value(base reflect.Value) reflect.Value { return base }
func (f parquetField) Fields() []parquet.Field {
	fields := make([]parquet.Field, len(f.n.fields))
	for i, c := range f.n.fields {
		fields[i] = AsParquet(c)
	}
	return fields
}

func leafNode(name string, rep repetition, typ parquet.Type) *node {
	return &node{name: name, rep: rep, typ: typ, leaf: true}
}

func groupNode(name string, rep repetition, fields ...*node) *node {
	return &node{name: name, rep: rep, typ: plainGroup, fields: fields}
}

// listNode is a list in the standard three levels; element's name is set here.
func listNode(name string, rep repetition, element *node) *node {
	element.name = "element"
	return &node{name: name, rep: rep, typ: listGroup, fields: []*node{groupNode("list", repeated, element)}}
}

// nodeOf copies a column of a file, with elements the schema elements of the file in depth-first order from c's own on.
// It returns the elements that follow c's subtree.
func nodeOf(c *parquet.Column, elements []format.SchemaElement) (*node, []format.SchemaElement) {
	n := &node{name: c.Name(), typ: c.Type(), leaf: c.Leaf()}
	switch {
	case c.Optional():
		n.rep = optional
	case c.Repeated():
		n.rep = repeated
	}
	element := &elements[0]
	elements = elements[1:]
	if n.leaf {
		if _, ok := element.LogicalType.Value.(*format.Float16Type); ok {
			n.typ = annotated{Type: n.typ, logical: &element.LogicalType}
		}
		if n.isNull() {
			n.typ = nullType
		}
		return n, elements
	}
	for _, child := range c.Columns() {
		var f *node
		f, elements = nodeOf(child, elements)
		n.fields = append(n.fields, f)
	}
	return n, elements
}

// annotated is a type with a logical annotation that the library keeps no type for, so that it survives a copy.
type annotated struct {
	parquet.Type
	logical *format.LogicalType
}

func (t annotated) LogicalType() *format.LogicalType { return t.logical }
func (t annotated) String() string                   { return t.logical.String() }

// number sets column numbers and levels of the tree below root, a group that stands for the whole row.
func number(root *node) {
	column := 0
	var walk func(n *node, def, rep int)
	walk = func(n *node, def, rep int) {
		switch n.rep {
		case optional:
			def++
		case repeated:
			def++
			rep++
		}
		n.maxDef, n.maxRep, n.column = def, rep, column
		if n.leaf {
			column++
		}
		for _, f := range n.fields {
			walk(f, def, rep)
		}
		n.leaves = column - n.column
	}
	walk(root, 0, 0)
}

// element returns the element node of a list in any of the forms writers use: three levels under any names, two levels
// (a repeated field under a LIST), or a bare repeated field. It returns nil if n is not a list.
// The element is present in a row when its definition level is reached; a list in a list is not taken for its element.
func (n *node) element() *node {
	if n.rep == repeated {
		return n
	}
	if n.leaf || len(n.fields) != 1 || n.fields[0].rep != repeated {
		return nil
	}
	middle := n.fields[0]
	if middle.leaf || len(middle.fields) != 1 || middle.name == "array" || middle.name == n.name+"_tuple" {
		return middle
	}
	return middle.fields[0]
}

func (n *node) isMap() bool {
	if n.leaf || len(n.fields) != 1 || n.fields[0].rep != repeated || len(n.fields[0].fields) != 2 {
		return false
	}
	lt := n.typ.LogicalType()
	if lt == nil {
		return false
	}
	_, ok := lt.Value.(*format.MapType)
	return ok
}

func (n *node) isList() bool {
	if n.leaf {
		return false
	}
	lt := n.typ.LogicalType()
	if lt == nil {
		return false
	}
	_, ok := lt.Value.(*format.ListType)
	return ok && n.element() != nil
}

func (n *node) field(name string) *node {
	for _, f := range n.fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

// isNull says that the column holds nothing but nulls whatever its rows.
func (n *node) isNull() bool {
	if !n.leaf {
		return false
	}
	lt := n.typ.LogicalType()
	if lt == nil {
		return false
	}
	_, ok := lt.Value.(*format.NullType)
	return ok
}

// isEmptyList says that the column holds nothing but empty lists of a JSONL file, and nulls.
func (n *node) isEmptyList() bool {
	return n.isList() && n.element().isEmpty()
}

// isEmpty says that n is the element of a list that is always empty.
func (n *node) isEmpty() bool {
	t, ok := n.typ.(annotated)
	return n.leaf && ok && t.logical == emptyType.logical
}

// isJSON says that values are text holding JSON.
func (n *node) isJSON() bool { return n.leaf && parquet.EqualTypes(n.typ, parquet.JSON().Type()) }

// isText says that values are UTF-8 by their type, so that readers may refuse anything else.
func (n *node) isText() bool {
	if !n.leaf || n.typ.Kind() != parquet.ByteArray {
		return false
	}
	switch ct := n.typ.ConvertedType(); {
	case ct == nil:
		return false
	default:
		return *ct == deprecated.UTF8 || *ct == deprecated.Json || *ct == deprecated.Enum
	}
}

// describe names the type for an error message: "list of struct{role text, content text}".
func (n *node) describe() string {
	var s string
	switch {
	case n.isNull():
		s = "null"
	case n.leaf && n.isText():
		s = "text"
	case n.leaf && isInteger(n.typ):
		s = integerName(n.typ)
	case n.leaf && n.typ.LogicalType() == nil:
		s = strings.ToLower(n.typ.Kind().String())
		if n.typ.Kind() == parquet.ByteArray {
			s = "binary"
		}
	case n.leaf:
		s = strings.ToLower(n.typ.String())
	case n.isMap():
		kv := n.fields[0]
		return fmt.Sprintf("map of %s to %s", kv.fields[0].describe(), kv.fields[1].describe())
	case n.isList() && n.element() != n.fields[0]:
		return "list of " + n.element().describe()
	case n.isList():
		return n.fields[0].describe()
	default:
		parts := make([]string, len(n.fields))
		for i, f := range n.fields {
			parts[i] = f.name + " " + f.describe()
		}
		s = "struct{" + strings.Join(parts, ", ") + "}"
	}
	if n.rep == repeated {
		return "list of " + s
	}
	return s
}

func isInteger(t parquet.Type) bool {
	_, ok := integer(t)
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
	if signed, _ := integer(t); signed {
		return fmt.Sprintf("int%d", bits)
	}
	return fmt.Sprintf("uint%d", bits)
}

// clone copies the tree, for numbering it anew.
func (n *node) clone() *node {
	c := *n
	c.fields = make([]*node, len(n.fields))
	for i, f := range n.fields {
		c.fields[i] = f.clone()
	}
	return &c
}
