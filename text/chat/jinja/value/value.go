// Package value has the values of Jinja templates and what Python does with them: conversion to text, comparison,
// arithmetic, methods, formatting. All work counts towards the limits of a Meter.
package value

import (
	"fmt"
	"iter"
	"math"
	"math/big"
	"strings"
)

// Values are nil, bool, int, *big.Int for integers that do not fit an int, float64, string, *List, Tuple, *Dict, *View,
// *Namespace, *Func, Undefined and Object.

// List is a Python list.
type List struct{ Items []any }

// Tuple is a Python tuple.
type Tuple []any

// Dict is a Python dict. It keeps the order in which keys were added.
type Dict struct {
	keys   []any
	values []any
	index  map[any]int
}

// NewDict makes a dict of alternating keys and values.
func NewDict(pairs ...any) *Dict {
	d := &Dict{index: make(map[any]int)}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Set(pairs[i], pairs[i+1])
	}
	return d
}

// hashKey returns a value that is equal for keys that are equal in Python. ok is false if k cannot be a key.
func hashKey(k any) (h any, ok bool) {
	switch x := k.(type) {
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	case Decimal:
		return hashKey(x.Float)
	case float64:
		if n, err := Truncate(x); err == nil && x == math.Trunc(x) {
			return hashKey(n)
		}
		return k, true
	case *big.Int:
		return bigKey(x.String()), true
	case nil, int, string:
		return k, true
	case Tuple: // of plain values only
		var parts tupleKey
		for _, item := range x {
			h, ok := hashKey(item)
			if _, nested := h.(tupleKey); !ok || nested {
				return nil, false
			}
			parts += tupleKey(fmt.Sprintf("%T %q,", h, fmt.Sprint(h)))
		}
		return parts, true
	}
	return nil, false
}

type (
	tupleKey string
	bigKey   string
)

// Hashable reports whether a value can be a key.
func Hashable(v any) bool {
	_, ok := hashKey(v)
	return ok
}

// Set adds or replaces a key, which must be hashable.
func (d *Dict) Set(k, v any) {
	h, _ := hashKey(k)
	if i, ok := d.index[h]; ok {
		d.values[i] = v
		return
	}
	d.index[h] = len(d.keys)
	d.keys, d.values = append(d.keys, k), append(d.values, v)
}

func (d *Dict) Get(k any) (any, bool) {
	h, ok := hashKey(k)
	if !ok {
		return nil, false
	}
	i, ok := d.index[h]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// All iterates over keys and values in their order.
func (d *Dict) All() iter.Seq2[any, any] {
	return func(yield func(k, v any) bool) {
		for i, k := range d.keys {
			if !yield(k, d.values[i]) {
				return
			}
		}
	}
}

// Take removes a key of a small dict of keyword arguments and returns its value.
func (d *Dict) Take(k string) (any, bool) {
	v, ok := d.Get(k)
	if ok {
		old := *d
		*d = *NewDict()
		for i, key := range old.keys {
			if key != k {
				d.Set(key, old.values[i])
			}
		}
	}
	return v, ok
}

// Names lists the keys of a dict of keyword arguments.
func (d *Dict) Names() string { return strings.Trim(fmt.Sprint(d.keys), "[]") }

// Func is a function that a template can call, with positional and keyword arguments.
type Func struct {
	Name string
	Call func(args []any, kwargs *Dict) (any, error)
}

// NewNamespace makes a namespace without attributes.
func NewNamespace() *Namespace { return &Namespace{NewDict()} }

// Object is a value of a type that this package does not know, such as the variable of a loop.
type Object interface {
	TypeName() string
	Attr(name string) (any, bool)
	Repr() string
}

// Namespace is an object with attributes.
type Namespace struct{ Vars *Dict }

// Set sets an attribute.
func (n *Namespace) Set(name string, v any) error {
	if strings.HasPrefix(name, "_") {
		return fmt.Errorf("a namespace cannot have the attribute %q: it begins with an underscore", name)
	}
	n.Vars.Set(name, v)
	return nil
}

// Undefined is the value of what does not exist. It prints nothing, and is false and empty. All other uses fail with
// Why.
type Undefined struct {
	Why   string
	Meant bool // the template has it by its own decision, so a strict rendering prints it
}

func (u Undefined) Err() error { return fmt.Errorf("%s", u.Why) }

// TypeName is Python's name of the value's type.
func TypeName(v any) string {
	switch x := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int, *big.Int:
		return "int"
	case float64, Decimal:
		return "float"
	case string:
		return "str"
	case *List:
		return "list"
	case Tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case *Namespace:
		return "Namespace"
	case Object:
		return x.TypeName()
	case *View:
		return x.kind
	case *Func:
		return "function"
	}
	return "Undefined"
}

func Truth(v any) bool {
	switch x := v.(type) {
	case nil, Undefined:
		return false
	case bool:
		return x
	case int:
		return x != 0
	case float64:
		return x != 0
	case Decimal:
		return x.Float != 0
	case string:
		return x != ""
	case *List:
		return len(x.Items) > 0
	case Tuple:
		return len(x) > 0
	case *View:
		return len(x.items) > 0
	case *Dict:
		return len(x.keys) > 0
	}
	return true
}

// Iterate returns the items of v, as a Python for loop sees them.
func Iterate(v any) ([]any, error) {
	switch x := v.(type) {
	case *List:
		return x.Items, nil
	case Tuple:
		return x, nil
	case *View:
		return x.items, nil
	case *Dict:
		return x.keys, nil
	case Undefined:
		return nil, nil
	case string:
		items := make([]any, 0, len(x))
		for _, r := range x {
			items = append(items, string(r))
		}
		return items, nil
	}
	return nil, fmt.Errorf("'%s' object is not iterable", TypeName(v))
}

func DictItems(d *Dict) []any {
	pairs := make([]any, len(d.keys))
	for i, k := range d.keys {
		pairs[i] = Tuple{k, d.values[i]}
	}
	return pairs
}
