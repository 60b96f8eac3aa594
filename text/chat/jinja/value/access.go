package value

import (
	"errors"
	"fmt"
	"strings"
)

// Attr is v.name: an attribute or method, else an item.
func Attr(meter *Meter, v any, name string) (any, error) {
	switch x := v.(type) {
	case Undefined:
		return nil, x.Err()
	case Object:
		if a, ok := x.Attr(name); ok {
			return a, nil
		}
	case *Namespace:
		if a, ok := x.Vars.Get(name); ok {
			return a, nil
		}
	case *View:
		if a, ok := x.attr(name); ok {
			return a, nil
		}
	case *Func:
		if name == "name" {
			return x.Name, nil
		}
	}
	if m := Method(meter, v, name); m != nil {
		return m, nil
	}
	if d, ok := v.(*Dict); ok {
		if item, ok := d.Get(name); ok {
			return item, nil
		}
	}
	if mutators[TypeName(v)+"."+name] {
		return Undefined{Why: fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe.", name, TypeName(v))}, nil
	}
	return Undefined{Why: fmt.Sprintf("'%s object' has no attribute '%s'", TypeName(v), name)}, nil
}

// mutators are the methods that the immutable sandbox hides from templates.
var mutators = map[string]bool{
	"list.append": true, "list.clear": true, "list.extend": true, "list.insert": true, "list.pop": true,
	"list.remove":  true,
	"list.reverse": true, "list.sort": true, "dict.clear": true, "dict.pop": true, "dict.popitem": true,
	"dict.setdefault": true, "dict.update": true,
}

// Item is v[index]: an item, else an attribute.
func Item(meter *Meter, v, index any) (any, error) {
	n, _, isInt, _ := Number(index)
	switch x := v.(type) {
	case Undefined:
		return nil, x.Err()
	case *Dict:
		if item, ok := x.Get(index); ok {
			return item, nil
		}
	case *List:
		if isInt {
			return itemAt(x.Items, n, v), nil
		}
	case Tuple:
		if isInt {
			return itemAt(x, n, v), nil
		}
	case *View:
		if isInt && x.indexed() {
			return itemAt(x.items, n, v), nil
		}
	case string:
		if isInt {
			runes, err := Runes(meter, x)
			if err != nil {
				return nil, err
			}
			if n < 0 {
				n += len(runes)
			}
			if n >= 0 && n < len(runes) {
				return string(runes[n]), nil
			}
			return Undefined{Why: fmt.Sprintf("str object has no element %d", n)}, nil
		}
	}
	if name, ok := index.(string); ok {
		return Attr(meter, v, name)
	}
	return Undefined{Why: fmt.Sprintf("%s object has no element %s", TypeName(v), Repr(meter, index))}, nil
}

func itemAt(items []any, n int, container any) any {
	i := n
	if i < 0 {
		i += len(items)
	}
	if i < 0 || i >= len(items) {
		return Undefined{Why: fmt.Sprintf("%s object has no element %d", TypeName(container), n)}
	}
	return items[i]
}

// Runes returns the characters of a string, and accounts for them.
func Runes(meter *Meter, s string) ([]rune, error) {
	if err := meter.Reserve(4 * len(s)); err != nil {
		return nil, err
	}
	return []rune(s), nil
}

// slice calls take with the indices that Python's slice of n items has.
func slice(n int, parts [3]*int, take func(int)) error {
	step := 1
	if parts[2] != nil {
		if step = *parts[2]; step == 0 {
			return errors.New("slice step cannot be zero")
		}
	}
	lowest, highest := 0, n // the limits of a bound
	start, stop := 0, n
	if step < 0 {
		lowest, highest = -1, n-1
		start, stop = n-1, -1
	}
	for i, bound := range []*int{&start, &stop} {
		if p := parts[i]; p != nil {
			*bound = *p
			if *bound < 0 {
				*bound += n
			}
			*bound = min(max(*bound, lowest), highest)
		}
	}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		take(i)
		if step > n || step < -n { // one item; i + step might overflow
			break
		}
	}
	return nil
}

// Slice returns v[start:stop:step]. Each of the three may be nil.
func Slice(meter *Meter, v any, parts [3]*int) (any, error) {
	if x, ok := v.(*View); ok && x.indexed() {
		v = &List{x.items}
	}
	switch x := v.(type) {
	case string:
		runes, err := Runes(meter, x)
		if err != nil {
			return nil, err
		}
		var b strings.Builder
		err = slice(len(runes), parts, func(i int) { b.WriteRune(runes[i]) })
		return b.String(), err
	case *List:
		items := []any{}
		err := slice(len(x.Items), parts, func(i int) { items = append(items, x.Items[i]) })
		if err != nil {
			return nil, err
		}
		return meter.List(items)
	case Tuple:
		items := Tuple{}
		err := slice(len(x), parts, func(i int) { items = append(items, x[i]) })
		return items, err
	case Undefined:
		return nil, x.Err()
	}
	return nil, fmt.Errorf("'%s' object is not subscriptable", TypeName(v))
}
