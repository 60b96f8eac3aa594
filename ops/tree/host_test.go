package tree_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/tree"
)

type paramsOf[Int, Ints, Keys any] struct {
	Count Int
	Rows  struct {
		Lens Ints
		Keys Keys
	}
}

type (
	params     = paramsOf[*Node, *Node, *Node]
	hostParams = paramsOf[int32, []int32, [][2]uint32]
)

// The leaves of a host twin are views of its fields, in the order and by the names of the tree's.
func TestHostTwin(t *testing.T) {
	twin := tree.Make[hostParams](3)
	twin.Count, twin.Rows.Lens[1], twin.Rows.Keys[2] = 5, 6, [2]uint32{7, 8}
	arrays := tree.Arrays(&twin)
	want := []tree.Array{
		{Name: "Count", Shape: shapes.Make(dtypes.Int32), Flat: []int32{5}},
		{Name: "Rows.Lens", Shape: shapes.Make(dtypes.Int32, 3), Flat: []int32{0, 6, 0}},
		{Name: "Rows.Keys", Shape: shapes.Make(dtypes.Uint32, 3, 2), Flat: []uint32{0, 0, 0, 0, 7, 8}},
	}
	for i, a := range arrays {
		if w := want[i]; a.Name != w.Name || !a.Shape.Equal(w.Shape) || !reflect.DeepEqual(a.Flat, w.Flat) {
			t.Errorf("array %d is %s %s %v, want %s %s %v", i, a.Name, a.Shape, a.Flat, w.Name, w.Shape, w.Flat)
		}
	}
	arrays[0].Flat.([]int32)[0], arrays[1].Flat.([]int32)[0] = 9, 10
	if tree.Store(arrays); twin.Count != 9 || twin.Rows.Lens[0] != 10 {
		t.Errorf("the twin is %+v", twin)
	}
	build(t, func(x *Node) {
		zeros := tree.Zeros[params](x.Graph(), arrays)
		for i, leaf := range tree.Leaves(zeros) {
			if !leaf.Shape().Equal(arrays[i].Shape) {
				t.Errorf("%s is %s, want %s", arrays[i].Name, leaf.Shape(), arrays[i].Shape)
			}
		}
		if names := tree.Names(zeros); !slices.Equal(names, []string{"Count", "Rows.Lens", "Rows.Keys"}) {
			t.Errorf("the tree of a twin has leaves %v", names)
		}
	})
}

// A tree that has other leaves than its host twin is refused.
func TestOtherTwin(t *testing.T) {
	build(t, func(x *Node) {
		arrays, all := tree.Arrays(new(hostParams)), tree.Make[hostParams](2)
		for name, f := range map[string]func(){
			"other names": func() { tree.Of[struct{ Count, Lens *Node }](arrays, []*Node{x, x}) },
			"fewer nodes": func() { tree.Of[params](tree.Arrays(&all), []*Node{x}) },
			"text":        func() { tree.Arrays(&struct{ Text string }{}) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s were taken", name)
					}
				}()
				f()
			}()
		}
	})
}

func TestMapAndZip(t *testing.T) {
	build(t, func(x *Node) {
		p := state{I: x, Parts: []*Node{Neg(x)}, Label: "kept"}
		doubled := tree.Map(p, func(leaf *Node) *Node { return Add(leaf, leaf) })
		if doubled.I == x || doubled.Parts[0] == p.Parts[0] || doubled.Label != "kept" || p.I != x {
			t.Errorf("Map gave %+v from %+v", doubled, p)
		}
		if second := tree.Zip(p, doubled, func(_, b *Node) *Node { return b }); second.I != doubled.I ||
			second.Parts[0] != doubled.Parts[0] {
			t.Errorf("Zip gave %+v", second)
		}
		defer func() {
			if recover() == nil {
				t.Error("trees with other numbers of leaves were zipped")
			}
		}()
		tree.Zip(p, state{I: x}, func(a, _ *Node) *Node { return a })
	})
}

// A host twin is made for arrays of given shapes, and refuses those that it has no field for.
func TestLike(t *testing.T) {
	type output struct {
		Count        int32
		Tokens, None []int32
		Scores       []float32
		Each         [2][]float32
	}
	i32 := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Int32, dims...) }
	twin, arrays, err := tree.Like[output]([]string{"Count", "Tokens"}, []shapes.Shape{i32(), i32(2, 3)})
	if err != nil || len(arrays) != 2 || len(twin.Tokens) != 6 || twin.None != nil || twin.Scores != nil {
		t.Errorf("%+v, %v, %v", twin, arrays, err)
	}
	arrays[1].Flat.([]int32)[5] = 7
	if twin.Tokens[5] != 7 {
		t.Error("an array does not share the twin's memory")
	}
	twin, _, err = tree.Like[output]([]string{"Each.1"}, []shapes.Shape{shapes.Make(dtypes.Float32, 3)})
	if err != nil || twin.Each[0] != nil || len(twin.Each[1]) != 3 {
		t.Errorf("%+v, %v", twin, err)
	}
	for _, c := range []struct {
		name  string
		shape shapes.Shape
	}{{"Nothing", i32()}, {"Scores", i32(2)}, {"Count", i32(2)}} {
		if _, _, err := tree.Like[output]([]string{c.name}, []shapes.Shape{c.shape}); err == nil {
			t.Errorf("%s %s was taken", c.name, c.shape)
		}
	}
}
