package xla_test

import (
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"pgregory.net/rapid"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
)

// chainProgram is a random program of kernels and other operations on vectors s32[8] and caches. Each step takes
// arguments from what was made before, also caches that an earlier step updates.
type chainProgram struct {
	steps [][4]int // the operation, and what it takes
	keep  int      // every so many vectors and caches are results, and the last ones
}

func (p *chainProgram) draw(t *rapid.T) {
	p.keep = rapid.IntRange(1, 9).Draw(t, "keep")
	kernels := rapid.SampledFrom([]int{5, 8}).Draw(t, "operations")
	for range rapid.IntRange(2, 20).Draw(t, "steps") {
		var s [4]int
		s[0] = rapid.IntRange(0, kernels).Draw(t, "operation")
		for i := range s[1:] {
			s[1+i] = rapid.IntRange(0, 5).Draw(t, "argument") // of the newest
		}
		p.steps = append(p.steps, s)
	}
}

func newest(of []*Node, i int) *Node { return of[len(of)-1-i%len(of)] }

func (p *chainProgram) build(x *Node) []*Node {
	g := x.Graph()
	shape := shapes.Make(dtypes.Float32, 4, 2, 2, 4)
	caches := control.Composite("zeros", map[string]int{"results": 2}, []*Node{Scalar(g, dtypes.Float32, 0)},
		[]shapes.Shape{shape, shape}, func(in []*Node) []*Node {
			z := BroadcastToDims(in[0], shape.Dimensions...)
			return []*Node{z, z}
		})
	caches[1] = AddScalar(caches[1], 1) // one from a kernel, and one from elsewhere
	vectors := []*Node{x, AddScalar(x, 1)}
	mask, rows := LessThan(x, AddScalar(x, -2)), Reshape(ConvertDType(x, dtypes.Float32), 2, 1, 4)
	for _, s := range p.steps {
		a, b, c := newest(vectors, s[1]), newest(vectors, s[2]), newest(caches, s[3])
		add := func(v *Node) { vectors = append(vectors, v) }
		dests := Add(Iota(g, shapes.Make(dtypes.Int32, 2), 0), Scalar(g, dtypes.Int32, s[2]))
		switch s[0] {
		case 0:
			add(scan.Sum(a))
		case 1:
			add(scan.Owners(a, 8))
		case 2:
			positions, _ := scan.Positions(mask, 8)
			add(positions)
		case 3: // a reshape between kernels
			add(scan.Owners(Reshape(Reshape(scan.Sum(a), 2, 4), 8), 8))
		case 4:
			caches = append(caches, write(c, rows, dests))
		case 5: // the cache is read, as it is or in another shape
			if s[1]%2 == 0 {
				caches = append(caches, norm(c))
			} else {
				caches = append(caches, Reshape(norm(Reshape(c, 2, 4, 2, 4)), 4, 2, 2, 4))
			}
		case 6:
			add(Sub(MulScalar(a, 3), b))
		case 7:
			add(BroadcastToDims(scan.Count(GreaterThan(a, b)), 8))
		case 8:
			rows = Reshape(ConvertDType(a, dtypes.Float32), 2, 1, 4)
			mask = LessThan(a, b)
		}
	}
	var out []*Node
	for _, made := range [][]*Node{vectors, caches} {
		for i, v := range made {
			if i == len(made)-1 || i%p.keep == 0 {
				out = append(out, ConvertDType(v, dtypes.Float32))
			}
		}
	}
	return out
}

// norm is a norm of the last axis, as package decoder makes it.
func norm(x *Node) *Node {
	const eps = 0.5
	d := x.Shape().Dimensions
	inputs := []*Node{x, Ones(x.Graph(), shapes.Make(dtypes.Float32, d[3])), Scalar(x.Graph(), dtypes.Int32, d[0])}
	return control.Composite("rms_norm", map[string]float64{"eps": eps}, inputs, []shapes.Shape{x.Shape()},
		func(in []*Node) []*Node {
			return []*Node{Mul(in[0], Rsqrt(AddScalar(ReduceAndKeep(Mul(in[0], in[0]), ReduceMean, -1), eps)))}
		})[0]
}

// Random programs of kernels in chains give what plain forms give: whatever stands between the kernels, where their
// results go, and whether a cache is needed as it was before it is updated in place.
func TestChains(t *testing.T) {
	on, off := newBackend(t, xla.Options{}), newBackend(t, xla.Options{Kernels: xla.KernelsOff})
	chains := 0
	rapid.Check(t, func(t *rapid.T) {
		var p chainProgram
		p.draw(t)
		var results [][]*tensors.Tensor
		for _, b := range []*xla.Backend{on, off} {
			view := b.Donating(nil).(*xla.View)
			exec, err := NewExec(view, p.build)
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.Exec([]int32{3, -1, 4, 1, -5, 9, 2, 6})
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, out)
			if b == on && strings.Contains(view.Executables()[0].StableHLO(), "quire_chain") {
				chains++
			}
		}
		for i, kernels := range results[0] {
			if plain := results[1][i]; !kernels.InDelta(plain, 1e-3) {
				t.Fatalf("%v: result %d of kernels is\n%v\nand of plain forms\n%v", p, i, kernels, plain)
			}
		}
	})
	if chains == 0 {
		t.Error("no program had a chain")
	}
}

// An array that the chain alone needs lies in one with others, a reshape of a result stands behind the chain, and
// what depends on what lies between kernels is in another chain.
func TestChainsTakeWhatFollows(t *testing.T) {
	b := newBackend(t, xla.Options{})
	view := b.Donating(nil).(*xla.View)
	exec, err := NewExec(view, func(x *Node) []*Node {
		a := scan.Owners(scan.Sum(scan.Sum(x)), 8)
		between := AddScalar(a, 1)
		return []*Node{Reshape(scan.Sum(a), 2, 4), scan.Sum(scan.Sum(between))}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.Exec(tensors.FromValue([]int32{0, 1, 2, 3, 0, 0, 0, 1})); err != nil {
		t.Fatal(err)
	}
	hlo, err := view.Executables()[0].OptimizedHLO()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"u8[128]{0}) custom-call(",
		"kernels={quire_prefix_sums, quire_owners}",
		"u8[64]{0}) custom-call(",
		"kernels={quire_prefix_sums}",
	} {
		if !strings.Contains(hlo, want) {
			t.Errorf("%q is not in\n%s", want, hlo)
		}
	}
}
