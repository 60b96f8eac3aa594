package automaton

import (
	"math"
	"slices"
)

// inside is what of a vocabulary may stand in a text of some characters: most tokens may, wherever that text is in a
// grammar. It is found once.
type inside struct {
	upTo   [][]uint32 // by a number of characters: the tokens that are texts of so many at most, or beginnings of some
	exits  []counted  // nodes whose byte no such character has, behind whole ones
	begins [256]bool  // the bytes that a character begins with
}

// mask is that of the tokens that are texts of so many characters at most, or beginnings of some.
func (in *inside) mask(most int32) []uint32 { return in.upTo[min(int(most), len(in.upTo)-1)] }

// counted is a token or node with the number of characters that have begun before its end, or before the node.
type counted struct{ id, chars int32 }

// insideOf returns what may stand in texts of a character. It takes no memory of the automaton that asks first.
func (v *Vocabulary) insideOf(c common) *inside {
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
		at, count := exprs[n.depth], chars[n.depth]
		to := row(at)[n.byte]
		if to == Fail {
			if at == boundary {
				in.exits = append(in.exits, counted{i, count})
			}
			i = n.next
			continue
		}
		if at == boundary {
			count++
		}
		exprs[n.depth+1], chars[n.depth+1] = to, count
		v.each(n, func(t int32) { tokens = append(tokens, counted{t, count}) })
		i++
	}
	slices.SortFunc(tokens, func(x, y counted) int { return int(x.chars - y.chars) })
	mask := make([]uint32, v.Words())
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

// maskText makes the mask of a state in which a text of common characters goes on, if it is such a state: what stays in
// the text is known, and what leaves it is walked.
func (v *Vocabulary) maskText(a *Automaton, s State, stack []State, mask []uint32) bool {
	leaves := a.states[s].leaves
	if len(leaves) == 1 {
		k := a.b.nodes[a.conts[leaves[0]].head].key
		if rest := a.b.nodes[max(0, k.d)].key; k.kind == kindApart && k.c == noText && rest.kind == kindSeq {
			return v.maskApart(a, s, a.b.nodes[rest.a].key, stack, mask)
		}
	}
	text := slices.IndexFunc(leaves, func(id int32) bool {
		k := a.b.nodes[a.conts[id].head].key
		return k.kind == kindRepeat && a.b.common[Expr(k.a)].name != ""
	})
	if text < 0 {
		return false
	}
	at := a.conts[leaves[text]]
	k := a.b.nodes[at.head].key
	in := v.insideOf(a.b.common[Expr(k.a)])
	lo, hi := k.b, k.c
	if hi == Unlimited {
		hi = math.MaxInt32
	}
	behind := a.state([]int32{at.tail})
	if behind < 0 {
		return false
	}
	others := slices.Delete(slices.Clone(leaves), text, text+1)
	if len(others) > 0 && !slices.Equal(others, a.states[behind].leaves) {
		return false // there is more than the text, and what follows where it may end
	}
	row := a.Row(behind)
	for c, to := range row {
		if to != Dead && in.begins[c] {
			return false // the text may go on or end there
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

// maskApart is maskText where the text is an item that differs from those before it.
func (v *Vocabulary) maskApart(a *Automaton, s State, text key, stack []State, mask []uint32) bool {
	if text.kind != kindRepeat || a.b.common[Expr(text.a)].name == "" || text.b > 0 {
		return false
	}
	hi := text.c
	if hi == Unlimited {
		hi = math.MaxInt32
	}
	in := v.insideOf(a.b.common[Expr(text.a)])
	for i, w := range in.mask(hi) {
		mask[i] |= w
	}
	row := a.Row(s) // the text may end here, and goes on alike wherever it ends
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
