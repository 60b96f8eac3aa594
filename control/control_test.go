package control_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/control"
	"github.com/quire/quire/tree"
)

func goBackend(t *testing.T) compute.Backend {
	b, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func run[F ExecGraphFn](t *testing.T, f F, args ...any) []*tensors.Tensor {
	t.Helper()
	out, err := ExecOnceN(goBackend(t), f, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type pair struct {
	I     *Node
	Parts []*Node
	Label string
}

func TestTreeRoundTrip(t *testing.T) {
	run(t, func(x *Node) []*Node {
		p := pair{I: x, Parts: []*Node{Neg(x), nil, Abs(x)}, Label: "kept"}
		if got := tree.Names(p); !slices.Equal(got, []string{"I", "Parts.0", "Parts.2"}) {
			t.Errorf("Names = %v", got)
		}
		nodes := tree.Leaves(p)
		slices.Reverse(nodes)
		q := tree.Rebuild(p, nodes)
		if q.Label != "kept" || q.I != p.Parts[2] || q.Parts[1] != nil || q.Parts[2] != p.I || p.I != x {
			t.Errorf("Rebuild gave %+v from %+v", q, p)
		}
		return []*Node{x}
	}, int32(1))
}

// A loop whose condition and body use the same constants, and nodes from outside.
func TestWhileSharesConstantsAndCaptures(t *testing.T) {
	out := run(t, func(n, step *Node) []*Node {
		g := n.Graph()
		s := control.While(pair{I: Scalar(g, dtypes.Int32, 0), Parts: []*Node{Scalar(g, dtypes.Int32, 0)}},
			func(p pair) *Node { return LessThan(AddScalar(p.I, 1), AddScalar(n, 1)) },
			func(p pair) pair {
				return pair{I: AddScalar(p.I, 1), Parts: []*Node{Add(p.Parts[0], AddScalar(step, 1))}}
			})
		return []*Node{AddScalar(s.Parts[0], 1)}
	}, int32(5), int32(2))
	if got := out[0].Value(); got != int32(16) {
		t.Errorf("got %v, want 16", got)
	}
}

func TestIf(t *testing.T) {
	for _, x := range []int32{-3, 4} {
		out := run(t, func(x *Node) []*Node {
			return []*Node{control.If(GreaterThan(x, ScalarZero(x.Graph(), x.DType())),
				func() *Node { return AddScalar(x, 10) }, func() *Node { return Neg(AddScalar(x, 10)) })}
		}, x)
		want := x + 10
		if x < 0 {
			want = -want
		}
		if got := out[0].Value(); got != want {
			t.Errorf("x=%d: got %v, want %d", x, got, want)
		}
	}
}

func TestScatterSet(t *testing.T) {
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.Int32, dtypes.Bool, dtypes.Uint32} {
		t.Run(dtype.String(), func(t *testing.T) {
			out := run(t, func(x, i, u *Node) []*Node {
				return []*Node{ConvertDType(control.ScatterSet(ConvertDType(x, dtype), i, ConvertDType(u, dtype)), dtypes.Float32)}
			}, [][]float32{{1, 0}, {3, 4}, {0, 6}}, []int32{2, -1, 3, 0}, [][]float32{{0, 8}, {9, 9}, {7, 7}, {0, 1}})
			want := "[[0 1] [3 4] [0 8]]"
			if dtype == dtypes.Bool {
				want = "[[0 1] [1 1] [0 1]]"
			}
			if got := fmt.Sprint(out[0].Value()); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
