package sampling

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// Entropy returns the entropy of each row's distribution, f32[S], in nats: -sum p log p of p = softmax(logits), the
// model's own distribution, before temperature and filters.
//
// logits [S, V] are of any float dtype (computed in float32). rows i32[] is the number of rows that are wanted, the
// first ones of S: the results of the others may be anything. A row without a distribution, see [Sample], has NaN.
//
// With the kernel for CPUs the bits of a row do not depend on the other rows. Elsewhere float32 sums may differ by
// rounding.
func Entropy(logits, rows *Node) *Node {
	if logits.Rank() != 2 || !logits.DType().IsFloat() {
		panic(fmt.Errorf("sampling.Entropy: logits must be float [rows, vocabulary], got %s", logits.Shape()))
	}
	switch logits.DType() {
	case dtypes.Float32, dtypes.BFloat16, dtypes.Float16:
	default:
		logits = ConvertDType(logits, dtypes.Float32)
	}
	result := []shapes.Shape{shapes.Make(dtypes.Float32, logits.Shape().Dimensions[0])}
	return control.Composite("entropy", struct{}{}, []*Node{logits, rows}, result, func(in []*Node) []*Node {
		return []*Node{entropyPlain(in[0])}
	})[0]
}

func entropyPlain(logits *Node) *Node {
	v := newVocabulary(logits)
	x := Max(Sub(v.logits, wide(v.max)), v.float32(-104)) // whose exponential is 0: there e * x is 0, as at -Inf
	sum := v.rawSum()
	weighted := ReduceSum(ReduceSum(Mul(Exp(x), x), -1), -1)
	entropy := Max(Sub(Log(sum), Div(weighted, sum)), v.float32(0))
	nan := BroadcastToDims(v.float32(math.NaN()), v.rows)
	return Where(GreaterThan(sum, v.float32(0)), entropy, nan)
}
