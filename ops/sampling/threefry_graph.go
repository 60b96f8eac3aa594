package sampling

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// threefryGraph is [Threefry] elementwise on u32 nodes of one shape.
func threefryGraph(k0, k1, c0, c1 *Node) (x0, x1 *Node) {
	g := k0.Graph()
	word := func(v uint32) *Node { return Scalar(g, dtypes.Uint32, v) }
	k2 := BitwiseXor(BitwiseXor(k0, k1), word(threefryParity))
	schedule := [3]*Node{k0, k1, k2}
	x0, x1 = Add(c0, k0), Add(c1, k1)
	for round := range 20 {
		x0 = Add(x0, x1)
		r := uint32(threefryRotations[round%8])
		rotated := BitwiseOr(BitwiseShiftLeft(x1, word(r)), BitwiseShiftRightLogical(x1, word(32-r)))
		x1 = BitwiseXor(rotated, x0)
		if round%4 == 3 {
			s := round/4 + 1
			x0 = Add(x0, schedule[s%3])
			x1 = Add(Add(x1, schedule[(s+1)%3]), word(uint32(s)))
		}
	}
	return x0, x1
}
