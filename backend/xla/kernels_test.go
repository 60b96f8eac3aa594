package xla_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/ops/control"
)

// write is the composite that attention writes its cache with.
func write(cache, rows, dests *Node) *Node {
	attrs := map[string]bool{"by_head": false}
	inputs := []*Node{cache, rows, rows, dests}
	return control.Composite("kv_update", attrs, inputs, []shapes.Shape{cache.Shape()}, func(in []*Node) []*Node {
		d := cache.Shape().Dimensions
		flat := Reshape(in[0], d[0]*d[1], d[2], d[3])
		kv := Reshape(Stack([]*Node{in[1], in[2]}, 2), in[1].Shape().Dimensions[0], d[2], d[3])
		return []*Node{Reshape(control.ScatterSet(flat, in[3], kv), d...)}
	})[0]
}

// A kernel updates state in place: in nested loops, read in between, in a branch, and of two layers, none of it is
// copied.
func TestKernelsUpdateInPlace(t *testing.T) {
	const pages, page, heads, dim = 512, 16, 2, 64
	shape := shapes.Make(dtypes.Float32, pages, page, 2*heads, dim)
	type state struct {
		I, Sum *Node
		Caches []*Node
	}
	update := func(cache, i *Node) *Node {
		g := cache.Graph()
		dests := Add(Iota(g, shapes.Make(dtypes.Int32, 8), 0), MulScalar(i, 8))
		return write(cache, BroadcastToDims(ConvertDType(i, dtypes.Float32), 8, heads, dim), dests)
	}
	b, off := newBackend(t, xla.Options{CacheDir: t.TempDir()}), newBackend(t, xla.Options{Kernels: xla.KernelsOff})
	var results [][]float32
	for _, b := range []*xla.Backend{b, b, off} { // compiled, from the cache, and the plain form
		view := b.Donating(map[string]int{"a": 0, "b": 1}).(*xla.View)
		g := NewGraph(view, "kernels in place")
		caches := []*Node{Parameter(g, "a", shape), Parameter(g, "b", shape)}
		n := Parameter(g, "n", shapes.Make(dtypes.Int32))
		zero := ScalarZero(g, dtypes.Int32)
		end := control.While(state{zero, ScalarZero(g, dtypes.Float32), caches},
			func(s state) *Node { return LessThan(s.I, n) },
			func(s state) state {
				inner := control.While(state{zero, s.Sum, s.Caches},
					func(t state) *Node { return LessThan(t.I, n) },
					func(t state) state {
						a := update(t.Caches[0], Add(t.I, MulScalar(s.I, 3)))
						read := ReduceAllSum(Gather(a, Reshape(t.I, 1)))
						b := update(t.Caches[1], t.I)
						return state{AddScalar(t.I, 1), Add(t.Sum, read), []*Node{a, b}}
					})
				inner.Caches = control.If(Equal(s.I, zero),
					func() []*Node { return []*Node{update(inner.Caches[0], AddScalar(s.I, 40)), inner.Caches[1]} },
					func() []*Node { return inner.Caches })
				return state{AddScalar(s.I, 1), inner.Sum, inner.Caches}
			})
		if err := g.Compile(append(end.Caches, end.Sum)...); err != nil {
			t.Fatal(err)
		}
		exec := view.Executables()[0]
		stats, err := exec.MemoryStats()
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(2 * shape.Memory()); stats.Aliases != want || stats.Temporary > 1<<20 {
			t.Errorf("%d bytes are aliased, %d temporary; want %d and few", stats.Aliases, stats.Temporary, want)
		}
		hlo, err := exec.OptimizedHLO()
		if err != nil {
			t.Fatal(err)
		}
		if on := b.Kernels() != xla.KernelsOff; strings.Contains(hlo, "quire_kv_update") != on {
			t.Errorf("kernels %v, but not so in the optimized program", on)
		}
		if copied := regexp.MustCompile(`(?m)^.*\[512,16,4,64\]\S* copy\(.*$`).FindString(hlo); copied != "" {
			t.Errorf("a cache is copied: %s", copied)
		}
		var in []compute.Buffer
		for _, x := range []struct {
			flat  any
			shape shapes.Shape
		}{{make([]float32, shape.Size()), shape}, {make([]float32, shape.Size()), shape},
			{[]int32{3}, shapes.Make(dtypes.Int32)}} {
			buffer, err := b.BufferFromFlatData(0, x.flat, x.shape)
			if err != nil {
				t.Fatal(err)
			}
			in = append(in, buffer)
		}
		out, err := exec.Execute(in, []bool{true, true, false}, 0)
		if err != nil {
			t.Fatal(err)
		}
		var all []float32
		for i, size := range []int{shape.Size(), shape.Size(), 1} {
			flat := make([]float32, size)
			if err := out[i].ToFlatData(flat); err != nil {
				t.Fatal(err)
			}
			all = append(all, flat...)
		}
		results = append(results, all)
	}
	if b.Compiles() != 1 || b.CacheLoads() != 1 {
		t.Errorf("%d programs were compiled and %d loaded, want one each", b.Compiles(), b.CacheLoads())
	}
	for i, r := range results[:2] {
		if !slices.Equal(r, results[2]) {
			t.Errorf("run %d with kernels differs from the plain form", i)
		}
	}
}

func TestKernelErrors(t *testing.T) {
	b := newBackend(t, xla.Options{})
	_, err := ExecOnce(b, func(cache, dests *Node) *Node {
		return write(cache, Zeros(cache.Graph(), shapes.Make(dtypes.Float32, 2, 1, 5)), dests)
	},
		tensors.FromShape(shapes.Make(dtypes.Float32, 2, 2, 2, 4)), []int32{0, 1})
	if err == nil || !strings.Contains(err.Error(), "dimension 2 of k is 5, want 4") {
		t.Errorf("got %v", err)
	}
	if _, err := xla.New(xla.Options{Plugin: cpuPlugin(t), Kernels: "some"}); err == nil ||
		!strings.Contains(err.Error(), "auto or off") {
		t.Errorf("got %v", err)
	}
}

func TestKernelsOff(t *testing.T) {
	on, off := newBackend(t, xla.Options{}), newBackend(t, xla.Options{Kernels: xla.KernelsOff})
	if !on.ReplacesComposite("kv_update") || off.ReplacesComposite("kv_update") ||
		!off.ReplacesComposite("scatter_set") {
		t.Error("kernels are not where they should be")
	}
	if on.Kernels() == "off" || off.Kernels() != "off" {
		t.Errorf("kernels are %q and %q", on.Kernels(), off.Kernels())
	}
}
