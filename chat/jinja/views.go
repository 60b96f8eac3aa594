package jinja

import (
	"fmt"
	"strings"
)

// view is a sequence that Python has a type of its own for: a range, what keys, values and items of a dict return, or
// a group of the filter groupby.
type view struct {
	kind  string // Python's name of the type
	items []any
	text  string // of a range: its repr
}

// Kinds of views.
const (
	rangeView = "range"
	groupView = "_GroupTuple"
	keysView  = "dict_keys"
)

// indexed reports whether items can be taken by number.
func (v *view) indexed() bool { return v.kind == rangeView || v.kind == groupView }

// attr returns an attribute of a group.
func (v *view) attr(name string) (any, bool) {
	if v.kind == groupView {
		switch name {
		case "grouper":
			return v.items[0], true
		case "list":
			return v.items[1], true
		}
	}
	return nil, false
}

func (r *run) view(kind string, items []any) (any, error) {
	return &view{kind: kind, items: items}, r.make(len(items) * itemBytes)
}

// writeView is the repr of a view.
func (r *run) writeView(b *strings.Builder, v *view, depth int) {
	switch v.kind {
	case rangeView:
		b.WriteString(v.text)
	case groupView:
		r.writeRepr(b, Tuple(v.items), depth)
	default:
		b.WriteString(v.kind + "(")
		r.writeRepr(b, &List{v.items}, depth)
		b.WriteString(")")
	}
}

// equalViews is Python's ==: keys are equal as sets, ranges and groups as sequences.
func (r *run) equalViews(x, y *view, depth int) bool {
	switch {
	case x.kind != y.kind || len(x.items) != len(y.items):
		return x == y
	case x.indexed():
		return r.equalAt(&List{x.items}, &List{y.items}, depth)
	case x.kind != keysView:
		return x == y
	}
	keys := NewDict()
	for _, k := range x.items {
		keys.set(k, true)
	}
	for _, k := range y.items {
		if _, ok := keys.get(k); !ok {
			return false
		}
	}
	return true
}

func rangeText(start, stop, step any) string {
	if step == 1 {
		return fmt.Sprintf("range(%v, %v)", start, stop)
	}
	return fmt.Sprintf("range(%v, %v, %v)", start, stop, step)
}
