package automaton

import (
	"slices"
	"strconv"
	"strings"
)

// apart is a list of distinct items, with a text between two.
//
// An item in progress is an expression of the items before it, of its own text as long as this is a prefix of one of
// them, and of the rest of it. Once its text differs from all of them it is forgotten: all texts that continue alike
// are one state, in which a model can generate without the host. Such an item is loose when it may end: the state does
// not determine which items there are now. Automaton.Settle replaces it, using the text, with a state that does.
type apart struct {
	item, separator Expr
	min, max        int
}

// earlier is the items before an item, sorted. If unknown is set only their number is known.
type earlier struct {
	texts   []string
	count   int
	unknown bool
}

// aparts are the expressions of such items, each a state of their progress.
type aparts struct {
	*derivatives
	choices             *choices
	list                []apart
	earlier             []earlier
	texts               []string
	earlierIDs, textIDs map[string]int32
}

// noText is the text of an item that differs from all items before it.
const noText = -1

// items is Builder.Apart.
func (b *aparts) items(spec apart) Expr {
	b.list = append(b.list, spec)
	e := b.item(int32(len(b.list)-1), b.earlierID(earlier{}), b.textID(""), spec.item)
	if spec.min == 0 {
		return b.Optional(e)
	}
	return e
}

func (b *aparts) earlierID(prior earlier) int32 {
	key := strconv.Itoa(prior.count) + strconv.FormatBool(prior.unknown)
	for _, text := range prior.texts {
		key += " " + strconv.Quote(text)
	}
	return number(&b.earlier, &b.earlierIDs, key, prior, b.spend)
}

func (b *aparts) textID(text string) int32 {
	return number(&b.texts, &b.textIDs, text, text, b.spend)
}

// number returns the index of a value in a list by its key, and appends the value if it is new.
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

// item is the rest of an item and the items after it.
func (b *aparts) item(spec, before, text int32, rest Expr) Expr {
	k := key{kindApart, spec, before, text, int32(rest)}
	ends := b.mayEnd(k)
	e := b.intern(k, ends && b.earlier[before].count+1 >= b.list[spec].min, true, false)
	n := &b.nodes[e]
	n.apart, n.loose = true, b.earlier[before].unknown || text == noText && b.nodes[rest].nullable
	return e
}

// mayEnd reports whether an item may end here: its text is complete, and no earlier item is the same.
func (b *aparts) mayEnd(k key) bool {
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

// left returns the rests of the earlier items that start with the text so far.
func (b *aparts) left(k key) (texts []string) {
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

// empty reports whether an item can't end as a new one. If the earlier items are unknown, it must have more ends than
// there may be items.
func (b *aparts) empty(k key) bool {
	rest := Expr(k.d)
	if b.earlier[k.b].unknown {
		_, few := b.Texts(rest, b.list[k.a].max)
		return few
	}
	if left := b.left(k); len(left) > 0 {
		rest = b.And(rest, b.Not(b.choices.any(left)))
	}
	return b.derivatives.empty(rest)
}

func (b *aparts) arcs(k key) []arc {
	var on []arc // the item continues
	same := map[byte]bool{}
	for _, text := range b.left(k) {
		if text != "" {
			same[text[0]] = true
		}
	}
	for _, a := range b.arcsOf(Expr(k.d)) {
		other := b.item(k.a, k.b, noText, a.to)
		for c := int(a.lo); c <= int(a.hi); c++ {
			to := other
			if same[byte(c)] {
				to = b.item(k.a, k.b, b.textID(b.texts[k.c]+string([]byte{byte(c)})), a.to)
			}
			on = appendArc(on, arc{byte(c), byte(c), to})
		}
	}
	before, spec := b.earlier[k.b], b.list[k.a]
	if !b.mayEnd(k) || before.count+1 >= spec.max {
		return on
	}
	now := earlier{count: before.count + 1, unknown: k.c == noText}
	if !now.unknown {
		now.texts = slices.Clone(before.texts)
		index, _ := slices.BinarySearch(now.texts, b.texts[k.c])
		now.texts = slices.Insert(now.texts, index, b.texts[k.c])
	}
	next := b.item(k.a, b.earlierID(now), b.textID(""), spec.item)
	return b.merge([][]arc{on, b.arcsOf(b.seq(spec.separator, next))})
}
