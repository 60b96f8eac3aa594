package recurrence

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/control"
)

// MambaWeights are the weights of a Mamba-2 layer, except its matrices and its norm.
type MambaWeights struct {
	Taps     *Node // [C, K]: the convolution's, C channels in all
	TapsBias *Node // f32[C]; nil: none
	Decay    *Node // f32[H]: the logarithm of a head's rate of decay
	Step     *Node // f32[H]: the bias of a head's steps
	Skip     *Node // f32[H]: the factor of the inputs that are added to the output
}

// Mamba2 computes a Mamba-2 layer up to its norm, for which see [GatedNorm]. in is [T, ...] of any float dtype: H*D
// numbers that only the norm reads; then the inputs of the convolution: the inputs of H heads of D each, N numbers of
// each group that write to states, and N of each that read them; then the step of each head. The result is [T, H*D].
//
// The convolution has a bias and is followed by SiLU; both results are rounded to in's dtype. A head keeps a matrix
// f32[N, D]. For each token its step becomes softplus(step + bias), within the layer's bounds. The matrix is
// multiplied by exp(-exp(decay) * step), and step * inputs, times the group's write number, is added to each of its
// rows. The result is the sum of the rows, each times the group's read number, plus the inputs times skip.
//
// A state has the previous K-1 inputs of the convolution, [K-1, C], oldest first, and then the matrices [H, N, D].
func Mamba2(in *Node, w MambaWeights, cache *Node, rows Rows, s arch.StateSpace) (out, after *Node) {
	g, tokens := in.Graph(), in.Shape().Dimensions[0]
	if w.TapsBias == nil {
		w.TapsBias = Zeros(g, shapes.Make(dtypes.Float32, s.Channels()))
	}
	inputs := append([]*Node{in, w.Taps, w.TapsBias, w.Decay, w.Step, w.Skip, cache}, rows.in()...)
	// The third result is scratch memory of the kernel for the convolution's results. Nothing reads it.
	results := []shapes.Shape{shapes.Make(in.DType(), tokens, s.Inner()), cache.Shape(),
		shapes.Make(in.DType(), tokens, s.Channels())}
	attrs := map[string]any{"heads": s.Heads, "head_dim": s.HeadDim, "groups": s.Groups, "state_dim": s.StateDim,
		"min_step": s.MinStep, "max_step": s.MaxStep}
	all := control.Composite("mamba2", attrs, inputs, results, func(in []*Node) []*Node {
		w := MambaWeights{Taps: in[1], TapsBias: in[2], Decay: in[3], Step: in[4], Skip: in[5]}
		return mambaPlain(in[0], w, in[6], ofInputs(in[7:]), s)
	})
	return all[0], all[1]
}

// mambaPlain convolves all tokens, and then processes the tokens of each sequence one by one.
func mambaPlain(in *Node, w MambaWeights, cache *Node, rows Rows, s arch.StateSpace) []*Node {
	tokens, channels := in.Shape().Dimensions[0], s.Channels()
	begins := rows.begin(cache)
	part := func(from, n int) *Node { return SliceAxis(in, 1, AxisRange(from, from+n)) }
	wide := func(x *Node) *Node { return ConvertDType(x, dtypes.Float32) }
	x, kept := rows.convolve(wide(part(s.Inner(), channels)), w.Taps, w.TapsBias, begins, in.DType())
	step := Add(wide(part(s.Inner()+channels, s.Heads)), BroadcastToDims(InsertAxes(w.Step, 0), tokens, s.Heads))
	step = MaxScalar(softplus(step), s.MinStep)
	if s.MaxStep > 0 {
		step = MinScalar(step, s.MaxStep)
	}
	keeps := Exp(Neg(Mul(step, BroadcastToDims(InsertAxes(Exp(w.Decay), 0), tokens, s.Heads))))
	matrices := SliceAxis(begins, 1, AxisRange(s.Past(w.Taps.Shape().Dimensions[1])))
	out, after := rows.eachToken(cache, matrices, []*Node{x, step, keeps}, kept, s.Inner(),
		func(in []*Node, matrices *Node) (out, after *Node) {
			return mambaToken(in[0], in[1], in[2], matrices, w.Skip, s)
		})
	return []*Node{ConvertDType(out, in.DType()), after, ConvertDType(x, in.DType())}
}

// mambaToken processes one token of each of B sequences.
func mambaToken(x, step, keeps, matrices, skip *Node, s arch.StateSpace) (out, after *Node) {
	b, inner := x.Shape().Dimensions[0], s.Inner()
	all := []int{b, s.Heads, s.StateDim, s.HeadDim}
	heads := Reshape(SliceAxis(x, 1, AxisRangeFromStart(inner)), b, s.Heads, s.HeadDim)
	group := func(from int) *Node { // a group's read or write numbers, broadcast to its heads' matrices
		y := Reshape(SliceAxis(x, 1, AxisRange(from, from+s.Groups*s.StateDim)), b, s.Groups, 1, s.StateDim, 1)
		y = BroadcastToDims(y, b, s.Groups, s.Heads/s.Groups, s.StateDim, s.HeadDim)
		return Reshape(y, all...)
	}
	ofHead := func(y *Node, dims ...int) *Node { // one number per head, broadcast to the whole head
		for y.Rank() < len(dims) {
			y = InsertAxes(y, -1)
		}
		return BroadcastToDims(y, dims...)
	}
	adds := BroadcastToDims(InsertAxes(Mul(heads, ofHead(step, b, s.Heads, s.HeadDim)), 2), all...)
	matrix := Add(Mul(Reshape(matrices, all...), ofHead(keeps, all...)), Mul(group(inner), adds))
	read := ReduceSum(Mul(matrix, group(inner+s.Groups*s.StateDim)), 2)
	skip = BroadcastToDims(Reshape(skip, 1, s.Heads, 1), b, s.Heads, s.HeadDim)
	return Reshape(Add(read, Mul(heads, skip)), b, inner), Reshape(matrix, b, -1)
}

// GatedNorm returns x [T, N] times SiLU of gate, normalized in groups of equal size, times weight f32[N]: each number
// of a group is divided by sqrt(mean(numbers^2) + eps). The result is rounded once. gate is the first N numbers of
// [T, ...], in x's dtype. rows, i32[], is the number of tokens that are wanted.
func GatedNorm(x, gate, weight, rows *Node, groups int, eps float64) *Node {
	attrs := map[string]any{"groups": groups, "eps": eps}
	inputs := []*Node{x, gate, weight, rows}
	return control.Composite("gated_norm", attrs, inputs, []shapes.Shape{x.Shape()}, func(in []*Node) []*Node {
		dims := x.Shape().Dimensions
		gate := ConvertDType(SliceAxis(in[1], 1, AxisRangeFromStart(dims[1])), dtypes.Float32)
		y := Mul(ConvertDType(in[0], dtypes.Float32), Mul(gate, Sigmoid(gate)))
		y = Reshape(y, dims[0], groups, dims[1]/groups)
		scale := Rsqrt(AddScalar(ReduceAndKeep(Square(y), ReduceMean, 2), eps))
		y = Reshape(Mul(y, BroadcastToDims(scale, y.Shape().Dimensions...)), dims...)
		y = Mul(y, BroadcastToDims(InsertAxes(in[2], 0), dims...))
		return []*Node{ConvertDType(y, x.DType())}
	})[0]
}
