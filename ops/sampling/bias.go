package sampling

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Biases are the biases of the tokens of rows, on the device.
type Biases struct {
	// Values f32[n, V] are added to the logits. +Inf stands for [BarredEarly].
	Values *Node
	Has    *Node // bool[n]: rows with biases
	Early  *Node // bool[n]: rows that sample a token at a position at which no completion may end
}

// BarredEarly is the bias of a token that is forbidden at a position at which no completion may end, and that has no
// bias at other positions.
var BarredEarly = float32(math.Inf(1))

// AddBiases returns the logits f32[n, V] with biases: OpenAI's logit_bias. Rows without biases keep their logits, bit
// for bit.
func AddBiases(logits *Node, b Biases) *Node {
	g := logits.Graph()
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), logits.Shape().Dimensions...) }
	isBar := Equal(b.Values, Scalar(g, dtypes.Float32, math.Inf(1)))
	none := FillScalar(g, logits.Shape(), math.Inf(-1))
	biased := Where(isBar, Where(wide(b.Early), none, logits), Add(logits, b.Values))
	return Where(wide(b.Has), biased, logits)
}
