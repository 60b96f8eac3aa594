package automaton

import (
	"math"
	"slices"
	"sync"
)

// textMasks are the masks of states in which a text of common characters continues (see Builder.Common): such states
// allow most of a vocabulary, in any grammar. The tokens that stay in the text are found once per kind of characters;
// only the tokens that leave it are walked.
type textMasks struct {
	*trie
	words int // the length of a mask

	mu    sync.Mutex         // protects chars: automata of several goroutines share a vocabulary
	chars map[string]*inside // by the name of the characters
}

func newTextMasks(t *trie, words int) *textMasks {
	return &textMasks{trie: t, words: words, chars: map[string]*inside{}}
}

// inside is the tokens of a vocabulary that are allowed in a text of some characters.
type inside struct {
	upTo   [][]uint32 // by n: the tokens that are texts of at most n characters, or prefixes of such texts
	exits  []counted  // nodes after whole characters whose byte begins no further character
	begins [256]bool  // the bytes that begin a character
}

// mask is the tokens that are texts of at most most characters, or prefixes of such texts.
func (in *inside) mask(most int32) []uint32 { return in.upTo[min(int(most), len(in.upTo)-1)] }

// counted is a token or a node. chars is how many characters begin within the token, or before the node.
type counted struct{ id, chars int32 }

// insideFor returns the tokens allowed in texts of some characters. They are found with a builder of their own, so that
// the automaton that asks first is not charged for the memory.
func (v *textMasks) insideFor(c common) *inside {
	v.mu.Lock()
	defer v.mu.Unlock()
	if in := v.chars[c.name]; in != nil {
		return in
	}
	in := &inside{}
	b := NewBuilder()
	boundary := b.Repeat(c.make(b), 0, Unlimited)
	rows := map[Expr]*[256]Expr{}
	row := func(e Expr) *[256]Expr {
		r := rows[e]
		if r == nil {
			r = &[256]Expr{}
			for _, a := range b.arcsOf(e) {
				for c := int(a.lo); c <= int(a.hi); c++ {
					r[c] = a.to
				}
			}
			rows[e] = r
		}
		return r
	}
	for c, to := range row(boundary) {
		in.begins[c] = to != Fail
	}
	exprs, chars := make([]Expr, v.depth+1), make([]int32, v.depth+1)
	var tokens []counted
	exprs[0] = boundary
	for i := int32(0); i < int32(len(v.nodes)); {
		n := &v.nodes[i]
		expr, count := exprs[n.depth], chars[n.depth]
		to := row(expr)[n.byte]
		if to == Fail {
			if expr == boundary {
				in.exits = append(in.exits, counted{i, count})
			}
			i = n.next
			continue
		}
		if expr == boundary {
			count++
		}
		exprs[n.depth+1], chars[n.depth+1] = to, count
		v.each(n, func(t int32) { tokens = append(tokens, counted{t, count}) })
		i++
	}
	slices.SortFunc(tokens, func(x, y counted) int { return int(x.chars - y.chars) })
	mask := make([]uint32, v.words)
	in.upTo = [][]uint32{slices.Clone(mask)}
	for _, t := range tokens {
		for int(t.chars) >= len(in.upTo) {
			in.upTo = append(in.upTo, slices.Clone(mask))
		}
		set(mask, t.id)
		set(in.upTo[t.chars], t.id)
	}
	v.chars[c.name] = in
	return in
}

// fill makes the mask of a state if a text of common characters continues in it, and otherwise reports false.
func (v *textMasks) fill(a *Automaton, s State, stack []State, mask []uint32) bool {
	leaves := a.states[s].leaves
	if len(leaves) == 1 {
		k := a.b.nodes[a.conts[leaves[0]].head].key
		if rest := a.b.nodes[max(0, k.d)].key; k.kind == kindApart && k.c == noText && rest.kind == kindSeq {
			return v.fillItem(a, s, a.b.nodes[rest.a].key, stack, mask)
		}
	}
	text := slices.IndexFunc(leaves, func(id int32) bool {
		k := a.b.nodes[a.conts[id].head].key
		return k.kind == kindRepeat && a.b.common[Expr(k.a)].name != ""
	})
	if text < 0 {
		return false
	}
	current := a.conts[leaves[text]]
	k := a.b.nodes[current.head].key
	in := v.insideFor(a.b.common[Expr(k.a)])
	lo, hi := k.b, k.c
	if hi == Unlimited {
		hi = math.MaxInt32
	}
	after := a.state([]int32{current.tail})
	if after < 0 {
		return false
	}
	others := slices.Delete(slices.Clone(leaves), text, text+1)
	if len(others) > 0 && !slices.Equal(others, a.states[after].leaves) {
		return false // there is more than the text and what follows its end
	}
	row := a.Row(after)
	for c, to := range row {
		if to != Dead && in.begins[c] {
			return false // this byte may continue the text or follow its end
		}
	}
	for i, w := range in.mask(hi) {
		mask[i] |= w
	}
	for _, e := range in.exits {
		n := &v.nodes[e.id]
		to := row[n.byte]
		if to == Dead || e.chars < lo || e.chars > hi {
			continue
		}
		v.each(n, func(t int32) { set(mask, t) })
		stack[n.depth+1] = to
		v.walk(a, e.id+1, n.next, stack, mask)
	}
	return true
}

// fillItem is fill if the text is an item that differs from all items before it.
func (v *textMasks) fillItem(a *Automaton, s State, text key, stack []State, mask []uint32) bool {
	if text.kind != kindRepeat || a.b.common[Expr(text.a)].name == "" || text.b > 0 {
		return false
	}
	hi := text.c
	if hi == Unlimited {
		hi = math.MaxInt32
	}
	in := v.insideFor(a.b.common[Expr(text.a)])
	for i, w := range in.mask(hi) {
		mask[i] |= w
	}
	row := a.Row(s) // the text may end here, and what follows does not depend on where it ends
	for _, e := range in.exits {
		n := &v.nodes[e.id]
		if to := row[n.byte]; to != Dead && e.chars <= hi {
			v.each(n, func(t int32) { set(mask, t) })
			stack[n.depth+1] = to
			v.walk(a, e.id+1, n.next, stack, mask)
		}
	}
	return true
}
