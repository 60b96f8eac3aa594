package automaton

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Expr is an expression of a Builder: a set of byte strings.
type Expr int32

// The expressions that every builder has.
const (
	Fail  Expr = iota // no string
	Empty             // the empty string
	All               // every string
)

type kind uint8

const (
	kindFail kind = iota
	kindEmpty
	kindAll
	kindSet     // a: index into byteSets
	kindChoice  // a: table of strings; b, c: the range of its strings that are left; d: bytes already matched
	kindNumber  // a: index into divisors; b: remainder; c: phase; d: digits of the fraction that are left
	kindSeq     // a, then b
	kindAlt     // list a
	kindAnd     // list a
	kindNot     // a
	kindRepeat  // a, b to c times
	kindLexeme  // a, stepped through as one
	kindRule    // a: index into rules
	kindApart   // a: index into aparts; b: into earlier; c: into texts, or noText; d: what is left of the item
	kindMembers // a: index into members; b: the next, or the set that came; c: how many came; d: see memberLists.from
	kinds       // the number of kinds
)

// key is the contents of an expression. Expressions with equal contents are one.
type key struct {
	kind       kind
	a, b, c, d int32
}

type node struct {
	key
	nullable  bool
	regular   bool // has arcs
	plain     bool // regular, without And and Not: never empty
	arcs      []arc
	made      bool // arcs is set
	apart     bool // contains items that must differ: see Builder.Apart
	loose     bool // and the expression does not determine which items came before
	emptiness emptiness
}

// emptiness is what is known of whether an expression has a string.
type emptiness int8

const (
	emptinessUnknown emptiness = iota
	nonEmpty
	isEmpty
)

// arc leads to what is left of an expression after a byte from lo to hi.
type arc struct {
	lo, hi byte
	to     Expr
}

// store keeps expressions, each once, and accounts for their memory. The parts of a Builder share it.
type store struct {
	nodes   []node
	ids     map[key]Expr
	lists   [][]Expr
	listIDs map[string]int32
	scratch []byte
	spent   int // approximate bytes: see spend
	most    int // the limit on spent
	err     error
}

// errTooMany is the error of a grammar with too many expressions.
var errTooMany = errors.New("the grammar needs more memory than one may take")

// maxSpent bounds the memory of a grammar, including its states.
const maxSpent = 512 << 20

func newStore() *store {
	return &store{ids: map[key]Expr{}, listIDs: map[string]int32{}, most: maxSpent, nodes: []node{
		{key: key{kind: kindFail}, regular: true, plain: true, made: true, emptiness: isEmpty},
		{key: key{kind: kindEmpty}, regular: true, plain: true, made: true, nullable: true},
		{key: key{kind: kindAll}, regular: true, plain: true, made: true, nullable: true, arcs: []arc{{0, 255, All}}},
	}}
}

// spend accounts for memory. A grammar that exceeds its limit has an error from then on.
func (s *store) spend(bytes int) {
	if s.spent += bytes; s.spent > s.most && s.err == nil {
		s.err = errTooMany
	}
}

func (s *store) intern(k key, nullable, regular, plain bool) Expr {
	if e, ok := s.ids[k]; ok {
		return e
	}
	e := Expr(len(s.nodes))
	s.nodes = append(s.nodes, node{key: k, nullable: nullable, regular: regular, plain: plain})
	s.ids[k] = e
	s.spend(150) // a node and its entry in ids
	return e
}

func (s *store) internList(list []Expr) int32 {
	text := s.scratch[:0]
	for _, e := range list {
		text = binary.LittleEndian.AppendUint32(text, uint32(e))
	}
	s.scratch = text
	if id, ok := s.listIDs[string(text)]; ok {
		return id
	}
	id := int32(len(s.lists))
	s.lists = append(s.lists, slices.Clone(list))
	s.listIDs[string(text)] = id
	s.spend(100 + 8*len(list))
	return id
}

// note records whether an expression is empty.
func (s *store) note(e Expr, empty bool) {
	s.nodes[e].emptiness = nonEmpty
	if empty {
		s.nodes[e].emptiness = isEmpty
	}
}
