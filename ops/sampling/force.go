package sampling

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// isForced returns which rows have a forced token, bool[n], for the tokens i32[n]; -1 is none.
func isForced(tokens *Node) *Node { return GreaterOrEqual(tokens, ZerosLike(tokens)) }

// force returns the logits f32[n, V] with -Inf for all tokens except the forced one. Rows without a forced token keep
// their logits, bit for bit. NaN stays, so that such a row has no distribution with a forced token either.
func force(logits, tokens *Node) *Node {
	g := logits.Graph()
	n, size := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), n, size) }
	others := And(wide(isForced(tokens)), NotEqual(Iota(g, shapes.Make(dtypes.Int32, n, size), 1), wide(tokens)))
	isNumber := LessThan(logits, Scalar(g, dtypes.Float32, math.Inf(1)))
	return Where(And(others, isNumber), FillScalar(g, logits.Shape(), math.Inf(-1)), logits)
}
