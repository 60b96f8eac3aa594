// Package pooling turns the hidden states of rows of tokens into one vector for each row.
package pooling

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/sentence"
	"github.com/quire/quire/ops/control"
)

// Rows pools rows of x [T, N]: row r has the lens[r] tokens from firsts[r] on, i32[R] both, and only the first count
// rows, i32[], are wanted. The result is f32[R, N], with zeros for the others. Sums are in float32 and in the order of
// a row's tokens, so that a row's vector depends on its tokens alone.
func Rows(x, firsts, lens, count *Node, p sentence.Pooling) *Node {
	g, width, rows := x.Graph(), x.Shape().Dimensions[1], firsts.Shape().Dimensions[0]
	tokens := x.Shape().Dimensions[0]
	live := LessThan(Iota(g, shapes.Make(dtypes.Int32, rows), 0), count)
	// take returns the tokens at positions i32[R] of the rows, and zeros where live is false.
	take := func(x, positions, live *Node) *Node {
		at := Max(Min(positions, Scalar(g, dtypes.Int32, float64(tokens-1))), ScalarZero(g, dtypes.Int32))
		y := ConvertDType(Gather(x, InsertAxes(at, -1)), dtypes.Float32)
		return Where(BroadcastToDims(InsertAxes(live, -1), rows, width), y, ZerosLike(y))
	}
	switch p {
	case sentence.CLS:
		return take(x, firsts, live)
	case sentence.Last:
		return take(x, SubScalar(Add(firsts, lens), 1), live)
	case sentence.Mean, sentence.Max:
	default:
		panic(fmt.Errorf("pooling: there is no pooling %q", string(p)))
	}
	largest := p == sentence.Max
	plain := func(in []*Node) []*Node {
		x, firsts, lens, live := in[0], in[1], in[2], LessThan(Iota(g, shapes.Make(dtypes.Int32, rows), 0), in[3])
		lens = Where(live, lens, ZerosLike(lens))
		type pooled struct{ Token, Out *Node }
		end := control.While(pooled{ScalarZero(g, dtypes.Int32), Zeros(g, shapes.Make(dtypes.Float32, rows, width))},
			func(s pooled) *Node { return LessThan(s.Token, ReduceAllMax(lens)) },
			func(s pooled) pooled {
				has := LessThan(BroadcastToDims(s.Token, rows), lens)
				next := take(x, Add(firsts, s.Token), has)
				if largest {
					isFirst := BroadcastToDims(Equal(s.Token, ScalarZero(g, dtypes.Int32)), rows, width)
					next = Where(isFirst, next, Max(s.Out, next))
				} else {
					next = Add(s.Out, next)
				}
				out := Where(BroadcastToDims(InsertAxes(has, -1), rows, width), next, s.Out)
				return pooled{AddScalar(s.Token, 1), out}
			})
		if largest {
			return []*Node{end.Out}
		}
		by := ConvertDType(Max(lens, OnesLike(lens)), dtypes.Float32)
		return []*Node{Div(end.Out, BroadcastToDims(InsertAxes(by, -1), rows, width))}
	}
	return control.Composite("pool_rows", map[string]bool{"largest": largest}, []*Node{x, firsts, lens, count},
		[]shapes.Shape{shapes.Make(dtypes.Float32, rows, width)}, plain)[0]
}
