package xla_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/pjrt"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/ops/control"
)

const (
	cacheRows  = 1 << 15
	cacheWidth = 800 // float32: 100 MiB
	cacheBytes = cacheRows * cacheWidth * 4
)

// cacheProgram writes 16 rows of a 100 MiB cache at each of 100 steps of a loop.
func cacheProgram(t testing.TB, b compute.Backend) *Graph {
	t.Helper()
	g := NewGraph(b, "cache update")
	type state struct{ I, Cache *Node }
	cache := Parameter(g, "cache", shapes.Make(dtypes.Float32, cacheRows, cacheWidth))
	start := Parameter(g, "start", shapes.Make(dtypes.Int32))
	s := control.While(state{ScalarZero(g, dtypes.Int32), cache},
		func(s state) *Node { return LessThan(s.I, Scalar(g, dtypes.Int32, 100)) },
		func(s state) state {
			rows := Add(Iota(g, shapes.Make(dtypes.Int32, 16), 0), Add(start, MulScalar(s.I, 16)))
			value := BroadcastToDims(ConvertDType(AddScalar(s.I, 1), dtypes.Float32), 16, cacheWidth)
			return state{AddScalar(s.I, 1), control.ScatterSet(s.Cache, rows, value)}
		})
	if err := g.Compile(s.Cache, s.I); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestDonatedStateIsUpdatedInPlace(t *testing.T) {
	b := newBackend(t, xla.Options{})
	view := b.Donating(map[string]int{"cache": 0})
	cacheProgram(t, view)
	exec := view.(*xla.View).Executables()[0]
	stats, err := exec.MemoryStats()
	if err != nil {
		t.Fatal(err)
	}
	if stats.Aliases != cacheBytes {
		t.Errorf("%d bytes are aliased, want %d", stats.Aliases, cacheBytes)
	}
	if stats.Temporary > 1<<20 {
		t.Errorf("%d bytes of temporaries, want under 1 MiB", stats.Temporary)
	}

	// No instruction copies the cache.
	hlo, err := exec.OptimizedHLO()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(hlo) {
		if strings.Contains(line, " copy(") && strings.Contains(line, fmt.Sprintf("[%d,%d]", cacheRows, cacheWidth)) {
			t.Errorf("the cache is copied: %s", line)
		}
	}

	cache, err := b.BufferFromFlatData(0, make([]float32, cacheBytes/4),
		shapes.Make(dtypes.Float32, cacheRows, cacheWidth))
	if err != nil {
		t.Fatal(err)
	}
	start, err := b.BufferFromFlatData(0, []int32{7}, shapes.Make(dtypes.Int32))
	if err != nil {
		t.Fatal(err)
	}
	address := func(b compute.Buffer) *float32 {
		data, err := b.Data()
		if err != nil {
			t.Fatal(err)
		}
		return &data.([]float32)[0]
	}
	before := address(cache)
	alive := pjrt.BuffersAlive()
	for range 5 {
		out, err := exec.ExecuteAsync([]compute.Buffer{cache, start}, []bool{true, false}).Await()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cache.Shape(); err == nil {
			t.Fatal("the donated cache is still valid")
		}
		if _, err := exec.Execute([]compute.Buffer{cache, start}, nil, 0); err == nil {
			t.Fatal("a donated buffer was executed with")
		}
		cache = out[0]
		if err := out[1].Finalize(); err != nil {
			t.Fatal(err)
		}
		if address(cache) != before {
			t.Fatal("the cache has moved")
		}
	}
	if now := pjrt.BuffersAlive(); now > alive {
		t.Errorf("%d buffers are alive, %d were before", now, alive)
	}
	data, err := cache.Data()
	if err != nil {
		t.Fatal(err)
	}
	for row, want := range map[int]float32{6: 0, 7: 1, 22: 1, 23: 2, 7 + 1599: 100, 7 + 1600: 0} {
		if got := data.([]float32)[row*cacheWidth+5]; got != want {
			t.Errorf("row %d is %v, want %v", row, got, want)
		}
	}

	// Not donated, the same program copies first and leaves its input alone.
	out, err := exec.Execute([]compute.Buffer{cache, start}, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if address(out[0]) == before || address(cache) != before {
		t.Error("an input that was not donated was overwritten")
	}
}

func TestDonationIsChecked(t *testing.T) {
	b := newBackend(t, xla.Options{})
	for name, alias := range map[string]map[string]int{
		"no such parameter": {"y": 0}, "no such output": {"x": 2}, "other shape": {"x": 1},
	} {
		builder := b.Donating(alias).Builder(name)
		main := builder.Main()
		x, err := main.Parameter("x", shapes.Make(dtypes.Float32, 4), nil)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := main.ReduceSum(x)
		if err != nil {
			t.Fatal(err)
		}
		if err := main.Return([]compute.Value{x, sum}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := builder.Compile(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Patterns of a decode step: the cache is written, then read in an inner loop that captures it; it is written in one
// branch of two; it is a pair of layers. None may cost a copy.
func TestStateIsNotCopied(t *testing.T) {
	b := newBackend(t, xla.Options{})
	type state struct {
		I      *Node
		X      *Node
		Caches []*Node
	}
	const rows, width, layers = 4096, 256, 2
	write := func(cache, i *Node) *Node {
		g := cache.Graph()
		at := Add(Iota(g, shapes.Make(dtypes.Int32, 8), 0), MulScalar(i, 8))
		return control.ScatterSet(cache, at, BroadcastToDims(ConvertDType(i, dtypes.Float32), 8, width))
	}
	read := func(cache, x, upTo *Node) *Node {
		g := cache.Graph()
		type inner struct{ J, Sum *Node }
		return control.While(inner{ScalarZero(g, dtypes.Int32), x},
			func(s inner) *Node { return LessThan(s.J, upTo) },
			func(s inner) inner {
				at := ModScalar(AddScalar(Mul(Iota(g, shapes.Make(dtypes.Int32, 16, 1), 0), AddScalar(s.J, 1)), 3),
					rows)
				block := Gather(cache, at)
				return inner{AddScalar(s.J, 1), Add(s.Sum, ReduceAllSum(block))}
			}).Sum
	}
	for name, step := range map[string]func(s state) state{
		"read in an inner loop": func(s state) state {
			next := state{I: AddScalar(s.I, 1), X: s.X}
			for _, c := range s.Caches {
				c = write(c, s.I)
				next.X = read(c, next.X, s.I)
				next.Caches = append(next.Caches, c)
			}
			return next
		},
		"written in a branch": func(s state) state {
			caches := control.If(Equal(ModScalar(s.I, 2), ScalarZero(s.I.Graph(), dtypes.Int32)),
				func() []*Node { return []*Node{write(s.Caches[0], s.I), write(s.Caches[1], s.I)} },
				func() []*Node { return s.Caches })
			return state{AddScalar(s.I, 1), read(caches[0], s.X, s.I), caches}
		},
		"written in an inner loop": func(s state) state {
			type inner struct {
				J      *Node
				Caches []*Node
			}
			g := s.I.Graph()
			in := control.While(inner{ScalarZero(g, dtypes.Int32), s.Caches},
				func(t inner) *Node { return LessThan(t.J, s.I) },
				func(t inner) inner {
					return inner{AddScalar(t.J, 1), []*Node{write(t.Caches[0], t.J), write(t.Caches[1], s.I)}}
				})
			return state{AddScalar(s.I, 1), read(in.Caches[1], s.X, s.I), in.Caches}
		},
	} {
		view := b.Donating(map[string]int{"a": 0, "b": 1}).(*xla.View)
		g := NewGraph(view, name)
		shape := shapes.Make(dtypes.Float32, rows, width)
		caches := []*Node{Parameter(g, "a", shape), Parameter(g, "b", shape)}
		n := Parameter(g, "n", shapes.Make(dtypes.Int32))
		s := control.While(state{ScalarZero(g, dtypes.Int32), ScalarZero(g, dtypes.Float32), caches},
			func(s state) *Node { return LessThan(s.I, n) }, step)
		if err := g.Compile(append(s.Caches, s.X)...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		stats, err := view.Executables()[0].MemoryStats()
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(layers * rows * width * 4); stats.Aliases != want || stats.Temporary > want/8 {
			t.Errorf("%s: %d bytes aliased, %d temporary; want %d and few", name, stats.Aliases, stats.Temporary, want)
		}
	}
}
