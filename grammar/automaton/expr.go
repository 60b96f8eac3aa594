// Package automaton makes byte automata of grammars, state by state as they are asked for, and the masks of tokens that
// may come next. It is an algebra of expressions (Builder), the pushdown automaton over them (Automaton), and a trie of
// the tokens' texts (Vocabulary).
package automaton

import (
	"encoding/binary"
	"slices"
)

// Expr is an expression of a Builder: a set of byte strings.
type Expr int32

// Unlimited is the greatest count of a repetition without one.
const Unlimited = -1

// The expressions that every builder has.
const (
	Fail  Expr = iota // nothing
	Empty             // the empty string
	All               // every string
)

type kind uint8

const (
	kindFail kind = iota
	kindEmpty
	kindAll
	kindSet     // a: index into sets
	kindChoice  // a: index into tables; b, c: the range of its strings that are left; d: bytes that are gone
	kindNumber  // a: index into divisors; b: remainder; c: phase; d: digits of the fraction that are left
	kindSeq     // a, then b
	kindAlt     // list a
	kindAnd     // list a
	kindNot     // a
	kindRepeat  // a, b to c times
	kindLexeme  // a, which is stepped through as one
	kindRule    // a: index into rules
	kindApart   // a: index into aparts; b: into earlier; c: into texts, or noText; d: what is left of the item
	kindMembers // a: index into members; b: the next, or those that came; c: how many came; d: see membersFrom
)

// key is an expression's contents. Equal contents are one expression.
type key struct {
	kind       kind
	a, b, c, d int32
}

type node struct {
	key
	nullable bool
	regular  bool // has arcs
	plain    bool // regular, without And and Not: never empty
	arcs     []arc
	made     bool // arcs are
	apart    bool // there are items in it that must differ: see Apart
	loose    bool // and it is not known which those are
	state    int8 // of emptiness: 0 not known, 1 not empty, 2 empty
}

type byteSet [4]uint64

func (s *byteSet) add(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s[b>>6] |= 1 << (b & 63)
	}
}

func (s *byteSet) has(b int) bool { return s[b>>6]>>(b&63)&1 != 0 }

// Builder makes expressions. Those with equal contents are one. It serves one goroutine at a time.
type Builder struct {
	nodes    []node
	ids      map[key]Expr
	sets     []byteSet
	setIDs   map[byteSet]int32
	lists    [][]Expr
	listIDs  map[string]int32
	tables   [][]string
	divisors []divisor
	rules    []rule
	members  []Members
	aparts   []apart
	earlier  []earlier
	texts    []string
	seen     []string // sets of members
	seenIDs  map[string]int32

	earlierIDs, textIDs map[string]int32

	absorbs []Expr
	common  map[Expr]common
	scratch []byte
	err     error
	settled bool // it is known which rules have strings
	spent   int  // bytes, about: see spend
	most    int  // that may be spent
}

// maxSpent bounds the memory of a grammar, its states with it.
const maxSpent = 512 << 20

// spend accounts for memory. A grammar that needs too much of it has an error from then on.
func (b *Builder) spend(bytes int) {
	if b.spent += bytes; b.spent > b.most && b.err == nil {
		b.err = errTooMany
	}
}

// Spent is about how much memory the expressions take.
func (b *Builder) Spent() int { return b.spent }

// Err is not nil once a grammar has turned out to need more than it may take.
func (b *Builder) Err() error { return b.err }

type rule struct {
	name       string
	body       Expr
	productive bool
}

// NewBuilder makes a builder that has nothing but Fail, Empty and All.
func NewBuilder() *Builder {
	b := &Builder{ids: map[key]Expr{}, common: map[Expr]common{}, setIDs: map[byteSet]int32{},
		listIDs: map[string]int32{}, most: maxSpent}
	b.nodes = []node{
		{key: key{kind: kindFail}, regular: true, plain: true, made: true, state: 2},
		{key: key{kind: kindEmpty}, regular: true, plain: true, made: true, nullable: true},
		{key: key{kind: kindAll}, regular: true, plain: true, made: true, nullable: true, arcs: []arc{{0, 255, All}}},
	}
	return b
}

func (b *Builder) intern(k key, nullable, regular, plain bool) Expr {
	if e, ok := b.ids[k]; ok {
		return e
	}
	e := Expr(len(b.nodes))
	b.nodes = append(b.nodes, node{key: k, nullable: nullable, regular: regular, plain: plain})
	b.ids[k] = e
	b.spend(150) // a node, and its place in ids
	return e
}

