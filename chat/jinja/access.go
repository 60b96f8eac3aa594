package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// attr is v.name: an attribute or method, else an item.
func (r *run) attr(v any, name string) (any, error) {
	switch x := v.(type) {
	case undefined:
		return nil, x.err()
	case *loop:
		if a, ok := x.attr(name); ok {
			return a, nil
		}
	case *namespace:
		if a, ok := x.vars.get(name); ok {
			return a, nil
		}
	case *view:
		if a, ok := x.attr(name); ok {
			return a, nil
		}
	case *Func:
		if name == "name" {
			return x.Name, nil
		}
	}
	if m := r.method(v, name); m != nil {
		return m, nil
	}
	if d, ok := v.(*Dict); ok {
		if item, ok := d.get(name); ok {
			return item, nil
		}
	}
	if mutators[typeName(v)+"."+name] {
		return undefined{why: fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe.", name, typeName(v))}, nil
	}
	return undefined{why: fmt.Sprintf("'%s object' has no attribute '%s'", typeName(v), name)}, nil
}

// mutators are the methods that the immutable sandbox keeps from templates.
var mutators = map[string]bool{
	"list.append": true, "list.clear": true, "list.extend": true, "list.insert": true, "list.pop": true,
	"list.remove":  true,
	"list.reverse": true, "list.sort": true, "dict.clear": true, "dict.pop": true, "dict.popitem": true,
	"dict.setdefault": true, "dict.update": true,
}

func (e *itemExpr) eval(r *run, s *scope) (any, error) {
	v, err := e.x.eval(r, s)
	if err != nil {
		return nil, err
	}
	index, err := e.index.eval(r, s)
	if err != nil {
		return nil, err
	}
	return r.item(v, index)
}

// item is v[index]: an item, else an attribute.
func (r *run) item(v, index any) (any, error) {
	n, _, isInt, _ := number(index)
	switch x := v.(type) {
	case undefined:
		return nil, x.err()
	case *Dict:
		if item, ok := x.get(index); ok {
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
	case *view:
		if isInt && x.indexed() {
			return itemAt(x.items, n, v), nil
		}
	case string:
		if isInt {
			runes, err := r.runes(x)
			if err != nil {
				return nil, err
			}
			if n < 0 {
				n += len(runes)
			}
			if n >= 0 && n < len(runes) {
				return string(runes[n]), nil
			}
			return undefined{why: fmt.Sprintf("str object has no element %d", n)}, nil
		}
	}
	if name, ok := index.(string); ok {
		return r.attr(v, name)
	}
	return undefined{why: fmt.Sprintf("%s object has no element %s", typeName(v), r.repr(index))}, nil
}

func itemAt(items []any, n int, of any) any {
	i := n
	if i < 0 {
		i += len(items)
	}
	if i < 0 || i >= len(items) {
		return undefined{why: fmt.Sprintf("%s object has no element %d", typeName(of), n)}
	}
	return items[i]
}

// runes accounts for a string taken apart.
func (r *run) runes(s string) ([]rune, error) {
	if err := r.make(4 * len(s)); err != nil {
		return nil, err
	}
	return []rune(s), nil
}

func (e *sliceExpr) eval(r *run, s *scope) (any, error) {
	v, err := e.x.eval(r, s)
	if err != nil {
		return nil, err
	}
	if x, ok := v.(*view); ok && x.indexed() {
		v = &List{x.items}
	}
	var parts [3]*int
	for i, x := range []expr{e.start, e.stop, e.step} {
		if x == nil {
			continue
		}
		p, err := x.eval(r, s)
		if err != nil {
			return nil, err
		}
		n, _, isInt, _ := number(p)
		if p != nil && !isInt {
			return nil, errors.New("slice indices must be integers or None")
		}
		if p != nil {
			parts[i] = &n
		}
	}
	switch x := v.(type) {
	case string:
		runes, err := r.runes(x)
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
		return r.list(items)
	case Tuple:
		items := Tuple{}
		err := slice(len(x), parts, func(i int) { items = append(items, x[i]) })
		return items, err
	case undefined:
		return nil, x.err()
	}
	return nil, fmt.Errorf("'%s' object is not subscriptable", typeName(v))
}

// slice calls take with the indices that Python's slice of n items has.
func slice(n int, parts [3]*int, take func(int)) error {
	step := 1
	if parts[2] != nil {
		if step = *parts[2]; step == 0 {
			return errors.New("slice step cannot be zero")
		}
	}
	lowest, highest := 0, n // where a bound is clamped to
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
