package jinja

import (
	"cmp"
	"fmt"
	"strings"
)

// equal is Python's ==.
func (r *run) equal(a, b any) bool { return r.equalAt(a, b, 0) }

func (r *run) equalAt(a, b any, depth int) bool {
	r.visit(depth)
	_, _, _, aNum := number(a)
	_, _, _, bNum := number(b)
	if aNum || bNum {
		return aNum && bNum && !isNaN(a) && !isNaN(b) && compareNumbers(a, b) == 0
	}
	items := func(x, y []any) bool {
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if !r.equalAt(x[i], y[i], depth+1) {
				return false
			}
		}
		return true
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case string:
		y, ok := b.(string)
		return ok && x == y
	case undefined:
		_, ok := b.(undefined)
		return ok
	case *List:
		y, ok := b.(*List)
		return ok && items(x.Items, y.Items)
	case Tuple:
		y, ok := b.(Tuple)
		return ok && items(x, y)
	case *view:
		y, ok := b.(*view)
		return ok && r.equalViews(x, y, depth+1)
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for i, k := range x.keys {
			v, ok := y.get(k)
			if !ok || !r.equalAt(x.values[i], v, depth+1) {
				return false
			}
		}
		return true
	}
	return a == b
}

// compare orders a and b, for types that Python orders.
func (r *run) compare(a, b any, op string) (int, error) {
	return r.compareAt(a, b, op, 0)
}

func (r *run) compareAt(a, b any, op string, depth int) (int, error) {
	r.visit(depth)
	_, _, _, aNum := number(a)
	_, _, _, bNum := number(b)
	if aNum && bNum {
		return compareNumbers(a, b), nil
	}
	var x, y []any
	switch l := a.(type) {
	case string:
		if r, ok := b.(string); ok {
			return strings.Compare(l, r), nil
		}
	case *List:
		if r, ok := b.(*List); ok {
			x, y = l.Items, r.Items
		}
	case Tuple:
		if r, ok := b.(Tuple); ok {
			x, y = l, r
		}
	}
	if x == nil && y == nil {
		for _, v := range []any{a, b} {
			if u, ok := v.(undefined); ok {
				return 0, u.err()
			}
		}
		if typeName(a) != typeName(b) || !strings.Contains("list tuple", typeName(a)) {
			return 0, fmt.Errorf("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
		}
	}
	for i := 0; i < len(x) && i < len(y); i++ {
		if !r.equal(x[i], y[i]) {
			return r.compareAt(x[i], y[i], op, depth+1)
		}
	}
	return cmp.Compare(len(x), len(y)), nil
}
