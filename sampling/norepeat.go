package sampling

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
)

// NoRepeat bars repetitions in n rows: tokens that would end a sequence of Size tokens which a row has already.
type NoRepeat struct {
	Size   *Node // i32[n]; 0 is off
	Tokens *Node // i32[n, H]: of prompt and completion, by position; arbitrary from Lens on
	Lens   *Node // i32[n]
}

// isOn says which rows it is for, bool[n].
func (r NoRepeat) isOn() *Node { return GreaterThan(r.Size, ZerosLike(r.Size)) }

// bar returns the logits f32[n, V] with -Inf for the barred tokens. A forced token, see Processors.Forced, is not
// barred; forced may be nil. Rows that it is not for keep their logits, to the bit. What is no number stays, so that
// such a row has no distribution.
//
// It is transformers' NoRepeatNGramLogitsProcessor.
func (r NoRepeat) bar(logits, forced *Node) *Node {
	g := logits.Graph()
	n, size, h := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1], r.Tokens.Shape().Dimensions[1]
	number := func(x int) *Node { return Scalar(g, dtypes.Int32, x) }
	all := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), n, h) }
	if forced != nil {
		r.Size = Where(isForced(forced), ZerosLike(r.Size), r.Size)
	}

	// Which tokens end a sequence whose other tokens are the last ones of the row. Round k compares those that are k
	// places before.
	type comparing struct {
		Back   *Node // i32[]: k
		Before *Node // i32[n, H]: the token k-1 places before each; -1 where there is none
		Ends   *Node // bool[n, H]
	}
	row := MulScalar(Iota(g, int32Vector(n), 0), float64(h))
	place := Iota(g, shapes.Make(dtypes.Int32, n, h), 1)
	ends := And(LessThan(place, all(r.Lens)), GreaterOrEqual(AddScalar(place, 1), all(r.Size)))
	// A row with fewer tokens than its size has no such sequence, and is not to make rounds for the others.
	most := ReduceAllMax(Where(LessOrEqual(r.Size, r.Lens), r.Size, ZerosLike(r.Size)))
	ends = control.While(comparing{number(1), r.Tokens, And(ends, all(r.isOn()))},
		func(c comparing) *Node { return And(LessThan(c.Back, most), ReduceLogicalOr(c.Ends)) },
		func(c comparing) comparing {
			none := FillScalar(g, shapes.Make(dtypes.Int32, n, 1), -1)
			before := Concatenate([]*Node{none, SliceAxis(c.Before, 1, AxisRange(0, h-1))}, 1)
			at := Sub(r.Lens, c.Back)
			last := Gather(Reshape(r.Tokens, n*h), InsertAxes(Add(row, Max(at, ZerosLike(at))), -1))
			isOther := NotEqual(before, all(last))
			isOther = And(isOther, all(LessThan(BroadcastToDims(c.Back, n), r.Size)))
			return comparing{AddScalar(c.Back, 1), before, And(c.Ends, Not(isOther))}
		}).Ends

	token := Add(MulScalar(Iota(g, shapes.Make(dtypes.Int32, n, h), 0), float64(size)), r.Tokens)
	token = Reshape(Where(ends, token, ZerosLike(token)), n*h)
	counts := ScatterSum(Zeros(g, shapes.Make(dtypes.Int32, n*size)), InsertAxes(token, -1),
		Reshape(ConvertDType(ends, dtypes.Int32), n*h), false, false)
	barred := GreaterThan(Reshape(counts, n, size), number(0))
	isNumber := LessThan(logits, Scalar(g, dtypes.Float32, math.Inf(1)))
	return Where(And(barred, isNumber), FillScalar(g, logits.Shape(), math.Inf(-1)), logits)
}
