package schema

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// goal is what a value must be: a formula over the schemas of the document. Equal formulas are one goal.
type goal int32

const (
	never  goal = iota // no value
	always             // any value
)

type goalKind uint8

const (
	goalNever goalKind = iota
	goalAlways
	goalSchema // node
	goalAnd    // operands
	goalOr     // operands
	goalNot    // operands[0]
)

type goalNode struct {
	kind     goalKind
	node     *schemaNode
	operands []goal
}

// schemaNode is a schema of the document.
type schemaNode struct {
	v     *value
	path  string // a JSON pointer, for errors
	base  string // the URI that references in the schema are relative to
	goal  goal
	scope *scope
}

// use is a keyword in a schema.
type use struct {
	node    *schemaNode
	keyword string
	value   *value
}

// goals are the formulas over the schemas of a document.
type goals struct {
	doc   *document
	list  []goalNode
	ids   map[string]goal
	nodes map[scoped]*schemaNode
}

func newGoals(doc *document) *goals {
	return &goals{doc: doc, ids: map[string]goal{}, nodes: map[scoped]*schemaNode{},
		list: []goalNode{{kind: goalNever}, {kind: goalAlways}}}
}

func (c *goals) formula(kind goalKind, operands []goal) goal {
	s := []byte{byte(kind)}
	for _, g := range operands {
		s = binary.LittleEndian.AppendUint32(s, uint32(g))
	}
	if g, ok := c.ids[string(s)]; ok {
		return g
	}
	g := goal(len(c.list))
	c.list = append(c.list, goalNode{kind: kind, operands: slices.Clone(operands)})
	c.ids[string(s)] = g
	return g
}

// schema is the goal of a schema of the document.
func (c *goals) schema(v *value, path, base string, s *scope) goal {
	if v.kind == boolValue {
		if v.yes {
			return always
		}
		return never
	}
	if v.kind == objectValue && len(v.names) == 0 {
		return always
	}
	if id := c.doc.id(v); id != "" {
		base = resolve(base, id)
	}
	s = c.doc.enter(s, base)
	key := scoped{v, s}
	if n := c.nodes[key]; n != nil {
		return n.goal
	}
	n := &schemaNode{v: v, path: path, base: base, scope: s, goal: goal(len(c.list))}
	c.nodes[key] = n
	c.list = append(c.list, goalNode{kind: goalSchema, node: n})
	return n.goal
}

// sub is the goal of a schema within another.
func (c *goals) sub(n *schemaNode, v *value, path ...string) goal {
	p := n.path
	for _, part := range path {
		p += "/" + escapePointer(part)
	}
	return c.schema(v, p, n.base, n.scope)
}

// schemas returns the goals of a list of schemas.
func (c *goals) schemas(n *schemaNode, keyword string, v *value) ([]goal, error) {
	if v.kind != arrayValue {
		return nil, fmt.Errorf("it is not a list of schemas")
	}
	var list []goal
	for i, sub := range v.list {
		list = append(list, c.sub(n, sub, keyword, strconv.Itoa(i)))
	}
	return list, nil
}

// referred is the goal of the schema that a reference names. A $dynamicRef to a $dynamicAnchor means the schema with
// this anchor in the outermost of the documents that led to it.
func (c *goals) referred(n *schemaNode, keyword string, v *value) (goal, error) {
	if v.kind != stringValue {
		return never, fmt.Errorf("it is not a text")
	}
	r, err := c.doc.find(v.text, n.base)
	if err != nil {
		return never, err
	}
	if _, anchor, _ := strings.Cut(v.text, "#"); keyword == "$dynamicRef" && r.dynamic {
		r = n.scope.outermost(anchor, r)
	}
	return c.schema(r.v, r.path, r.base, n.scope), nil
}

// constant is the goal of one value.
func (c *goals) constant(v *value) goal {
	return c.schema(&value{kind: objectValue, names: []string{"const"}, list: []*value{v}}, "", "", nil)
}

// withMember is the goal of objects that have a member.
func (c *goals) withMember(name string) goal {
	text := func(s string) *value { return &value{kind: stringValue, text: s} }
	list := &value{kind: arrayValue, list: []*value{text(name)}}
	v := &value{kind: objectValue, names: []string{"type", "required"}, list: []*value{text("object"), list}}
	return c.schema(v, "", "", nil)
}

// all is what all goals allow. Their order is kept, since it is the order of properties.
func (c *goals) all(list ...goal) goal { return c.combine(goalAnd, always, never, list) }

// any is what some goal allows.
func (c *goals) any(list ...goal) goal { return c.combine(goalOr, never, always, list) }

// combine combines goals with an operation that has a neutral goal and one that absorbs all others.
func (c *goals) combine(kind goalKind, neutral, absorbing goal, list []goal) goal {
	var flat []goal
	for _, g := range list {
		switch n := &c.list[g]; {
		case g == absorbing:
			return absorbing
		case g == neutral:
		case n.kind == kind:
			flat = append(flat, n.operands...)
		default:
			flat = append(flat, g)
		}
	}
	flat = unique(flat)
	switch len(flat) {
	case 0:
		return neutral
	case 1:
		return flat[0]
	}
	return c.formula(kind, flat)
}

// not is what a goal does not allow.
func (c *goals) not(g goal) goal {
	switch n := &c.list[g]; n.kind {
	case goalNever:
		return always
	case goalAlways:
		return never
	case goalNot:
		return n.operands[0]
	}
	return c.formula(goalNot, []goal{g})
}

// place is a goal's place in the schema.
func (c *goals) place(g goal) string {
	for n := &c.list[g]; ; n = &c.list[n.operands[0]] {
		if n.kind == goalSchema {
			return "#" + n.node.path
		}
		if len(n.operands) == 0 {
			return "#"
		}
	}
}

// refuse adds the place of a goal to an error that has none.
func (c *goals) refuse(g goal, err error) error {
	if r, ok := err.(*refusal); ok {
		return r
	}
	return &refusal{c.place(g), err}
}

// entry is the element of a goal in a list of what is known of goals.
func entry[T any](list *[]T, g goal) *T {
	for len(*list) <= int(g) {
		var none T
		*list = append(*list, none)
	}
	return &(*list)[g]
}

// refusal is an error with its place in the schema.
type refusal struct {
	path string
	err  error
}

func (r *refusal) Error() string { return r.path + ": " + r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// refuse adds a keyword of the schema, and its place, to an error that has none.
func (n *schemaNode) refuse(keyword string, err error) error {
	if r, ok := err.(*refusal); ok {
		return r
	}
	return &refusal{"#" + n.path, fmt.Errorf("%s: %w", keyword, err)}
}

// unique drops repeated elements.
func unique[T comparable](list []T) []T {
	var to []T
	for _, x := range list {
		if !slices.Contains(to, x) {
			to = append(to, x)
		}
	}
	return to
}
