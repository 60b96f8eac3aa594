package xla_test

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/ops/control"
)

// run builds and runs a graph, and returns its outputs printed.
func run[F ExecGraphFn](t *testing.T, b compute.Backend, f F, args ...any) []string {
	t.Helper()
	out, err := ExecOnceN(b, f, args...)
	if err != nil {
		t.Fatal(err)
	}
	var printed []string
	for _, o := range out {
		printed = append(printed, fmt.Sprint(o.Value()))
	}
	return printed
}

// Three loops in each other; the innermost uses values of every function around it, and each bound is the counter
// outside.
func TestNestedLoopsCapture(t *testing.T) {
	out := run(t, newBackend(t, xla.Options{}), func(n, weight *Node) *Node {
		g := n.Graph()
		type state struct{ I, Sum *Node }
		zero := func() *Node { return ScalarZero(g, dtypes.Int32) }
		loop := func(limit, sum *Node, body func(i, sum *Node) *Node) *Node {
			return control.While(state{zero(), sum},
				func(s state) *Node { return LessThan(s.I, limit) },
				func(s state) state { return state{AddScalar(s.I, 1), body(s.I, s.Sum)} }).Sum
		}
		return loop(n, zero(), func(i, sum *Node) *Node {
			twice := MulScalar(i, 2)
			return loop(n, sum, func(j, sum *Node) *Node {
				both := Add(twice, j)
				return loop(AddScalar(j, 1), sum, func(k, sum *Node) *Node {
					return Add(sum, Add(Mul(both, weight), Add(k, AddScalar(i, 1))))
				})
			})
		})
	}, int32(4), int32(3))
	want := int32(0)
	for i := range int32(4) {
		for j := range int32(4) {
			for k := range j + 1 {
				want += (2*i+j)*3 + k + i + 1
			}
		}
	}
	if out[0] != fmt.Sprint(want) {
		t.Errorf("got %s, want %d", out[0], want)
	}
}

// A branch inside a loop returns a value of the functions around it unchanged, or one computed from it.
func TestIfInWhile(t *testing.T) {
	out := run(t, newBackend(t, xla.Options{}), func(n, outer *Node) *Node {
		type state struct{ I, X *Node }
		g := n.Graph()
		return control.While(state{ScalarZero(g, dtypes.Int32), ScalarZero(g, dtypes.Int32)},
			func(s state) *Node { return LessThan(s.I, n) },
			func(s state) state {
				x := control.If(Equal(ModScalar(s.I, 2), ScalarZero(g, dtypes.Int32)),
					func() *Node { return outer },
					func() *Node { return Add(s.X, MulScalar(s.I, 2)) })
				return state{AddScalar(s.I, 1), x}
			}).X
	}, int32(4), int32(100))
	if out[0] != "106" {
		t.Errorf("got %s, want 106", out[0])
	}
}

// A constant made in one closure and used in a sibling and in the main function, as GoMLX's scalar cache would have it.
func TestConstantsCrossFunctions(t *testing.T) {
	b := newBackend(t, xla.Options{})
	builder := b.Builder("constants")
	main := builder.Main()
	scalar := shapes.Make(dtypes.Int32)
	must := func(v compute.Value, err error) compute.Value {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	n := must(main.Parameter("n", scalar, nil))
	cond, err := main.Closure()
	ok(err)
	body, err := main.Closure() // while cond is open: the loop must still take both
	ok(err)
	i := must(cond.Parameter("i", scalar, nil))
	two := must(cond.Constant([]int32{2}))
	ok(cond.Return([]compute.Value{must(cond.LessThan(must(cond.Mul(i, two)), n))}, nil))
	i = must(body.Parameter("i", scalar, nil))
	ok(body.Return([]compute.Value{must(body.Add(i, two))}, nil))
	out, err := main.While(cond, body, must(main.Sub(two, two)))
	ok(err)
	ok(main.Return([]compute.Value{must(main.Mul(out[0], two)), n}, nil))
	exec, err := builder.Compile()
	ok(err)
	in, err := b.BufferFromFlatData(0, []int32{10}, scalar)
	ok(err)
	results, err := exec.Execute([]compute.Buffer{in}, nil, 0)
	ok(err)
	got := []int32{0}
	ok(results[0].ToFlatData(got))
	if got[0] != 12 {
		t.Errorf("got %d, want 12", got[0])
	}
}
