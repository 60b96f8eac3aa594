package feature

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models/decoder"
)

// Notes are what programs note of the layers, of tokens: i32[N, W] each, see [schedule.OutputOf]. nil if they do not.
type Notes struct{ Experts, Hidden *Node }

// NoNotes are zeros, for as many tokens as dims.
func (z Sizes) NoNotes(g *Graph, dims ...int) (none Notes) {
	each := func(width int) *Node {
		if width == 0 {
			return nil
		}
		return zeros(g, dtypes.Int32, append(dims[:len(dims):len(dims)], width)...)
	}
	return Notes{each((z.Routes + 1) / 2), each(z.Hidden.Bytes() / 4)}
}

// Wanted is what is to be noted of the layers; nil for nothing.
func (z Sizes) Wanted() *decoder.Notes {
	if z.Routes == 0 && len(z.Hidden.Layers) == 0 {
		return nil
	}
	return &decoder.Notes{Experts: z.Routes > 0, States: z.Hidden.Layers}
}

// Pack packs what was noted as the output has it.
func (z Sizes) Pack(noted decoder.Noted) (packed Notes) {
	if noted.Experts != nil {
		packed.Experts = z.packExperts(noted.Experts)
	}
	if noted.States != nil {
		packed.Hidden = z.Hidden.pack(noted.States)
	}
	return packed
}

// packExperts packs the experts of tokens, i32[N, Routes], two into a number.
func (z Sizes) packExperts(experts *Node) *Node {
	n := experts.Shape().Dimensions[0]
	if z.Routes%2 > 0 {
		none := FillScalar(experts.Graph(), shapes.Make(dtypes.Int32, n, 1), schedule.NoExpert)
		experts = Concatenate([]*Node{experts, none}, 1)
	}
	pairs := Reshape(experts, n, (z.Routes+1)/2, 2)
	half := func(i int) *Node { return Reshape(SliceAxis(pairs, 2, AxisRange(i, i+1)), n, (z.Routes+1)/2) }
	return Add(half(0), MulScalar(half(1), 1<<16))
}
