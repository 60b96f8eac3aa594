package feature

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
)

// NoExperts are zeros, the experts of as many tokens as dims; nil if they are not reported.
func (z Sizes) NoExperts(g *Graph, dims ...int) *Node {
	if z.Routes == 0 {
		return nil
	}
	return zeros(g, dtypes.Int32, append(dims[:len(dims):len(dims)], (z.Routes+1)/2)...)
}

// PackExperts packs the experts of tokens, i32[N, Routes], two into a number: i32[N, W], see [schedule.OutputOf].
func (z Sizes) PackExperts(experts *Node) *Node {
	n := experts.Shape().Dimensions[0]
	if z.Routes%2 > 0 {
		none := FillScalar(experts.Graph(), shapes.Make(dtypes.Int32, n, 1), schedule.NoExpert)
		experts = Concatenate([]*Node{experts, none}, 1)
	}
	pairs := Reshape(experts, n, (z.Routes+1)/2, 2)
	half := func(i int) *Node { return Reshape(SliceAxis(pairs, 2, AxisRange(i, i+1)), n, (z.Routes+1)/2) }
	return Add(half(0), MulScalar(half(1), 1<<16))
}
