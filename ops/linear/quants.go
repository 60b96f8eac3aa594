package linear

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// packQuants packs a row of the first plane of a matrix in blocks.
func packQuants(to, quants []uint8, bits int) {
	if bits == 8 {
		copy(to, quants)
		return
	}
	half := len(quants) / 2
	for i, q := range quants {
		to[i%half] |= q & 15 << (i / half * 4)
	}
	above := bits - 4
	part := len(quants) * above / 8 // numbers whose bits lie at one place of their bytes
	for i, q := range quants {
		if above > 0 {
			to[half+i%part] |= q >> 4 << (i / part * above)
		}
	}
}

// unpackQuants undoes packQuants.
func unpackQuants(data *Node, in, bits int) *Node {
	if bits == 8 {
		return data
	}
	low := SliceAxis(data, 1, AxisRange(0, in/2))
	quants := Concatenate([]*Node{bitsOf(low, 0, 15), bitsOf(low, 4, 15)}, 1)
	if bits == 4 {
		return quants
	}
	above, high := bits-4, SliceAxis(data, 1, AxisRange(in/2))
	var parts []*Node
	for bit := 0; bit < 8; bit += above {
		parts = append(parts, bitsOf(high, bit, 1<<above-1))
	}
	return Add(quants, MulScalar(Concatenate(parts, 1), 16))
}

// bitsOf are some bits of each byte.
func bitsOf(x *Node, shift int, mask uint8) *Node {
	if shift > 0 {
		x = BitwiseShiftRightLogicalScalar(x, uint8(shift))
	}
	return BitwiseAnd(x, BroadcastToDims(Scalar(x.Graph(), dtypes.Uint8, float64(mask)), x.Shape().Dimensions...))
}
