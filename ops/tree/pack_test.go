package tree_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/tree"
)

type mixedOf[Int, Mask, Ints, Keys, Floats, Longs any] struct {
	Count  Int
	Mask   Mask
	Tokens Ints `tree:"apart"`
	Keys   Keys
	Rows   struct{ Temperature Floats }
	Clock  Longs
}

type (
	mixed     = mixedOf[*Node, *Node, *Node, *Node, *Node, *Node]
	hostMixed = mixedOf[int32, []bool, []int32, [][2]uint32, []float32, []int64]
)

func newMixed() *hostMixed {
	m := &hostMixed{Count: -7, Mask: []bool{true, false, true}, Tokens: []int32{1, 2, 3, 4},
		Keys: [][2]uint32{{1, math.MaxUint32}, {3, 1 << 31}}, Clock: []int64{1 << 40, -1}}
	m.Rows.Temperature = []float32{0.5, float32(math.Inf(-1)), math.SmallestNonzeroFloat32}
	return m
}

// A packed tree comes out of the device, and back to the host, as it went in; few arrays carry it.
func TestPacking(t *testing.T) {
	for name, backend := range map[string]compute.Backend{"go": testenv.Go(t), "xla": testenv.XLA(t)} {
		t.Run(name, func(t *testing.T) {
			in := tree.Arrays(newMixed())
			p := tree.NewPacking(tree.LeavesOf(in))
			var names []string
			for _, a := range p.Arrays() {
				names = append(names, a.Name)
			}
			if want := []string{"packed", "Tokens", "Clock"}; !slices.Equal(names, want) {
				t.Fatalf("the arrays are %v, want %v", names, want)
			}
			flats := p.New()
			p.Put(flats, in)
			exec, err := NewExec(backend, func(packed, tokens, clock *Node) []*Node {
				tr := tree.Of[mixed](in, p.Unpack([]*Node{packed, tokens, clock}))
				tr.Rows.Temperature = AddScalar(tr.Rows.Temperature, 0) // they are numbers there
				tr.Count, tr.Mask, tr.Clock = AddScalar(tr.Count, 1), LogicalNot(tr.Mask), Neg(tr.Clock)
				return p.Pack(tree.Leaves(tr))
			})
			if err != nil {
				t.Fatal(err)
			}
			results, err := exec.Exec(flats[0], flats[1], flats[2])
			if err != nil {
				t.Fatal(err)
			}
			back := []any{tensors.MustCopyFlatData[int32](results[0]), tensors.MustCopyFlatData[int32](results[1]),
				tensors.MustCopyFlatData[int64](results[2])}
			got := &hostMixed{Mask: make([]bool, 3), Tokens: make([]int32, 4), Keys: make([][2]uint32, 2),
				Clock: make([]int64, 2)}
			got.Rows.Temperature = make([]float32, 3)
			arrays := tree.Arrays(got)
			p.Take(back, arrays)
			tree.Store(arrays)
			want := newMixed()
			want.Count, want.Mask, want.Clock = -6, []bool{false, true, false}, []int64{-1 << 40, 1}
			got.Rows.Temperature[2], want.Rows.Temperature[2] = 0, 0 // a sum may flush it
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// What a twin leaves out stays as it was packed before.
func TestPackingOfAbsentLeaves(t *testing.T) {
	m := newMixed()
	p := tree.NewPacking(tree.LeavesOf(tree.Arrays(m)))
	flats := p.New()
	p.Put(flats, tree.Arrays(m))
	m.Count, m.Tokens, m.Rows.Temperature = 9, nil, nil
	p.Put(flats, tree.Arrays(m))
	got := newMixed()
	got.Count = 0
	arrays := tree.Arrays(got)
	p.Take(flats, arrays)
	tree.Store(arrays)
	want := newMixed()
	want.Count = 9
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A packing refuses the leaves of another tree.
func TestPackingOfOthers(t *testing.T) {
	p := tree.NewPacking(tree.LeavesOf(tree.Arrays(newMixed())))
	longer := newMixed()
	longer.Tokens = make([]int32, 5)
	for name, f := range map[string]func(){
		"another name": func() { p.Put(p.New(), tree.Arrays(&struct{ Other int32 }{})) },
		"another size": func() { p.Put(p.New(), tree.Arrays(longer)) },
		"fewer arrays": func() { p.Unpack(nil) },
		"fewer leaves": func() { p.Pack(nil) },
		"half floats": func() {
			tree.NewPacking([]tree.Leaf{{Name: "x", Shape: shapes.Make(dtypes.Float16, 1)}}).New()
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: taken", name)
				}
			}()
			f()
		}()
	}
}
