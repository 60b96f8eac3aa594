package nested_test

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/backend/nested"
	"github.com/quire/quire/ops/control"
)

func run(t *testing.T, graph func([]*Node) *Node, inputs ...any) *tensors.Tensor {
	t.Helper()
	b, err := gobackend.New("ops_sequential")
	if err != nil {
		t.Fatal(err)
	}
	exec, err := NewExec(nested.Wrap(b), graph)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Exec(inputs...)
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// Loops three deep, each of which uses values of all around it.
func TestLoopsNest(t *testing.T) {
	type state struct{ I, Sum *Node }
	out := run(t, func(in []*Node) *Node {
		n := in[0]
		g := n.Graph()
		zero := func() *Node { return Scalar(g, dtypes.Int32, 0) }
		loop := func(sum *Node, body func(i, sum *Node) *Node) *Node {
			return control.While(state{zero(), sum}, func(s state) *Node { return LessThan(s.I, n) },
				func(s state) state { return state{AddScalar(s.I, 1), body(s.I, s.Sum)} }).Sum
		}
		return loop(zero(), func(i, sum *Node) *Node {
			return loop(sum, func(j, sum *Node) *Node {
				return loop(sum, func(k, sum *Node) *Node {
					return control.If(GreaterThan(j, k), func() *Node { return Add(sum, Mul(i, Add(j, k))) },
						func() *Node { return Add(sum, n) })
				})
			})
		})
	}, int32(4))
	want := int32(0)
	for i := range int32(4) {
		for j := range int32(4) {
			for k := range int32(4) {
				if j > k {
					want += i * (j + k)
				} else {
					want += 4
				}
			}
		}
	}
	if got := out.Value(); got != want {
		t.Errorf("got %v, want %d", got, want)
	}
}

// A loop whose body broadcasts [1, 3] and [2, 1] to [2, 3], between them a loop that uses what is broadcast around it.
func TestBroadcastsInLoops(t *testing.T) {
	type state struct{ I, Sum *Node }
	out := run(t, func(in []*Node) *Node {
		row, column := in[0], in[1]
		g := row.Graph()
		wide := func(x *Node) *Node { return BroadcastToDims(x, 2, 3) }
		loop := func(sum *Node, body func(i, sum *Node) *Node) *Node {
			return control.While(state{Scalar(g, dtypes.Int32, 0), sum},
				func(s state) *Node { return LessThan(s.I, Scalar(g, dtypes.Int32, 2)) },
				func(s state) state { return state{AddScalar(s.I, 1), body(s.I, s.Sum)} }).Sum
		}
		rows := Neg(wide(row)) // used inside only
		return loop(ZerosLike(wide(row)), func(i, sum *Node) *Node {
			i = BroadcastToDims(Reshape(Add(i, Scalar(g, dtypes.Int32, 1)), 1, 1), 2, 3)
			columns := Mul(wide(column), i)
			sum = Add(sum, Mul(wide(row), wide(row)))
			return loop(sum, func(j, sum *Node) *Node {
				return Where(LessThan(wide(row), wide(column)), Add(sum, Mul(rows, columns)),
					Sub(sum, Mul(wide(ReduceAndKeep(columns, ReduceSum, 1)), Neg(wide(column)))))
			})
		})
	}, [][]int32{{1, 2, 3}}, [][]int32{{2}, {5}})
	want := [2][3]int32{}
	for i := range int32(2) {
		for a, c := range []int32{2, 5} {
			for b, r := range []int32{1, 2, 3} {
				want[a][b] += r * r
				if r < c {
					want[a][b] -= 2 * r * c * (i + 1)
				} else {
					want[a][b] += 2 * 3 * c * (i + 1) * c
				}
			}
		}
	}
	got := out.Value().([][]int32)
	for a := range want {
		for b := range want[a] {
			if got[a][b] != want[a][b] {
				t.Errorf("[%d, %d]: got %d, want %d", a, b, got[a][b], want[a][b])
			}
		}
	}
}

// A function may return what comes before a value that nothing uses: a parameter, or what it took from around it.
func TestUnusedParametersAndCaptures(t *testing.T) {
	type state struct{ More, N, Last *Node }
	out := run(t, func(in []*Node) *Node {
		n := in[0]
		g := n.Graph()
		tensor := Add(n, n)
		s := control.While(state{LessThan(Scalar(g, dtypes.Int32, 0), n), n, n}, func(s state) *Node { return s.More },
			func(s state) state {
				less := AddScalar(s.N, -1)
				next := state{GreaterThan(less, Scalar(g, dtypes.Int32, 0)), less, s.N}
				_ = Add(tensor, less)
				return next
			})
		return control.If(s.More, func() *Node { return tensor }, func() *Node {
			last := AddScalar(s.Last, 1)
			_ = Mul(tensor, n)
			return last
		})
	}, int32(3))
	if got := out.Value(); got != int32(2) {
		t.Errorf("got %v, want 2", got)
	}
}

// Two results of a function may be the same operation on the same values.
func TestEqualResults(t *testing.T) {
	type state struct{ A, B, C *Node }
	out := run(t, func(in []*Node) *Node {
		limit := Scalar(in[0].Graph(), dtypes.Int32, 100)
		s := control.While(state{in[0], in[0], in[0]}, func(s state) *Node { return LessThan(s.A, limit) },
			func(s state) state {
				return state{Add(s.A, s.B), Add(s.A, s.B), s.C}
			})
		return Add(s.A, Add(s.B, s.C))
	}, int32(1))
	if got := out.Value(); got != int32(257) {
		t.Errorf("got %v, want 257", got)
	}
}

// A branch returns what it takes from around it, and then memory is used again.
func TestBranchesReturnCaptures(t *testing.T) {
	type state struct{ I, Sum *Node }
	out := run(t, func(in []*Node) *Node {
		x := in[0]
		g := x.Graph()
		limit := Scalar(g, dtypes.Int32, 4)
		return control.While(state{Scalar(g, dtypes.Int32, 0), x}, func(s state) *Node { return LessThan(s.I, limit) },
			func(s state) state {
				next, double := AddScalar(s.I, 1), Add(s.Sum, s.Sum)
				kept := control.If(LessThan(s.I, limit), func() *Node { return double },
					func() *Node { return Scalar(g, dtypes.Int32, 0) })
				// These take new buffers of the same size.
				others := Mul(AddScalar(next, 100), SubScalar(next, 50))
				return state{next, Add(kept, Sub(others, Mul(SubScalar(next, 50), AddScalar(next, 100))))}
			}).Sum
	}, int32(3))
	if got := out.Value(); got != int32(48) {
		t.Errorf("got %v, want 48", got)
	}
}

// What one program returns is the input of the next, and of another of the same backend.
func TestResultsAreInputs(t *testing.T) {
	b, err := gobackend.New("ops_sequential")
	if err != nil {
		t.Fatal(err)
	}
	wrapped := nested.Wrap(b)
	x := tensors.FromScalar(int32(1))
	for range 2 {
		exec, err := NewExec(wrapped, func(x *Node) *Node { return Add(x, x) })
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			out, err := exec.Exec(x)
			if err != nil {
				t.Fatal(err)
			}
			x = out[0]
		}
	}
	if got := x.Value(); got != int32(16) {
		t.Errorf("got %v, want 16", got)
	}
}
