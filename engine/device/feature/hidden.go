package feature

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// HiddenStates are the hidden states that a program reports with each token.
type HiddenStates struct {
	Layers []int        // places among them: see [decoder.Notes]
	DType  dtypes.DType // Float32, BFloat16 or Float16
	Size   int          // of one
}

// Bytes is the size of a token's.
func (h HiddenStates) Bytes() int {
	if len(h.Layers) == 0 { // and so no type
		return 0
	}
	return len(h.Layers) * h.Size * int(h.DType.Memory())
}

// perNumber is how many numbers an i32 of the output has.
func (h HiddenStates) perNumber() int { return 4 / int(h.DType.Memory()) }

// pack packs hidden states [N, layers, size].
func (h HiddenStates) pack(x *Node) *Node {
	x = ConvertDType(x, h.DType)
	n, width := x.Shape().Dimensions[0], h.Bytes()/4
	if each := h.perNumber(); each > 1 {
		return Bitcast(Reshape(x, n, width, each), dtypes.Int32)
	}
	return Bitcast(Reshape(x, n, width), dtypes.Int32)
}
