package value

import (
	"fmt"
	"strings"
)

// View is a sequence for which Python has a separate type: a range, the keys, values or items of a dict, or a group of
// the filter groupby.
type View struct {
	kind  string // Python's name of the type
	items []any
	text  string // of a range: its repr
}

// Kinds of views.
const (
	RangeView = "range"
	GroupView = "_GroupTuple"
	keysView  = "dict_keys"
)

// indexed reports whether the view can be indexed.
func (v *View) indexed() bool { return v.kind == RangeView || v.kind == GroupView }

// attr returns an attribute of a group.
func (v *View) attr(name string) (any, bool) {
	if v.kind == GroupView {
		switch name {
		case "grouper":
			return v.items[0], true
		case "list":
			return v.items[1], true
		}
	}
	return nil, false
}

func newView(meter *Meter, kind string, items []any) (any, error) {
	return &View{kind: kind, items: items}, meter.Reserve(len(items) * ItemBytes)
}

// writeView is the repr of a view.
func writeView(meter *Meter, b *strings.Builder, v *View, depth int) {
	switch v.kind {
	case RangeView:
		b.WriteString(v.text)
	case GroupView:
		writeRepr(meter, b, Tuple(v.items), depth)
	default:
		b.WriteString(v.kind + "(")
		writeRepr(meter, b, &List{v.items}, depth)
		b.WriteString(")")
	}
}

// equalViews is Python's ==. It compares keys as sets, and ranges and groups as sequences.
func equalViews(meter *Meter, x, y *View, depth int) bool {
	switch {
	case x.kind != y.kind || len(x.items) != len(y.items):
		return x == y
	case x.indexed():
		return equalAt(meter, &List{x.items}, &List{y.items}, depth)
	case x.kind != keysView:
		return x == y
	}
	keys := NewDict()
	for _, k := range x.items {
		keys.Set(k, true)
	}
	for _, k := range y.items {
		if _, ok := keys.Get(k); !ok {
			return false
		}
	}
	return true
}

// NewRange makes range(start, stop, step) of its items.
func NewRange(start, stop, step any, items []any) *View {
	return &View{kind: RangeView, text: rangeText(start, stop, step), items: items}
}

// NewGroup makes a group of the filter groupby.
func NewGroup(grouper any, list *List) *View {
	return &View{kind: GroupView, items: []any{grouper, list}}
}

func rangeText(start, stop, step any) string {
	if step == 1 {
		return fmt.Sprintf("range(%v, %v)", start, stop)
	}
	return fmt.Sprintf("range(%v, %v, %v)", start, stop, step)
}