func (b *Builder) internList(list []Expr) int32 {
	s := b.scratch[:0]
	for _, e := range list {
		s = binary.LittleEndian.AppendUint32(s, uint32(e))
	}
	b.scratch = s
	if id, ok := b.listIDs[string(s)]; ok {
		return id
	}
	id := int32(len(b.lists))
	b.lists = append(b.lists, slices.Clone(list))
	b.listIDs[string(s)] = id
	b.spend(100 + 8*len(list))
	return id
}

func (b *Builder) set(s byteSet) Expr {
	if s == (byteSet{}) {
		return Fail
	}
	id, ok := b.setIDs[s]
	if !ok {
		id = int32(len(b.sets))
		b.sets = append(b.sets, s)
		b.setIDs[s] = id
	}
	return b.intern(key{kind: kindSet, a: id}, false, true, true)
}

// Bytes is any one byte of the ranges, which are pairs of a first and a last one.
func (b *Builder) Bytes(ranges ...byte) Expr {
	var s byteSet
	for i := 0; i+1 < len(ranges); i += 2 {
		s.add(ranges[i], ranges[i+1])
	}
	return b.set(s)
}

// Choice is any one of the texts.
func (b *Builder) Choice(texts ...string) Expr {
	if len(texts) == 0 {
		return Fail
	}
	if len(texts) == 1 && texts[0] == "" {
		return Empty
	}
	table := slices.Compact(slices.Sorted(slices.Values(texts)))
	b.tables = append(b.tables, table)
	return b.choice(int32(len(b.tables)-1), 0, int32(len(table)), 0)
}

// Text is this text.
func (b *Builder) Text(text string) Expr {
	if text == "" {
		return Empty
	}
	for i, t := range b.tables {
		if len(t) == 1 && t[0] == text {
			return b.choice(int32(i), 0, 1, 0)
		}
		if i > 64 { // the usual ones are made first
			break
		}
	}
	return b.Choice(text)
}

func (b *Builder) choice(table, lo, hi, depth int32) Expr {
	texts := b.tables[table]
	if hi-lo == 1 && int(depth) == len(texts[lo]) {
		return Empty
	}
	return b.intern(key{kindChoice, table, lo, hi, depth}, int(depth) == len(texts[lo]), true, true)
}

// Seq is the expressions one behind the other.
func (b *Builder) Seq(list ...Expr) Expr {
	e := Empty
	for i := len(list) - 1; i >= 0; i-- {
		e = b.seq(list[i], e)
	}
	return e
}

func (b *Builder) seq(x, y Expr) Expr {
	switch {
	case x == Fail || y == Fail:
		return Fail
	case x == Empty:
		return y
	case y == Empty:
		return x
	}
	if n := b.nodes[x]; n.kind == kindSeq {
		return b.seq(Expr(n.a), b.seq(Expr(n.b), y))
	}
	nx, ny := b.nodes[x], b.nodes[y]
	e := b.intern(key{kind: kindSeq, a: int32(x), b: int32(y)}, nx.nullable && ny.nullable,
		nx.regular && ny.regular, nx.plain && ny.plain)
	b.nodes[e].apart, b.nodes[e].loose = nx.apart || ny.apart, nx.loose || ny.loose
	return e
}

// Absorb says that where an alternative is e, the others are part of it: e is all that the others may be.
func (b *Builder) Absorb(e Expr) { b.absorbs = append(b.absorbs, e) }

// common is what the characters of long texts are called, and how a builder makes them.
type common struct {
	name string
	make func(*Builder) Expr
}

// Common makes the characters of long texts, and gives them a name, by which a Vocabulary knows them again in other
// automata: the same name, the same characters. None is the beginning of another.
func (b *Builder) Common(name string, make func(*Builder) Expr) Expr {
	char := make(b)
	b.common[char] = common{name, make}
	return char
}

// Alt is any one of the expressions.
func (b *Builder) Alt(list ...Expr) Expr {
	var flat []Expr
	for _, e := range list {
		switch n := &b.nodes[e]; n.kind {
		case kindFail:
		case kindAlt:
			flat = append(flat, b.lists[n.a]...)
		default:
			flat = append(flat, e)
		}
	}
	flat = distinct(flat)
	if len(flat) == 0 {
		return Fail
	}
	if len(flat) == 1 {
		return flat[0]
	}
	if flat[0] == All || len(flat) > 1 && flat[1] == All {
		return All
	}
	for _, e := range b.absorbs {
		if slices.Contains(flat, e) {
			return e
		}
	}
	flat = b.mergeSets(flat)
	if len(flat) == 1 {
		return flat[0]
	}
	all := node{regular: true, plain: true}
	for _, e := range flat {
		n := &b.nodes[e]
		all.nullable, all.regular = all.nullable || n.nullable, all.regular && n.regular
		all.plain = all.plain && n.plain
		all.apart, all.loose = all.apart || n.apart, all.loose || n.loose
	}
	e := b.intern(key{kind: kindAlt, a: b.internList(flat)}, all.nullable, all.regular, all.plain)
	b.nodes[e].apart, b.nodes[e].loose = all.apart, all.loose
	return e
}

