package schema

import (
	"encoding/binary"
	"slices"

	"github.com/quire/quire/grammar/automaton"
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
	goalSchema // of
	goalAnd    // list
	goalOr     // list
	goalNot    // list[0]
)

type goalNode struct {
	kind goalKind
	of   *schemaNode
	list []goal
	form *form
	busy bool // its form is being made
	expr automaton.Expr
	void int8 // 1: it has a value, 2: it has none, 3: that is being found out
}

func (c *compiler) goalOf(kind goalKind, list []goal) goal {
	s := []byte{byte(kind)}
	for _, g := range list {
		s = binary.LittleEndian.AppendUint32(s, uint32(g))
	}
	if g, ok := c.goalIDs[string(s)]; ok {
		return g
	}
	g := goal(len(c.goals))
	c.goals = append(c.goals, goalNode{kind: kind, list: slices.Clone(list)})
	c.goalIDs[string(s)] = g
	return g
}

// schema is the goal of a schema of the document.
func (c *compiler) schema(v *value, path, base string, s *scope) goal {
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
	at := scoped{v, s}
	if n := c.doc.nodes[at]; n != nil {
		return n.goal
	}
	n := &schemaNode{v: v, path: path, base: base, scope: s, goal: goal(len(c.goals))}
	c.doc.nodes[at] = n
	c.goals = append(c.goals, goalNode{kind: goalSchema, of: n})
	return n.goal
}

// all is what all goals allow. Their order is kept: it is that of properties.
func (c *compiler) all(goals ...goal) goal { return c.combine(goalAnd, always, never, goals) }

// any is what some goal allows.
func (c *compiler) any(goals ...goal) goal { return c.combine(goalOr, never, always, goals) }

// combine makes a goal of others by a rule under which one of them changes nothing, and one decides all.
func (c *compiler) combine(kind goalKind, nothing, all goal, goals []goal) goal {
	var flat []goal
	for _, g := range goals {
		switch n := &c.goals[g]; {
		case g == all:
			return all
		case g == nothing:
		case n.kind == kind:
			flat = append(flat, n.list...)
		default:
			flat = append(flat, g)
		}
	}
	flat = unique(flat)
	switch len(flat) {
	case 0:
		return nothing
	case 1:
		return flat[0]
	}
	return c.goalOf(kind, flat)
}

// not is what a goal does not allow.
func (c *compiler) not(g goal) goal {
	switch n := &c.goals[g]; n.kind {
	case goalNever:
		return always
	case goalAlways:
		return never
	case goalNot:
		return n.list[0]
	}
	return c.goalOf(goalNot, []goal{g})
}

// unique drops what stands further before.
func unique[T comparable](list []T) []T {
	var to []T
	for _, x := range list {
		if !slices.Contains(to, x) {
			to = append(to, x)
		}
	}
	return to
}
