package sampling

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// isForced says which rows draw a given token, bool[n], for the tokens i32[n]; -1 is none.
func isForced(tokens *Node) *Node { return GreaterOrEqual(tokens, ZerosLike(tokens)) }

// force returns the logits f32[n, V] with -Inf for all but the given token of rows that have one. Rows without keep
// theirs, to the bit. What is no number stays, so that such a row has no distribution with a given token either.
func force(logits, tokens *Node) *Node {
	g := logits.Graph()
	n, size := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), n, size) }
	others := And(wide(isForced(tokens)), NotEqual(Iota(g, shapes.Make(dtypes.Int32, n, size), 1), wide(tokens)))
	isNumber := LessThan(logits, Scalar(g, dtypes.Float32, math.Inf(1)))
	return Where(And(others, isNumber), FillScalar(g, logits.Shape(), math.Inf(-1)), logits)
}
