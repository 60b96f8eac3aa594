package sampling

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Masks restrict which tokens rows may sample. The zero value forbids none.
type Masks struct {
	// Bits u32[M, MaskWords(V)] are M masks: bit t%32 of word t/32 is set if token t is allowed.
	Bits *Node
	// Of i32[S, L] are the masks of each row: a token is allowed if all of them allow it. A number that is not a
	// mask's stands for none.
	Of *Node
}

// MaskWords returns the number of words of a mask for a vocabulary.
func MaskWords(vocabulary int) int { return (vocabulary + 31) / 32 }

// NoMask stands for no mask in [Masks].
const NoMask = -1

// SampleMasked is [Sample] with masks: rows may sample only the tokens that their masks allow.
//
// A row samples as if the logits of other tokens were -Inf, and its processed log-probabilities are computed
// likewise. Its logprobs are computed from all of its logits. A row whose masks have no token in common has no
// distribution. Rows without masks sample as by [Sample], bit for bit.
func SampleMasked(logits *Node, m Masks, p Params, positions, rows *Node) (tokens, logprobs, processed *Node) {
	return sampleFiltered(logits, m, nil, p, positions, rows)
}

// sampleFiltered is [SampleMasked] for rows with filters; f may be nil.
func sampleFiltered(logits *Node, m Masks, f *Filters, p Params, positions, rows *Node) (tokens, logprobs,
	processed *Node) {
	checkShapes(logits, p, positions, rows)
	if m.Bits == nil {
		return sample(logits, m, f, p, positions, rows)
	}
	size := logits.Shape().Dimensions[0]
	words := MaskWords(logits.Shape().Dimensions[1])
	if s := m.Bits.Shape(); s.Rank() != 2 || s.DType != dtypes.Uint32 || s.Dimensions[1] != words {
		panic(fmt.Errorf("sampling.SampleMasked: masks must be u32[masks, %d] for logits %s, got %s", words,
			logits.Shape(), s))
	}
	if s := m.Of.Shape(); s.Rank() != 2 || s.DType != dtypes.Int32 || s.Dimensions[0] != size {
		panic(fmt.Errorf("sampling.SampleMasked: the masks of rows must be i32[%d, masks], got %s", size, s))
	}
	return sample(logits, m, f, p, positions, rows)
}

// through returns the logits with -Inf for the tokens that the masks forbid.
func (m Masks) through(logits *Node) *Node {
	if m.Bits == nil {
		return logits
	}
	g := logits.Graph()
	rows, vocabulary := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	all := m.All()
	words := all.Shape().Dimensions[1]
	wide := BroadcastToDims(InsertAxes(all, -1), rows, words, 32)
	bit := BitwiseAnd(BitwiseShiftRightLogical(wide, Iota(g, wide.Shape(), 2)), OnesLike(wide))
	allowed := Reshape(NotEqual(bit, ZerosLike(bit)), rows, words*32)
	allowed = SliceAxis(allowed, 1, AxisRangeFromStart(vocabulary))
	return Where(allowed, logits, FillScalar(g, shapes.Make(logits.DType(), rows, vocabulary), math.Inf(-1)))
}

// All returns the masks of each row combined, u32[S, words]: all bits are set for a row without masks.
func (m Masks) All() *Node {
	g := m.Bits.Graph()
	rows, lanes := m.Of.Shape().Dimensions[0], m.Of.Shape().Dimensions[1]
	masks, words := m.Bits.Shape().Dimensions[0], m.Bits.Shape().Dimensions[1]
	has := LogicalAnd(GreaterOrEqual(m.Of, ZerosLike(m.Of)), LessThan(m.Of, FillScalar(g, m.Of.Shape(),
		float64(masks))))
	each := Gather(m.Bits, InsertAxes(Where(has, m.Of, ZerosLike(m.Of)), -1)) // [rows, lanes, words]
	each = Where(BroadcastToDims(InsertAxes(has, -1), rows, lanes, words), each,
		BroadcastToDims(Scalar(g, dtypes.Uint32, uint32(math.MaxUint32)), rows, lanes, words))
	all := Squeeze(SliceAxis(each, 1, AxisElem(0)), 1)
	for lane := 1; lane < lanes; lane++ {
		all = BitwiseAnd(all, Squeeze(SliceAxis(each, 1, AxisElem(lane)), 1))
	}
	return all
}
