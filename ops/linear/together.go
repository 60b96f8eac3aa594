package linear

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend"
)

// togetherNumbers is how many results of a layer [Experts.together] holds at most, in float32.
const togetherNumbers = 64 << 20

// isTogether reports whether few rows go to so many experts that it is best to read all of them at once.
func (e Experts) isTogether(r Routes) bool {
	t, k := r.Experts.Shape().Dimensions[0], r.Experts.Shape().Dimensions[1]
	if e.Up.Blocks.Is() || e.Down.Blocks.Is() || !fitTogether(t, k, e.count(), max(e.Up.Out, e.Up.In)) {
		return false
	}
	traits := backend.Of(r.Experts.Graph().Backend())
	return traits.ReadsExpertsTogether && (!traits.CopiesSlices || len(e.Up.At) == 0)
}

// fitTogether is isTogether of t rows that go to k of so many experts each, by the wider of their layers.
func fitTogether(t, k, experts, width int) bool {
	return 2*t*k >= experts && t*experts*width <= togetherNumbers
}

// ExpertNumbers is how many float32 [Experts.Apply] holds at most on a TPU or a GPU in addition to its results, for t
// rows that go to k of so many experts each, with hidden and inner activations. If each row goes through all experts,
// these are the results of the first layer, the activations after it, and the results of the second layer.
func ExpertNumbers(t, k, experts, hidden, inner int) int {
	if saveInTiles(t, k, experts) || !fitTogether(t, k, experts, max(hidden, 2*inner)) {
		return 0
	}
	return t * experts * (inner + max(hidden, 2*inner))
}

// together is the sum f32[T, In] of share * Down(Up(x)) over the experts of each row, as two products of all rows and
// all experts. Inner rows of experts that a row does not go to are zeros; the others are multiplied by their shares
// before they are rounded.
func (e Experts) together(x *Node, r Routes, wanted *Node) *Node {
	up, down := e.Up.cut(), e.Down.cut()
	shares := e.byExpert(r, wanted)
	y := up.products(x)
	if e.UpBias != nil {
		y = Add(y, BroadcastToDims(InsertAxes(ConvertDType(e.UpBias, dtypes.Float32), 0), y.Shape().Dimensions...))
	}
	if up.GateUp {
		y = e.Activation.pair(SliceAxis(y, 2, AxisRange(0, up.Out/2)), SliceAxis(y, 2, AxisRange(up.Out/2)))
	} else {
		y = e.Activation.plain(y)
	}
	y = ConvertDType(shareOf(y, BroadcastToDims(InsertAxes(shares, -1), y.Shape().Dimensions...)), x.DType())
	sum := down.sumOf(y)
	if e.DownBias != nil {
		shares = shareOf(OnesLike(shares), shares)
		sum = Add(sum, dot(shares, ConvertDType(e.DownBias, dtypes.Float32), []int{1}, []int{0}))
	}
	return sum
}

// products are what the matrices [E, Out, In] make of rows x [T, In], each of all: f32[T, E, Out].
func (w Weight) products(x *Node) *Node {
	if w.DType != dtypes.Int8 {
		return dot(w.wide(x), w.Data, []int{1}, []int{2})
	}
	rounded, scale := toBytes(w.wide(x))
	y := ConvertDType(Dot(rounded, ConvertDType(w.Data, rounded.DType())).WithOutputDType(dtypes.Int32).General(
		[]int{1}, nil, []int{2}, nil), dtypes.Float32)
	all := y.Shape().Dimensions
	y = Mul(y, BroadcastToDims(InsertAxes(scale, -1), all...))
	return Mul(y, BroadcastToDims(InsertAxes(w.Scales, 0), all...))
}

// sumOf is the sum of what the matrices [E, Out, In] make of rows x [T, E, In] each: f32[T, Out]. A TPU adds up over
// experts within the product of floats; XLA for GPUs would turn the matrices around for that.
func (w Weight) sumOf(x *Node) *Node {
	x = w.wide(x)
	if w.DType != dtypes.Int8 && backend.Of(x.Graph().Backend()).SumsOverAxes {
		return dot(x, w.Data, []int{1, 2}, []int{0, 2})
	}
	each := func(x *Node, result dtypes.DType) *Node { // [E, T, Out]
		return Dot(x, ConvertDType(w.Data, x.DType())).WithOutputDType(result).General([]int{2}, []int{1}, []int{2},
			[]int{0})
	}
	if w.DType != dtypes.Int8 {
		return ReduceSum(each(x, dtypes.Float32), 0)
	}
	rounded, scale := toBytes(x)
	y := ConvertDType(each(rounded, dtypes.Int32), dtypes.Float32)
	all := y.Shape().Dimensions
	y = Mul(y, BroadcastToDims(TransposeAllAxes(scale, 1, 0, 2), all...))
	return ReduceSum(Mul(y, BroadcastToDims(InsertAxes(w.Scales, 1), all...)), 0)
}

// dot is a product of x and m in float32.
func dot(x, m *Node, ofX, ofM []int) *Node {
	return Dot(x, ConvertDType(m, x.DType())).WithOutputDType(dtypes.Float32).General(ofX, nil, ofM, nil)
}
