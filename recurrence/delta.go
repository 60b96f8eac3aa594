package recurrence

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/models/arch"
)

// DeltaWeights are those of a gated delta net, beside its matrices.
type DeltaWeights struct {
	Taps  *Node // [C, K] of the convolution of queries, keys and values, C channels in all
	Decay *Node // f32[VH]: the logarithm of how fast a head forgets
	Bias  *Node // f32[VH]: of its step
	Norm  *Node // f32[VD]: of the norm of a head
}

// GatedDelta is a gated delta net. in is [T, ...] of any float dtype, with the numbers of queries and keys (KH heads of
// KD each), of values and of gates (VH heads of VD each), then one of each value head for how much it learns, and one
// for its step. The result is [T, VH*VD].
//
// Queries, keys and values are convolved as in [ShortConv], without gates but with SiLU. Queries and keys have length
// 1, and queries are divided by sqrt(KD). A value head keeps a matrix f32[KD, VD], which reads values by keys. For each
// token the matrix is multiplied by exp(-exp(decay) * softplus(step + bias)); then what it reads by the token's key
// moves to the token's value, by the sigmoid of how much it learns; then it is read by the query. The result is
// normalized and multiplied by SiLU of the gate.
//
// A state is the K-1 inputs of the convolution before, [K-1, C], oldest first; then the matrices [VH, KD, VD].
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

// deltaPlain goes through the tokens of all sequences one by one, so that a token's result does not depend on how a
// prompt was cut.
func deltaPlain(in *Node, w DeltaWeights, cache *Node, rows Rows, d arch.DeltaNet, eps float64) []*Node {
	g, dims := in.Graph(), cache.Shape().Dimensions
	tokens, numbers := in.Shape().Dimensions[0], dims[3]
	total := take(rows.CuQLens, rows.NumSeqs)
	type scan struct{ At, State, Cache, Out *Node }
	end := control.While(
		scan{zero(g), Zeros(g, shapes.Make(dtypes.Float32, numbers)), Reshape(cache, dims[0], numbers),
			Zeros(g, shapes.Make(in.DType(), tokens, d.Values()))},
		func(s scan) *Node { return LessThan(s.At, total) },
		func(s scan) scan {
			put := func(x, at, values *Node) *Node {
				return control.ScatterSet(x, Reshape(at, 1), InsertAxes(values, 0))
			}
			seq := take(rows.Seqs, s.At)
			from := take(rows.From, seq)
			begins := Equal(take(rows.CuQLens, seq), s.At)
			was := take(s.Cache, from)
			was = whereAll(GreaterOrEqual(from, zero(g)), was, ZerosLike(was))
			out, state := deltaToken(take(in, s.At), whereAll(begins, was, s.State), w, d, eps)
			return scan{AddScalar(s.At, 1), state, put(s.Cache, take(rows.To, s.At), state), put(s.Out, s.At, out)}
		})
	return []*Node{end.Out, Reshape(end.Cache, dims...)}
}

// deltaToken is what comes of one token.
func deltaToken(in, state *Node, w DeltaWeights, d arch.DeltaNet, eps float64) (out, after *Node) {
	dtype, channels, taps := in.DType(), d.Channels(), w.Taps.Shape().Dimensions[1]
	at := 0
	next := func(n int) *Node {
		at += n
		return SliceAxis(in, 0, AxisRange(at-n, at))
	}
	wide := func(x *Node) *Node { return ConvertDType(x, dtypes.Float32) }
	rounded := func(x *Node) *Node { return wide(ConvertDType(x, dtype)) }

	past := (taps - 1) * channels
	window := Concatenate([]*Node{SliceAxis(state, 0, AxisRangeFromStart(past)), wide(next(channels))}, 0)
	conv := Mul(Reshape(window, taps, channels), TransposeAllAxes(wide(w.Taps), 1, 0))
	x := rounded(ReduceSum(conv, 0))
	x = rounded(Mul(x, Sigmoid(x)))
	heads := func(from, heads, dim int) *Node {
		return Reshape(SliceAxis(x, 0, AxisRange(from, from+heads*dim)), heads, dim)
	}
	keys := d.KeyHeads * d.KeyDim
	group := d.ValueHeads / d.KeyHeads
	unit := func(y *Node, scale float64) *Node { // [VH, KD], of length scale
		by := MulScalar(Rsqrt(AddScalar(ReduceAndKeep(Square(y), ReduceSum, 1), 1e-6)), scale)
		y = Mul(y, BroadcastToDims(by, y.Shape().Dimensions...))
		y = BroadcastToDims(InsertAxes(y, 1), d.KeyHeads, group, d.KeyDim)
		return Reshape(y, d.ValueHeads, d.KeyDim)
	}
	q := unit(heads(0, d.KeyHeads, d.KeyDim), 1/math.Sqrt(float64(d.KeyDim)))
	k := unit(heads(keys, d.KeyHeads, d.KeyDim), 1)
	v := heads(2*keys, d.ValueHeads, d.ValueDim)
	gate := Reshape(wide(next(d.Values())), d.ValueHeads, d.ValueDim)
	learns := rounded(Sigmoid(wide(next(d.ValueHeads))))
	step := Add(wide(next(d.ValueHeads)), w.Bias)
	softplus := Add(Max(step, ZerosLike(step)), Log1P(Exp(Neg(Abs(step)))))
	keeps := Exp(Neg(Mul(Exp(w.Decay), softplus)))

	matrix := Reshape(SliceAxis(state, 0, AxisRange(past)), d.ValueHeads, d.KeyDim, d.ValueDim)
	all := matrix.Shape().Dimensions
	column := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, 2), all...) } // of KD
	line := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, 1), all...) }   // of VD
	matrix = Mul(matrix, BroadcastToDims(InsertAxes(keeps, 1, 1), all...))
	learns = BroadcastToDims(InsertAxes(learns, 1), v.Shape().Dimensions...)
	delta := Mul(Sub(v, ReduceSum(Mul(matrix, column(k)), 1)), learns)
	matrix = Add(matrix, Mul(column(k), line(delta)))
	y := rounded(ReduceSum(Mul(matrix, column(q)), 1))

	inverse := Rsqrt(AddScalar(ReduceAndKeep(Square(y), ReduceMean, 1), eps))
	y = rounded(Mul(y, BroadcastToDims(inverse, y.Shape().Dimensions...)))
	y = rounded(Mul(y, BroadcastToDims(InsertAxes(w.Norm, 0), y.Shape().Dimensions...)))
	y = Mul(y, Mul(gate, Sigmoid(gate)))
	after = Concatenate([]*Node{SliceAxis(window, 0, AxisRange(channels)), Reshape(matrix, -1)}, 0)
	return ConvertDType(Reshape(y, -1), dtype), after
}

// whereAll picks one of two arrays by a condition, bool[].
func whereAll(condition, then, otherwise *Node) *Node {
	return Where(BroadcastToDims(condition, then.Shape().Dimensions...), then, otherwise)
}
