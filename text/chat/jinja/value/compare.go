package value

import (
	"cmp"
	"fmt"
	"strings"
)

// Equal is Python's ==.
func Equal(meter *Meter, a, b any) bool { return equalAt(meter, a, b, 0) }

func equalAt(meter *Meter, a, b any, depth int) bool {
	meter.visit(depth)
	_, _, _, aNum := Number(a)
	_, _, _, bNum := Number(b)
	if aNum || bNum {
		return aNum && bNum && !isNaN(a) && !isNaN(b) && compareNumbers(a, b) == 0
	}
	items := func(x, y []any) bool {
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equalAt(meter, x[i], y[i], depth+1) {
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
	case Undefined:
		_, ok := b.(Undefined)
		return ok
	case *List:
		y, ok := b.(*List)
		return ok && items(x.Items, y.Items)
	case Tuple:
		y, ok := b.(Tuple)
		return ok && items(x, y)
	case *View:
		y, ok := b.(*View)
		return ok && equalViews(meter, x, y, depth+1)
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for i, k := range x.keys {
			v, ok := y.Get(k)
			if !ok || !equalAt(meter, x.values[i], v, depth+1) {
				return false
			}
		}
		return true
	}
	return a == b
}

// Compare orders a and b, if Python orders their types.
func Compare(meter *Meter, a, b any, op string) (int, error) {
	return compareAt(meter, a, b, op, 0)
}

func compareAt(meter *Meter, a, b any, op string, depth int) (int, error) {
	meter.visit(depth)
	_, _, _, aNum := Number(a)
	_, _, _, bNum := Number(b)
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
			if u, ok := v.(Undefined); ok {
				return 0, u.Err()
			}
		}
		if TypeName(a) != TypeName(b) || !strings.Contains("list tuple", TypeName(a)) {
			return 0, fmt.Errorf("'%s' not supported between instances of '%s' and '%s'", op, TypeName(a), TypeName(b))
		}
	}
	for i := 0; i < len(x) && i < len(y); i++ {
		if !Equal(meter, x[i], y[i]) {
			return compareAt(meter, x[i], y[i], op, depth+1)
		}
	}
	return cmp.Compare(len(x), len(y)), nil
}

func CompareBy(meter *Meter, op string, a, b any) (bool, error) {
	switch op {
	case "==":
		return Equal(meter, a, b), nil
	case "!=":
		return !Equal(meter, a, b), nil
	case "in":
		return Contains(meter, b, a)
	case "not in":
		ok, err := Contains(meter, b, a)
		return !ok, err
	}
	c, err := Compare(meter, a, b, op)
	if isNaN(a) || isNaN(b) {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, err
	case "<=":
		return c <= 0, err
	case ">":
		return c > 0, err
	}
	return c >= 0, err
}

func Contains(meter *Meter, in, v any) (bool, error) {
	switch x := in.(type) {
	case string:
		sub, ok := v.(string)
		if !ok {
			if u, ok := v.(Undefined); ok {
				return false, u.Err()
			}
			return false, fmt.Errorf("'in <string>' requires string as left operand, not %s", TypeName(v))
		}
		return strings.Contains(x, sub), nil
	case *Dict:
		_, ok := x.Get(v)
		return ok, nil
	}
	items, err := Iterate(in)
	if err != nil {
		return false, fmt.Errorf("argument of type '%s' is not iterable", TypeName(in))
	}
	for _, item := range items {
		if Equal(meter, item, v) {
			return true, nil
		}
	}
	return false, nil
}
