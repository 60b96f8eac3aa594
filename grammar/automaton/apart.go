package automaton

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// apart is items of which no two are the same, with a text between two.
//
// An item in progress is an expression that says which items came before, what its own text is as far as one of them
// begins so, and what is left of it. Once it differs from all of them its text is not known any more: all that go on
// alike are one state, in which a model may draw without the host. Such an item that may end here is loose: the state
// does not say which items there are now. Settle makes it one that does, by the text.
type apart struct {
	item, separator Expr
	min, max        int
}

// earlier is the items before one, in order. Where unknown is set it is not known which those are, only how many.
type earlier struct {
	texts   []string
	count   int
	unknown bool
}

// noText stands for the text of an item that differs from all before it.
const noText = -1

// Apart is from lo to hi items of which no two are the same text. The expressions are regular, no item begins another,
// except as digits do, and there are more than hi items.
func (b *Builder) Apart(item, separator Expr, lo, hi int) Expr {
	b.aparts = append(b.aparts, apart{item, separator, lo, hi})
	e := b.apartItem(int32(len(b.aparts)-1), b.earlierID(earlier{}), b.textID(""), item)
	if lo == 0 {
		return b.Optional(e)
	}
	return e
}

func (b *Builder) earlierID(of earlier) int32 {
	key := strconv.Itoa(of.count) + strconv.FormatBool(of.unknown)
	for _, text := range of.texts {
		key += " " + strconv.Quote(text)
	}
	return number(&b.earlier, &b.earlierIDs, key, of, b.spend)
}

func (b *Builder) textID(text string) int32 {
	return number(&b.texts, &b.textIDs, text, text, b.spend)
}

// number is the place of a value in a list, by its key.
func number[T any](list *[]T, ids *map[string]int32, key string, value T, spend func(int)) int32 {
	if id, ok := (*ids)[key]; ok {
		return id
	}
	if *ids == nil {
		*ids = map[string]int32{}
	}
	id := int32(len(*list))
	*list = append(*list, value)
	(*ids)[key] = id
	spend(150 + 2*len(key))
	return id
}

// apartItem is an item of which rest is left, and those behind it.
func (b *Builder) apartItem(of, before, text int32, rest Expr) Expr {
	k := key{kindApart, of, before, text, int32(rest)}
	ends := b.ends(k)
	e := b.intern(k, ends && b.earlier[before].count+1 >= b.aparts[of].min, true, false)
	n := &b.nodes[e]
	n.apart, n.loose = true, b.earlier[before].unknown || text == noText && b.nodes[rest].nullable
	return e
}

// ends reports whether an item may end here: its text is there, and none before it is the same.
func (b *Builder) ends(k key) bool {
	before := &b.earlier[k.b]
	if !b.nodes[k.d].nullable || before.unknown {
		return false
	}
	if k.c == noText {
		return true
	}
	_, found := slices.BinarySearch(before.texts, b.texts[k.c])
	return !found
}

// left is what is left of the items before one that begin as it does.
func (b *Builder) left(k key) (texts []string) {
	if k.c == noText {
		return nil
	}
	begins := b.texts[k.c]
	for _, text := range b.earlier[k.b].texts {
		if rest, ok := strings.CutPrefix(text, begins); ok {
			texts = append(texts, rest)
		}
	}
	return texts
}

// emptyApart reports whether an item can't come to an end as one that is not there yet. Where it is not known which
// those are, it must have more ends than there may be items.
func (b *Builder) emptyApart(k key) bool {
	rest := Expr(k.d)
	if b.earlier[k.b].unknown {
		_, few := b.Texts(rest, b.aparts[k.a].max)
		return few
	}
	if left := b.left(k); len(left) > 0 {
		rest = b.And(rest, b.Not(b.Choice(left...)))
	}
	return b.empty(rest)
}

func (b *Builder) apartArcs(k key) []arc {
	var on []arc // the item goes on
	same := map[byte]bool{}
	for _, text := range b.left(k) {
		if text != "" {
			same[text[0]] = true
		}
	}
	for _, a := range b.arcsOf(Expr(k.d)) {
		other := b.apartItem(k.a, k.b, noText, a.to)
		for c := int(a.lo); c <= int(a.hi); c++ {
			to := other
			if same[byte(c)] {
				to = b.apartItem(k.a, k.b, b.textID(b.texts[k.c]+string([]byte{byte(c)})), a.to)
			}
			on = appendArc(on, arc{byte(c), byte(c), to})
		}
	}
	before, of := b.earlier[k.b], b.aparts[k.a]
	if !b.ends(k) || before.count+1 >= of.max {
		return on
	}
	now := earlier{count: before.count + 1, unknown: k.c == noText}
	if !now.unknown {
		now.texts = slices.Clone(before.texts)
		at, _ := slices.BinarySearch(now.texts, b.texts[k.c])
		now.texts = slices.Insert(now.texts, at, b.texts[k.c])
	}
	next := b.apartItem(k.a, b.earlierID(now), b.textID(""), of.item)
	return b.merge([][]arc{on, b.arcsOf(b.seq(of.separator, next))})
}

// Loose reports whether a state must be settled before tokens may follow it.
func (a *Automaton) Loose(s State) bool { return s >= 0 && a.states[s].loose }

// Settle is the state behind a text in place of the one that Next leads to. Next goes through loose states as far as a
// token may, and no further.
func (a *Automaton) Settle(s State, text []byte) State {
	if !a.Loose(s) {
		return s
	}
	item := lastScalar(text)
	var conts []int32
	for _, id := range a.states[s].leaves {
		at := a.conts[id]
		if k := a.b.nodes[at.head].key; k.kind == kindApart && k.c == noText && !a.b.earlier[k.b].unknown {
			id = a.leaf(a.b.apartItem(k.a, k.b, a.b.textID(item), Expr(k.d)), at.tail)
		}
		conts = append(conts, id)
	}
	return a.state(conts)
}

// lastScalar is the JSON string, number or word that a text ends with.
func lastScalar(text []byte) string {
	end := len(text) - 1
	if end < 0 {
		return ""
	}
	begin := end
	if text[end] != '"' {
		for begin > 0 && bytes.IndexByte([]byte(" \t\r\n,[:{"), text[begin-1]) < 0 {
			begin--
		}
		return string(text[begin:])
	}
	for begin--; begin > 0; begin-- {
		slashes := 0
		for begin-slashes > 0 && text[begin-slashes-1] == '\\' {
			slashes++
		}
		if text[begin] == '"' && slashes%2 == 0 {
			break
		}
	}
	return string(text[max(0, begin):])
}
