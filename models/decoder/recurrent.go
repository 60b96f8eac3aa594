package decoder

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/linear"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/recurrence"
)

// shortConv adds a layer's short convolution of h to x. Where a group of devices runs the model, each computes all of
// it.
func (b body) shortConv(w Weights, at Layer, sequences recurrence.Rows, h, x *Node, state []*Node) (sum *Node,
	after []*Node) {
	o := linear.Options{Rows: b.rows}
	after = slices.Clone(state)
	var y *Node
	y, after[at.Number] = recurrence.ShortConv(apply(w, string(arch.ConvIn), false, h, o),
		w.get(string(arch.ConvTaps)+".weight"), state[at.Number], sequences)
	o.Residual = x
	return apply(w, string(arch.ConvOut), false, y, o), after
}
