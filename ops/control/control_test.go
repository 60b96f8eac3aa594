package control_test

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/control"
)

func run[F ExecGraphFn](t *testing.T, f F, args ...any) []*tensors.Tensor {
	t.Helper()
	out, err := ExecOnceN(testenv.Go(t), f, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type pair struct {
	I     *Node
	Parts []*Node
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

// The native form of the serving backend and the plain one set the same rows, and drop the same.
func TestScatterSet(t *testing.T) {
	for _, backend := range []compute.Backend{testenv.Go(t), testenv.XLA(t)} {
		for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Int32, dtypes.Bool,
			dtypes.Uint32} {
			t.Run(backend.Name()+"/"+dtype.String(), func(t *testing.T) {
				out, err := ExecOnce(backend, func(x, i, u *Node) *Node {
					return ConvertDType(control.ScatterSet(ConvertDType(x, dtype), i, ConvertDType(u, dtype)),
						dtypes.Float32)
				}, [][]float32{{1, 0}, {3, 4}, {0, 6}}, []int32{2, -1, 3, 0},
					[][]float32{{0, 8}, {9, 9}, {7, 7}, {0, 1}})
				if err != nil {
					t.Fatal(err)
				}
				want := "[[0 1] [3 4] [0 8]]"
				if dtype == dtypes.Bool {
					want = "[[0 1] [1 1] [0 1]]"
				}
				if got := fmt.Sprint(out.Value()); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
}
