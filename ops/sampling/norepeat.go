package sampling

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// NoRepeat forbids repetitions in n rows: tokens that would complete a sequence of Size tokens that a row already has.
type NoRepeat struct {
	Size   *Node // i32[n]; 0 is off
	Tokens *Node // i32[n, H]: tokens of prompt and completion, by position; arbitrary from Lens on
	Lens   *Node // i32[n]
}

// isOn reports for each row whether it forbids repetitions, bool[n].
func (r NoRepeat) isOn() *Node { return GreaterThan(r.Size, ZerosLike(r.Size)) }

// forbid returns the logits f32[n, V] with -Inf for the forbidden tokens. A forced token, see Processors.Forced, is not
// forbidden; forced may be nil. Other rows keep their logits, bit for bit. NaN and infinities stay, so that
// such a row has no distribution.
//
// It is transformers' NoRepeatNGramLogitsProcessor.
func (r NoRepeat) forbid(logits, forced *Node) *Node {
	g := logits.Graph()
	n, size, h := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1], r.Tokens.Shape().Dimensions[1]
	number := func(x int) *Node { return Scalar(g, dtypes.Int32, x) }
	all := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), n, h) }
	if forced != nil {
		r.Size = Where(isForced(forced), ZerosLike(r.Size), r.Size)
	}

	// Find the tokens that end a sequence whose other tokens are the last ones of the row. Round k compares the
	// tokens k places earlier.
	type comparing struct {
		Back   *Node // i32[]: k
		Before *Node // i32[n, H]: the token k-1 places before each; -1 if there is none
		Ends   *Node // bool[n, H]
	}
	row := MulScalar(Iota(g, int32Vector(n), 0), float64(h))
	place := Iota(g, shapes.Make(dtypes.Int32, n, h), 1)
	ends := And(LessThan(place, all(r.Lens)), GreaterOrEqual(AddScalar(place, 1), all(r.Size)))
	// A row with fewer tokens than its size has no such sequence, and must not add iterations for the others.
	most := ReduceAllMax(Where(LessOrEqual(r.Size, r.Lens), r.Size, ZerosLike(r.Size)))
	ends = control.While(comparing{number(1), r.Tokens, And(ends, all(r.isOn()))},
		func(c comparing) *Node { return And(LessThan(c.Back, most), ReduceLogicalOr(c.Ends)) },
		func(c comparing) comparing {
			none := FillScalar(g, shapes.Make(dtypes.Int32, n, 1), -1)
			before := Concatenate([]*Node{none, SliceAxis(c.Before, 1, AxisRange(0, h-1))}, 1)
			position := Sub(r.Lens, c.Back)
			last := Gather(Reshape(r.Tokens, n*h), InsertAxes(Add(row, Max(position, ZerosLike(position))), -1))
			isOther := NotEqual(before, all(last))
			isOther = And(isOther, all(LessThan(BroadcastToDims(c.Back, n), r.Size)))
			return comparing{AddScalar(c.Back, 1), before, And(c.Ends, Not(isOther))}
		}).Ends

	token := Add(MulScalar(Iota(g, shapes.Make(dtypes.Int32, n, h), 0), float64(size)), r.Tokens)
	token = Reshape(Where(ends, token, ZerosLike(token)), n*h)
	counts := ScatterSum(Zeros(g, shapes.Make(dtypes.Int32, n*size)), InsertAxes(token, -1),
		Reshape(ConvertDType(ends, dtypes.Int32), n*h), false, false)
	forbidden := GreaterThan(Reshape(counts, n, size), number(0))
	isNumber := LessThan(logits, Scalar(g, dtypes.Float32, math.Inf(1)))
	return Where(And(forbidden, isNumber), FillScalar(g, logits.Shape(), math.Inf(-1)), logits)
}
