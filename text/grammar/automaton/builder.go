// Package automaton makes byte automata of grammars, state by state as they are asked for, and the masks of tokens that
// may come next. It consists of an algebra of expressions (Builder), the pushdown automaton over them (Automaton), and
// a trie of the tokens' texts (Vocabulary).
package automaton

// Builder makes expressions. Expressions with equal contents are one. It serves one goroutine at a time.
//
// Each kind of expression that has more than operands keeps its contents in a part of its own. The parts share the
// store; the parts that need derivatives or rules of other expressions build on these.
type Builder struct {
	*rules
	choices *choices
	numbers *numbers
	aparts  *aparts
	common  map[Expr]common
}

// common is the name of the characters of long texts, and how a builder makes them.
type common struct {
	name string
	make func(*Builder) Expr
}

// NewBuilder makes a builder of Fail, Empty and All.
func NewBuilder() *Builder {
	s := newStore()
	b := &Builder{choices: &choices{store: s}, numbers: &numbers{store: s}, common: map[Expr]common{}}
	algebra := &algebra{store: s, sets: newByteSets(s)}
	derivatives := &derivatives{algebra: algebra}
	b.aparts = &aparts{derivatives: derivatives, choices: b.choices}
	derivatives.leaves[kindSet], derivatives.leaves[kindChoice] = algebra.sets, b.choices
	derivatives.leaves[kindNumber], derivatives.leaves[kindApart] = b.numbers, b.aparts
	b.rules = newRules(derivatives)
	return b
}

// Bytes is any one byte of the ranges, which are pairs of a first and a last byte.
func (b *Builder) Bytes(ranges ...byte) Expr {
	var s byteSet
	for i := 0; i+1 < len(ranges); i += 2 {
		s.add(ranges[i], ranges[i+1])
	}
	return b.sets.expr(s)
}

// Choice is any one of the texts.
func (b *Builder) Choice(texts ...string) Expr { return b.choices.any(texts) }

// Text is this text.
func (b *Builder) Text(text string) Expr { return b.choices.one(text) }

// Multiple is the decimal numbers, without sign and exponent, that are multiples of n times 10 to the power -digits.
// n is from 1 to 1<<31 - 1. If fraction is set numbers may have a fraction, which does not end with a zero.
func (b *Builder) Multiple(n int64, digits int, fraction bool) Expr {
	return b.numbers.multiple(n, digits, fraction)
}

// Apart is from lo to hi items of which no two are the same text. The expressions are regular, no item is a prefix of
// another, except for numbers with more digits, and there are more than hi items.
func (b *Builder) Apart(item, separator Expr, lo, hi int) Expr {
	return b.aparts.items(apart{item, separator, lo, hi})
}

// Members makes an expression of members.
func (b *Builder) Members(m Members) Expr { return b.members.first(m) }

// Common makes the characters of long texts and names them. A Vocabulary finds them in other automata by the name: the
// same name stands for the same characters. No character is a prefix of another.
func (b *Builder) Common(name string, make func(*Builder) Expr) Expr {
	char := make(b)
	b.common[char] = common{name, make}
	return char
}

// Regular reports whether an expression contains no rules and members, so that And and Not apply to it.
func (b *Builder) Regular(e Expr) bool {
	n := &b.nodes[e]
	return n.regular || n.kind == kindLexeme
}

// Spent is approximately how much memory the expressions take.
func (b *Builder) Spent() int { return b.spent }

// Err is not nil once a grammar has turned out to need more than it may take.
func (b *Builder) Err() error { return b.err }
