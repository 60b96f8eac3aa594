package tree

import (
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// The host twin of a tree has the same fields, with Go values in place of nodes: a scalar such as int32 for a node of
// rank 0, a slice for an array, a slice of Go arrays such as [][2]uint32 for an array with fixed further dimensions.
// If both are declared as one generic struct, tree and twin cannot differ; [Of] still checks it.
//
// A field with the tag `tree:"apart"` gets its own array in a [Packing].

// Array is a leaf of a host twin.
type Array struct {
	Name  string // as in [Names]
	Shape shapes.Shape
	Flat  any // its elements: the slice's own memory, or a copy of a scalar that [Store] writes back
	apart bool
	field reflect.Value
}

// Make returns a host twin of type T whose slices have n elements.
func Make[T any](n int) T {
	var twin T
	walkHost(reflect.ValueOf(&twin).Elem(), "", false, func(_ string, v reflect.Value, _ bool) {
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
	})
	return twin
}

// Arrays returns the leaves of a host twin in field order. Nil slices are absent.
func Arrays[T any](twin *T) []Array {
	var list []Array
	walkHost(reflect.ValueOf(twin).Elem(), "", false, func(path string, v reflect.Value, apart bool) {
		if v.Kind() != reflect.Slice || !v.IsNil() {
			a := arrayOf(path, v)
			a.apart = apart
			list = append(list, a)
		}
	})
	return list
}

// Store writes the scalars among arrays back to the twin that they were taken from. Scalars and arrays of a struct
// cannot be passed to C in place, because the struct also has pointers.
func Store(arrays []Array) {
	for _, a := range arrays {
		if a.field.Kind() != reflect.Slice {
			a.field.Set(reflect.ValueOf(a.Flat).Index(0))
		}
	}
}

// Of returns a tree of type T whose leaves are the given nodes, in the order of the arrays of its host twin. Leaves
// that the twin lacks, as nil slices, are absent. It panics if the leaves of the twin and of T differ.
func Of[T any](arrays []Array, nodes []*graph.Node) T {
	var out T
	var names []string
	walkType(reflect.ValueOf(&out).Elem(), "", func(path string, v reflect.Value) {
		if index := len(names); index < len(nodes) && index < len(arrays) && arrays[index].Name == path {
			v.Set(reflect.ValueOf(nodes[index]))
			names = append(names, path)
		}
	})
	want := make([]string, len(arrays))
	for i, a := range arrays {
		want[i] = a.Name
	}
	if len(nodes) != len(arrays) || !slices.Equal(names, want) {
		panic(fmt.Errorf("tree.Of: %T has leaves %v, its host twin %v, and there are %d nodes", out, names, want,
			len(nodes)))
	}
	return out
}

// Zeros returns a tree of type T whose leaves are zeros in the shapes of its host twin.
func Zeros[T any](g *graph.Graph, arrays []Array) T {
	nodes := make([]*graph.Node, len(arrays))
	for i, a := range arrays {
		nodes[i] = graph.Zeros(g, a.Shape)
	}
	return Of[T](arrays, nodes)
}

// walkType visits all fields of a tree that are nodes, present or not.
func walkType(v reflect.Value, path string, leaf func(string, reflect.Value)) {
	switch {
	case v.Type() == nodeType:
		leaf(path, v)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				walkType(v.Field(i), below(path, f), leaf)
			}
		}
	}
}

func walkHost(v reflect.Value, path string, apart bool, leaf func(path string, v reflect.Value, apart bool)) {
	if v.Kind() == reflect.Array && v.Type().Elem().Kind() == reflect.Slice { // of leaves; an array of numbers is one
		for i := range v.Len() {
			walkHost(v.Index(i), join(path, fmt.Sprint(i)), apart, leaf)
		}
		return
	}
	if v.Kind() != reflect.Struct {
		leaf(path, v, apart)
		return
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			walkHost(v.Field(i), below(path, f), apart || f.Tag.Get("tree") == "apart", leaf)
		}
	}
}

// arrayOf describes one value of a host twin.
func arrayOf(name string, v reflect.Value) Array {
	field := v
	if v.Kind() != reflect.Slice {
		v = reflect.MakeSlice(reflect.SliceOf(v.Type()), 1, 1)
		v.Index(0).Set(field)
	}
	dims, size, element, data := []int{v.Len()}, v.Len(), v.Type().Elem(), v.UnsafePointer()
	if field.Kind() != reflect.Slice {
		dims = nil
	}
	for element.Kind() == reflect.Array {
		dims, size, element = append(dims, element.Len()), size*element.Len(), element.Elem()
	}
	shape := shapes.Make(dtypes.FromGoType(element), dims...)
	return Array{Name: name, Shape: shape, Flat: view(element.Kind(), data, size), field: field}
}

// view returns a slice over the memory of numbers of one kind.
func view(kind reflect.Kind, data unsafe.Pointer, size int) any {
	switch kind {
	case reflect.Bool:
		return unsafe.Slice((*bool)(data), size)
	case reflect.Int32:
		return unsafe.Slice((*int32)(data), size)
	case reflect.Int64:
		return unsafe.Slice((*int64)(data), size)
	case reflect.Uint32:
		return unsafe.Slice((*uint32)(data), size)
	case reflect.Float32:
		return unsafe.Slice((*float32)(data), size)
	}
	panic(fmt.Errorf("tree: a host twin has a field of kind %s", kind))
}

// Like returns a host twin of type T with memory for arrays of the given names and shapes, and views of them in the
// same order. Slices whose name is not given are nil; a slice of numbers accepts an array of any rank. It is an error
// if an array is not a field of T, or has a different type.
func Like[T any](names []string, leafShapes []shapes.Shape) (*T, []Array, error) {
	twin, arrays := new(T), make([]Array, 0, len(names))
	var err error
	walkHost(reflect.ValueOf(twin).Elem(), "", false, func(path string, v reflect.Value, _ bool) {
		index := len(arrays)
		if err != nil || index == len(names) || names[index] != path {
			return
		}
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), leafShapes[index].Size(), leafShapes[index].Size()))
		}
		a := arrayOf(path, v)
		if a.Shape.DType != leafShapes[index].DType || a.Shape.Size() != leafShapes[index].Size() {
			err = fmt.Errorf("tree.Like: %s of %T can not hold %s", path, *twin, leafShapes[index])
		}
		arrays = append(arrays, a)
	})
	if err == nil && len(arrays) < len(names) {
		err = fmt.Errorf("tree.Like: %s is not a field of %T, or is in a different order", names[len(arrays)], *twin)
	}
	return twin, arrays, err
}
