// Package control writes loops and branches over trees of graph nodes (see package tree), and composites: operations
// that a backend may replace by a native form.
//
// Use it instead of GoMLX's own While and If, for two reasons. State is passed as Go structs, and bodies may use any
// node of the enclosing functions. And GoMLX keeps one cache of scalar constants for a whole graph, so a constant made
// inside one closure would be handed to another closure, where it does not exist. Here each closure sees only the
// constants of the functions around it.
package control

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/tree"
)

// While runs body on state as long as cond holds, and returns the last state.
//
// cond gets the state and returns a scalar bool. body gets the state and returns the next one, with the same leaves,
// shapes and dtypes. Both may use nodes of the enclosing functions.
func While[T any](state T, cond func(T) *graph.Node, body func(T) T) T {
	leaves := tree.Leaves(state)
	if len(leaves) == 0 {
		panic(errors.New("control.While: the state has no nodes"))
	}
	g := leaves[0].Graph()
	condFn := closure(g, func() []*graph.Node {
		return []*graph.Node{cond(parameters(g, state, leaves))}
	})
	bodyFn := closure(g, func() []*graph.Node {
		next := tree.Leaves(body(parameters(g, state, leaves)))
		if len(next) != len(leaves) {
			panic(fmt.Errorf("control.While: the body returns %d nodes for a state of %d", len(next), len(leaves)))
		}
		for i, n := range next {
			if !n.Shape().Equal(leaves[i].Shape()) {
				panic(fmt.Errorf("control.While: the body turns %s from %s into %s", tree.Names(state)[i],
					leaves[i].Shape(), n.Shape()))
			}
		}
		return next
	})
	return tree.Rebuild(state, graph.While(condFn, bodyFn, leaves...))
}

// Once returns body(state) if pred (a scalar bool) holds, and state otherwise. It is for large states: XLA:CPU
// updates them in place in a loop, but copies them in a branch.
//
// XLA moves computations that do not depend on the loop's state out of the loop, and so computes them even if pred does
// not hold. Pass the inputs of body's costly operations through [Hold].
func Once[T any](pred *graph.Node, state T, body func(now Now, state T) T) T {
	type once struct {
		State T
		Todo  *graph.Node
	}
	return While(once{state, pred}, func(o once) *graph.Node { return o.Todo },
		func(o once) once { return once{body(Now{o.Todo}, o.State), graph.LogicalNot(o.Todo)} }).State
}

// Now identifies the run of the body of a [Once], for [Hold].
type Now struct{ todo *graph.Node }

// Hold returns values. XLA does not hoist what is computed from the result out of the loop.
func Hold[T any](now Now, values T) T {
	return tree.Map(values, func(x *graph.Node) *graph.Node {
		todo := graph.BroadcastToDims(now.todo, x.Shape().Dimensions...)
		return graph.Where(todo, x, graph.ZerosLike(x))
	})
}

// If returns the result of then if pred (a scalar bool) holds, and the result of otherwise if not. Both must return
// the same leaves, shapes and dtypes; both may use nodes of the enclosing functions.
func If[T any](pred *graph.Node, then, otherwise func() T) T {
	g := pred.Graph()
	var like T
	thenFn := closure(g, func() []*graph.Node {
		like = then()
		return tree.Leaves(like)
	})
	otherwiseFn := closure(g, func() []*graph.Node { return tree.Leaves(otherwise()) })
	return tree.Rebuild(like, graph.If(pred, thenFn, otherwiseFn))
}

// parameters declares a parameter for each leaf of state in the current closure.
func parameters[T any](g *graph.Graph, state T, leaves []*graph.Node) T {
	params := make([]*graph.Node, len(leaves))
	for i, leaf := range leaves {
		params[i] = graph.Parameter(g, g.UniqueName("state"), leaf.Shape())
	}
	return tree.Rebuild(state, params)
}

func closure(g *graph.Graph, build func() []*graph.Node) *graph.Function {
	restore := scopeScalars(g, true)
	defer restore()
	return graph.NewClosure(g, func(*graph.Graph) []*graph.Node { return build() })
}

// scalarsField is GoMLX's cache of scalar constants, graph.Graph.scalars: map[dtype]map[float64]*graph.Node.
var scalarsField = func() reflect.StructField {
	f, ok := reflect.TypeFor[graph.Graph]().FieldByName("scalars")
	if !ok || f.Type.Kind() != reflect.Map || f.Type.Elem().Kind() != reflect.Map ||
		f.Type.Elem().Elem() != reflect.TypeFor[*graph.Node]() {
		panic("control: this version of GoMLX keeps its scalar constants elsewhere; Quire is built for gomlx v0.28.2")
	}
	return f
}()

// scopeScalars gives the graph a scalar cache for one function body: a copy of the current one if inherit is set,
// else an empty one. The returned function restores the previous cache.
func scopeScalars(g *graph.Graph, inherit bool) (restore func()) {
	field := reflect.NewAt(scalarsField.Type, unsafe.Add(unsafe.Pointer(g), scalarsField.Offset)).Elem()
	former := reflect.ValueOf(field.Interface())
	scoped := reflect.MakeMap(scalarsField.Type)
	if inherit {
		for dtype, values := range former.Seq2() {
			inner := reflect.MakeMap(scalarsField.Type.Elem())
			for value, node := range values.Seq2() {
				inner.SetMapIndex(value, node)
			}
			scoped.SetMapIndex(dtype, inner)
		}
	}
	field.Set(scoped)
	return func() { field.Set(former) }
}
