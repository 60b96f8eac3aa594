package decoder

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/recurrence"
	"github.com/quire/quire/ops/linear"
)

// shortConv adds a layer's short convolution of h to x. If a group of devices runs the model, each computes all of
// it.
func (b body) shortConv(w Weights, layer Layer, states StatesFunc, h, x *Node, state []*Node) (sum *Node,
	after []*Node) {
	o := linear.Options{Rows: b.rows}
	after = slices.Clone(state)
	array, sequences := states(layer)
	var y *Node
	y, after[array] = recurrence.ShortConv(apply(w, string(arch.ConvIn), false, h, o),
		w.get(string(arch.ConvTaps)+".weight"), state[array], sequences)
	o.Residual = x
	return apply(w, string(arch.ConvOut), false, y, o), after
}

// deltaNet adds a layer's gated delta net of h to x. If a group of devices runs the model, each computes all of it.
func (b body) deltaNet(w Weights, layer Layer, states StatesFunc, h, x *Node, state []*Node) (sum *Node,
	after []*Node) {
	o := linear.Options{Rows: b.rows}
	after = slices.Clone(state)
	weights := recurrence.DeltaWeights{Taps: w.get(string(arch.ConvTaps) + ".weight"),
		Decay: w.get(string(arch.DeltaDecay)), Bias: w.get(string(arch.DeltaBias)), Norm: w.get(string(arch.DeltaNorm))}
	net := b.cfg.Layers[layer.Number].Delta
	array, sequences := states(layer)
	var y *Node
	y, after[array] = recurrence.GatedDelta(apply(w, "delta_in", false, h, o), weights, state[array], sequences, net,
		b.cfg.RMSNormEps)
	if net.Tiled {
		heads := Reshape(y, -1, net.KeyHeads, net.ValueHeads/net.KeyHeads, net.ValueDim)
		y = Reshape(TransposeAllDims(heads, 0, 2, 1, 3), y.Shape().Dimensions...)
	}
	o.Residual = x
	return apply(w, string(arch.DeltaOut), false, y, o), after
}

// mamba adds a layer's state space of h to x, scaled by the residual scale. If a group of devices runs the model,
// each computes all of it.
func (b body) mamba(w Weights, layer Layer, states StatesFunc, h, x *Node, state []*Node) (sum *Node,
	after []*Node) {
	s := b.cfg.Layers[layer.Number].Mamba
	weights := recurrence.MambaWeights{Taps: w.get(string(arch.ConvTaps) + ".weight"),
		Decay: w.get(string(arch.MambaDecay)), Step: w.get(string(arch.MambaStep)), Skip: w.get(string(arch.MambaSkip))}
	if s.TapsBias {
		weights.TapsBias = w.get(string(arch.ConvBias))
	}
	in := apply(w, string(arch.MambaIn), s.Bias, h, linear.Options{Rows: b.rows})
	after = slices.Clone(state)
	array, sequences := states(layer)
	var y *Node
	y, after[array] = recurrence.Mamba2(in, weights, state[array], sequences, s)
	y = recurrence.GatedNorm(y, in, w.get(string(arch.MambaNorm)), b.rows, s.Groups, b.cfg.RMSNormEps)
	o := linear.Options{Rows: b.rows}
	if b.cfg.ResidualScale == 0 {
		o.Residual = x
		return apply(w, string(arch.MambaOut), s.Bias, y, o), after
	}
	return Add(x, MulScalar(apply(w, string(arch.MambaOut), s.Bias, y, o), b.cfg.ResidualScale)), after
}
