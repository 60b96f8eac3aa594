package recurrence

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// ShortConv convolves each channel over the last few tokens, between two gates. in is [T, 3*C] of any float dtype: a
// first gate, a second gate and inputs, C channels each. The inputs times the first gate are convolved with taps [C,
// K] of in's dtype, the last of which applies to the token itself; the result [T, C] is that times the second gate.
// The products are rounded to in's dtype, sums are in float32.
//
// A state has the previous K-1 products, [K-1, C], oldest first.
func ShortConv(in, taps, cache *Node, rows Rows) (out, after *Node) {
	channels := taps.Shape().Dimensions[0]
	inputs := append([]*Node{in, taps, cache}, rows.in()...)
	results := []shapes.Shape{shapes.Make(in.DType(), in.Shape().Dimensions[0], channels), cache.Shape()}
	both := control.Composite("short_conv", struct{}{}, inputs, results, func(in []*Node) []*Node {
		return shortConvPlain(in[0], in[1], in[2], ofInputs(in[3:]))
	})
	return both[0], both[1]
}

func shortConvPlain(in, taps, cache *Node, rows Rows) []*Node {
	channels := taps.Shape().Dimensions[0]
	part := func(i int) *Node { return SliceAxis(in, 1, AxisRange(i*channels, (i+1)*channels)) }
	sum, kept := rows.sum(ConvertDType(Mul(part(0), part(2)), dtypes.Float32), taps, rows.begin(cache))
	return []*Node{Mul(part(1), ConvertDType(sum, in.DType())), control.ScatterSet(cache, rows.To, kept)}
}

// convolve convolves inputs f32[T, C] with taps [C, K], adds a bias f32[C] if it is not nil, and applies SiLU. Both
// results are rounded to dtype, but returned as float32. kept are the numbers of each token's state, [T, (K-1)*C].
// The states of the sequences before the step are the first numbers of begins, [B, ...].
func (r Rows) convolve(x, taps, bias, begins *Node, dtype dtypes.DType) (y, kept *Node) {
	rounded := func(x *Node) *Node { return ConvertDType(ConvertDType(x, dtype), dtypes.Float32) }
	y, kept = r.sum(x, taps, begins)
	if bias != nil {
		y = Add(y, BroadcastToDims(InsertAxes(bias, 0), y.Shape().Dimensions...))
	}
	y = rounded(y)
	return rounded(Mul(y, Sigmoid(y))), kept
}

// sum computes only the convolution.
func (r Rows) sum(x, taps, begins *Node) (sum, kept *Node) {
	channels, k := taps.Shape().Dimensions[0], taps.Shape().Dimensions[1]
	before := take(SliceAxis(begins, 1, AxisRangeFromStart((k-1)*channels)), r.Seqs)
	window := r.window(x, before, k)
	taps = ConvertDType(taps, dtypes.Float32)
	sum = ZerosLike(x)
	for i, was := range window {
		tap := Reshape(SliceAxis(taps, 1, AxisElem(i)), 1, channels)
		sum = Add(sum, Mul(was, BroadcastToDims(tap, x.Shape().Dimensions...)))
	}
	if kept = window[1]; k > 2 {
		kept = Concatenate(window[1:], 1)
	}
	return sum, kept
}

// window returns the k numbers [T, C] that each token sees of its sequence, oldest first; the last is its own, x.
// states [T, ...] start with the k-1 before the step.
func (r Rows) window(x, states *Node, k int) []*Node {
	g := x.Graph()
	t, channels := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	back := r.back()
	window := make([]*Node, k)
	window[k-1] = x
	for j := 1; j < k; j++ {
		// The number j tokens before: from the step if it has so many, else from the state.
		was := Zeros(g, shapes.Make(x.DType(), min(j, t), channels))
		if j < t {
			was = Concatenate([]*Node{was, SliceAxis(x, 0, AxisRangeFromStart(t-j))}, 0)
		}
		for m := range j {
			start := (k - 1 - (j - m)) * channels
			isBack := BroadcastToDims(InsertAxes(Equal(back, scalar(g, m)), -1), t, channels)
			was = Where(isBack, SliceAxis(states, 1, AxisRange(start, start+channels)), was)
		}
		window[k-1-j] = was
	}
	return window
}