// distinct is expressions in order, each once.
func distinct(list []Expr) []Expr {
	slices.Sort(list)
	return slices.Compact(list)
}

// mergeSets makes one of the alternatives that are sets of bytes.
func (b *Builder) mergeSets(list []Expr) []Expr {
	var union byteSet
	sets := 0
	for _, e := range list {
		if n := &b.nodes[e]; n.kind == kindSet {
			sets++
			for i, w := range b.sets[n.a] {
				union[i] |= w
			}
		}
	}
	if sets < 2 {
		return list
	}
	list = slices.DeleteFunc(list, func(e Expr) bool { return b.nodes[e].kind == kindSet })
	list = append(list, b.set(union))
	return distinct(list)
}

// And is what all the expressions have. They are regular: made without rules and members.
func (b *Builder) And(list ...Expr) Expr {
	var flat []Expr
	for _, e := range list {
		switch n := &b.nodes[e]; n.kind {
		case kindFail:
			return Fail
		case kindAll:
		case kindAnd:
			flat = append(flat, b.lists[n.a]...)
		case kindLexeme:
			flat = append(flat, Expr(n.a))
		default:
			flat = append(flat, e)
		}
	}
	flat = distinct(flat)
	if len(flat) == 0 {
		return All
	}
	if len(flat) == 1 {
		return flat[0]
	}
	nullable := !slices.ContainsFunc(flat, func(e Expr) bool { return !b.nodes[e].nullable })
	if slices.Contains(flat, Empty) {
		if nullable {
			return Empty
		}
		return Fail
	}
	return b.intern(key{kind: kindAnd, a: b.internList(flat)}, nullable, true, false)
}

// Not is all strings but those of a regular expression.
func (b *Builder) Not(e Expr) Expr {
	n := b.nodes[e]
	switch n.kind {
	case kindFail:
		return All
	case kindAll:
		return Fail
	case kindNot, kindLexeme:
		if n.kind == kindNot {
			return Expr(n.a)
		}
		return b.Not(Expr(n.a))
	}
	return b.intern(key{kind: kindNot, a: int32(e)}, !n.nullable, true, false)
}

// Repeat is an expression from lo to hi times, hi being Unlimited where there is no bound.
func (b *Builder) Repeat(e Expr, lo, hi int) Expr {
	n := &b.nodes[e]
	if n.regular && n.nullable {
		lo = 0
	}
	switch {
	case hi != Unlimited && hi < lo:
		return Fail
	case hi == 0 || e == Empty:
		return Empty
	case e == Fail && lo == 0:
		return Empty
	case e == Fail || lo == 1 && hi == 1:
		return e
	}
	if n.kind == kindRepeat && n.b == 0 && n.c == Unlimited && lo <= 1 && hi == Unlimited {
		return e
	}
	return b.intern(key{kind: kindRepeat, a: int32(e), b: int32(lo), c: int32(hi)}, lo == 0, n.regular, n.plain)
}

// Optional is an expression or nothing.
func (b *Builder) Optional(e Expr) Expr { return b.Alt(Empty, e) }

// Lexeme is a regular expression that the automaton steps through as one: its states are derivatives, in place of sets
// of positions.
func (b *Builder) Lexeme(e Expr) Expr {
	switch n := &b.nodes[e]; n.kind {
	case kindFail, kindEmpty, kindLexeme:
		return e
	default:
		return b.intern(key{kind: kindLexeme, a: int32(e)}, n.nullable, false, false)
	}
}

// Rule makes a rule without a body, which Define gives it.
func (b *Builder) Rule(name string) Expr {
	b.rules = append(b.rules, rule{name: name, body: Fail})
	return b.intern(key{kind: kindRule, a: int32(len(b.rules) - 1)}, false, false, false)
}

// Define sets the body of a rule.
func (b *Builder) Define(r, body Expr) { b.rules[b.nodes[r].a].body = body }

// Regular says that an expression has no rules and members in it, so that And and Not may be of it.
func (b *Builder) Regular(e Expr) bool {
	n := &b.nodes[e]
	return n.regular || n.kind == kindLexeme
}
