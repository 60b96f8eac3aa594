package recurrence

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/control"
)

// DeltaWeights are the weights of a gated delta net, except its matrices.
type DeltaWeights struct {
	Taps  *Node // [C, K]: the convolution's, of queries, keys and values, C channels in all
	Decay *Node // f32[VH]: the logarithm of a head's rate of decay
	Bias  *Node // f32[VH]: the bias of a head's step
	Norm  *Node // f32[VD]: the weight of a head's norm
}

// GatedDelta computes a gated delta net. in is [T, ...] of any float dtype: queries and keys (KH heads of KD each),
// values and gates (VH heads of VD each), then for each value head one number for the rate at which it learns, and
// one for its step. The result is [T, VH*VD].
//
// Queries, keys and values are convolved as in [ShortConv], without gates but with SiLU. Queries and keys are
// normalized to length 1, and queries are divided by sqrt(KD). A value head keeps a matrix f32[KD, VD] that maps keys
// to values. For each token the matrix is multiplied by exp(-exp(decay) * softplus(step + bias)). Then the value that
// it returns for the token's key is moved towards the token's value, by the sigmoid of the rate. Then the query is
// applied to it. The result is normalized and multiplied by SiLU of the gate.
//
// A state has the previous K-1 inputs of the convolution, [K-1, C], oldest first, and then the matrices [VH, KD, VD].
func GatedDelta(in *Node, w DeltaWeights, cache *Node, rows Rows, d arch.DeltaNet, eps float64) (out, after *Node) {
	inputs := append([]*Node{in, w.Taps, w.Decay, w.Bias, w.Norm, cache}, rows.in()...)
	results := []shapes.Shape{shapes.Make(in.DType(), in.Shape().Dimensions[0], d.Values()), cache.Shape()}
	attrs := map[string]any{"key_heads": d.KeyHeads, "value_heads": d.ValueHeads, "key_dim": d.KeyDim,
		"value_dim": d.ValueDim, "eps": eps}
	both := control.Composite("gated_delta", attrs, inputs, results, func(in []*Node) []*Node {
		w := DeltaWeights{Taps: in[1], Decay: in[2], Bias: in[3], Norm: in[4]}
		return deltaPlain(in[0], w, in[5], ofInputs(in[6:]), d, eps)
	})
	return both[0], both[1]
}

// deltaPlain convolves all tokens, and then processes the tokens of each sequence one by one.
func deltaPlain(in *Node, w DeltaWeights, cache *Node, rows Rows, d arch.DeltaNet, eps float64) []*Node {
	dtype, tokens := in.DType(), in.Shape().Dimensions[0]
	offset := 0
	next := func(n int) *Node {
		offset += n
		return ConvertDType(SliceAxis(in, 1, AxisRange(offset-n, offset)), dtypes.Float32)
	}
	rounded := func(x *Node) *Node { return ConvertDType(ConvertDType(x, dtype), dtypes.Float32) }

	begins := rows.begin(cache)
	x, kept := rows.convolve(next(d.Channels()), w.Taps, nil, begins, dtype)
	keys := d.KeyHeads * d.KeyDim
	heads := func(from, heads, dim int) *Node {
		return Reshape(SliceAxis(x, 1, AxisRange(from, from+heads*dim)), tokens, heads, dim)
	}
	unit := func(y *Node, scale float64) *Node { // [T, VH, KD], normalized to length scale
		by := MulScalar(Rsqrt(AddScalar(ReduceAndKeep(Square(y), ReduceSum, 2), 1e-6)), scale)
		y = Mul(y, BroadcastToDims(by, y.Shape().Dimensions...))
		y = BroadcastToDims(InsertAxes(y, 2), tokens, d.KeyHeads, d.ValueHeads/d.KeyHeads, d.KeyDim)
		return Reshape(y, tokens, d.ValueHeads, d.KeyDim)
	}
	q := unit(heads(0, d.KeyHeads, d.KeyDim), 1/math.Sqrt(float64(d.KeyDim)))
	k := unit(heads(keys, d.KeyHeads, d.KeyDim), 1)
	v := heads(2*keys, d.ValueHeads, d.ValueDim)
	gate := next(d.Values())
	learns := rounded(Sigmoid(next(d.ValueHeads)))
	all := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, 0), tokens, d.ValueHeads) } // for all tokens
	keeps := Exp(Neg(Mul(all(Exp(w.Decay)), softplus(Add(next(d.ValueHeads), all(w.Bias))))))

	past := (w.Taps.Shape().Dimensions[1] - 1) * d.Channels()
	y, after := rows.eachToken(cache, SliceAxis(begins, 1, AxisRange(past)), []*Node{q, k, v, learns, keeps}, kept,
		d.Values(), func(in []*Node, matrices *Node) (out, after *Node) {
			return deltaToken(in[0], in[1], in[2], in[3], in[4], matrices)
		})
	y = Reshape(rounded(y), v.Shape().Dimensions...)
	inverse := Rsqrt(AddScalar(ReduceAndKeep(Square(y), ReduceMean, 2), eps))
	y = rounded(Mul(y, BroadcastToDims(inverse, y.Shape().Dimensions...)))
	y = rounded(Mul(y, BroadcastToDims(InsertAxes(w.Norm, 0, 0), y.Shape().Dimensions...)))
	y = Mul(Reshape(y, gate.Shape().Dimensions...), Mul(gate, Sigmoid(gate)))
	return []*Node{ConvertDType(y, dtype), after}
}

// deltaToken processes one token of each of B sequences: queries and keys are [B, VH, KD], values [B, VH, VD], the
// rates at which heads learn and keep [B, VH].
func deltaToken(q, k, v, learns, keeps, matrices *Node) (out, after *Node) {
	dims := v.Shape().Dimensions
	all := []int{dims[0], dims[1], k.Shape().Dimensions[2], dims[2]}
	column := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, 3), all...) } // broadcasts along KD
	line := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, 2), all...) }   // broadcasts along VD
	matrix := Mul(Reshape(matrices, all...), BroadcastToDims(InsertAxes(keeps, 2, 3), all...))
	learns = BroadcastToDims(InsertAxes(learns, 2), dims...)
	delta := Mul(Sub(v, ReduceSum(Mul(matrix, column(k)), 2)), learns)
	matrix = Add(matrix, Mul(column(k), line(delta)))
	read := ReduceSum(Mul(matrix, column(q)), 2)
	return Reshape(read, dims[0], -1), Reshape(matrix, dims[0], -1)
}

// softplus returns log(1 + exp(x)).
func softplus(x *Node) *Node { return Add(Max(x, ZerosLike(x)), Log1P(Exp(Neg(Abs(x))))) }
