// Package tree flattens Go structs whose leaves are graph nodes. Device state is declared once, as a struct, and
// travels as loop state, arguments and results of programs without naming its fields again.
//
// A tree is a value of any type built from structs, slices, arrays and pointers to structs whose leaves are
// [*graph.Node]. Leaves come in field order. Fields of any other type (ints, strings, ...) are static: they are not
// leaves, and [Rebuild] copies them from the example. A nil node is an absent leaf and stays absent.
package tree

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/gomlx/gomlx/core/graph"
)

var nodeType = reflect.TypeFor[*graph.Node]()

// Leaves returns the nodes of v in field order.
func Leaves(v any) []*graph.Node {
	var nodes []*graph.Node
	walk(reflect.ValueOf(v), "", func(_ string, n reflect.Value) {
		nodes = append(nodes, n.Interface().(*graph.Node))
	})
	return nodes
}

// Names returns a name for each leaf of v, in the order of [Leaves]: the dotted path of fields and indices, for
// example "Sequences.SeqLens" or "Caches.3".
func Names(v any) []string {
	var names []string
	walk(reflect.ValueOf(v), "", func(path string, _ reflect.Value) {
		if path == "" {
			path = "value"
		}
		names = append(names, path)
	})
	return names
}

// Rebuild returns a copy of like with its leaves replaced, in order, by nodes. Static fields are copied from like. It
// panics if the number of nodes differs from the number of leaves.
func Rebuild[T any](like T, nodes []*graph.Node) T {
	out := reflect.New(reflect.TypeFor[T]()).Elem()
	rest := rebuild(out, reflect.ValueOf(&like).Elem(), nodes)
	if len(rest) != 0 {
		panic(fmt.Errorf("tree.Rebuild: %T has %d leaves, got %d nodes", like, len(nodes)-len(rest), len(nodes)))
	}
	return out.Interface().(T)
}

// Map returns a copy of v in which f is applied to each leaf.
func Map[T any](v T, f func(leaf *graph.Node) *graph.Node) T {
	leaves := Leaves(v)
	for i, leaf := range leaves {
		leaves[i] = f(leaf)
	}
	return Rebuild(v, leaves)
}

// Zip returns a copy of a in which each leaf is f of the leaf and of b's leaf in the same place.
func Zip[T any](a, b T, f func(a, b *graph.Node) *graph.Node) T {
	leaves, others := Leaves(a), Leaves(b)
	if len(leaves) != len(others) {
		panic(fmt.Errorf("tree.Zip: %T with %d leaves and with %d", a, len(leaves), len(others)))
	}
	for i, leaf := range leaves {
		leaves[i] = f(leaf, others[i])
	}
	return Rebuild(a, leaves)
}

func walk(v reflect.Value, path string, leaf func(string, reflect.Value)) {
	if !v.IsValid() {
		return
	}
	if v.Type() == nodeType {
		if !v.IsNil() {
			leaf(path, v)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				walk(v.Field(i), below(path, f), leaf)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), join(path, fmt.Sprint(i)), leaf)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), path, leaf)
		}
	}
}

// below returns the path of a field. The fields of an embedded struct are named like fields of the outer struct.
func below(path string, f reflect.StructField) string {
	if f.Anonymous {
		return path
	}
	return join(path, f.Name)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// rebuild fills out from like, consuming nodes from the front, and returns the remaining nodes.
func rebuild(out, like reflect.Value, nodes []*graph.Node) []*graph.Node {
	if like.Type() == nodeType {
		if like.IsNil() {
			return nodes
		}
		if len(nodes) == 0 {
			panic(errors.New("tree.Rebuild: fewer nodes than leaves"))
		}
		out.Set(reflect.ValueOf(nodes[0]))
		return nodes[1:]
	}
	switch like.Kind() {
	case reflect.Struct:
		out.Set(like)
		for i := range like.NumField() {
			if like.Type().Field(i).IsExported() {
				nodes = rebuild(out.Field(i), like.Field(i), nodes)
			}
		}
	case reflect.Slice:
		if like.IsNil() {
			return nodes
		}
		out.Set(reflect.MakeSlice(like.Type(), like.Len(), like.Len()))
		for i := range like.Len() {
			nodes = rebuild(out.Index(i), like.Index(i), nodes)
		}
	case reflect.Array:
		for i := range like.Len() {
			nodes = rebuild(out.Index(i), like.Index(i), nodes)
		}
	case reflect.Pointer:
		if like.IsNil() || like.Type().Elem().Kind() != reflect.Struct {
			out.Set(like)
			return nodes
		}
		out.Set(reflect.New(like.Type().Elem()))
		nodes = rebuild(out.Elem(), like.Elem(), nodes)
	default:
		out.Set(like)
	}
	return nodes
}
