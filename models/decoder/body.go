package decoder

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/recurrence"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/ops/linear"
)

// Layer is a layer of a graph. In a [Loop], Number is the layer's number in the first turn, and Turn, i32[], is the
// number of the turn. Otherwise Turn is nil.
type Layer struct {
	Number int
	Turn   *Node
	Sinks  *Node // f32[H] of the layer's attention; nil if it has none
}

// AttentionFunc stores a layer's new keys and values and attends to the layer's whole sequence. q is [T, H, D], k and
// v are [T, KVH, D], and the result is [T, H, D], all in the weights' dtype. k and v are nil if the layer attends to
// the keys and values of another layer, its KVFrom. state is the state of all layers, the caches; the new state is
// returned. [AttentionOptions] has the layer's options.
type AttentionFunc func(layer Layer, state []*Node, q, k, v *Node) (out *Node, after []*Node)

// StatesFunc returns the place of a layer's states: the array, among those of all layers, and the rows that the tokens
// belong to, with pages as they are numbered in that array.
type StatesFunc func(layer Layer) (array int, sequences recurrence.Rows)

// body has what all layers share.
type body struct {
	cfg, whole models.Config // the config of one device's part, and of the whole model
	split      Partition
	rows       *Node
	turns      []*rotation // rotations of cfg.Ropes
	firstKeys  *Node       // the array firstKeys
	group      *Node       // the array expertGroup; nil if all devices have all experts
}

// ofLayer returns the body with the sizes of a layer.
func (b body) ofLayer(number int) body {
	b.whole = b.whole.OfLayer(number)
	b.split = NewPartition(b.whole, b.split.Devices)
	b.cfg = b.split.Local(b.whole)
	return b
}

// norm applies the norm of a part, if there is one.
func (b body) norm(w Weights, has bool, part arch.Part, x *Node) *Node {
	switch {
	case !has:
		return x
	case b.cfg.Norm.NoBias:
		weight := w.get(string(part))
		return layerNorm(x, weight, ZerosLike(weight), b.cfg.RMSNormEps, b.rows)
	case b.cfg.Norm.Layer:
		return layerNorm(x, w.get(string(part)), w.get(string(part)+biasSuffix), b.cfg.RMSNormEps, b.rows)
	}
	return rmsNorm(x, w.get(string(part)), b.cfg.RMSNormEps, b.rows)
}

// feedForward returns x plus the feed-forward of h.
func (b body) feedForward(w Weights, layer arch.Layer, h, x *Node) *Node {
	up := "up"
	if layer.Gated {
		up = "gate_up" // activation(gate) * up
	}
	h = apply(w, up, layer.MLPBias, h, linear.Options{Rows: b.rows, Activation: linear.Activation(layer.Activation)})
	return b.add(w, arch.Down, layer.MLPBias || layer.DownBias, layer.MLPNorm, arch.MLPPostNorm, h, x)
}

// add returns x plus the linear layer of a name, or plus its norm, scaled by the residual scale; or the norm of that
// sum. If the layer's inputs are divided among devices, these exchange partial sums of the model's dtype: a sum in
// float32 would take twice as long on its way, which is half of a prompt step on some chips.
func (b body) add(w Weights, name arch.Part, bias bool, norms arch.Norms, norm arch.Part, h, x *Node) *Node {
	if !norms.After && b.cfg.ResidualScale == 0 {
		return b.norm(w, norms.Sum, norm, b.sum(w, string(name), bias, h, x))
	}
	y := b.norm(w, norms.After, norm, b.sum(w, string(name), bias, h, nil))
	if b.cfg.ResidualScale > 0 {
		y = MulScalar(y, b.cfg.ResidualScale)
	}
	return Add(x, y)
}

// sum returns the linear layer of a name, plus residual if that is not nil.
func (b body) sum(w Weights, name string, bias bool, h, residual *Node) *Node {
	if b.split.Devices == 1 {
		return apply(w, name, bias, h, linear.Options{Rows: b.rows, Residual: residual})
	}
	y := collective.Sum(apply(w, name, false, h, linear.Options{Rows: b.rows}))
	y = ConvertDType(y, dtypes.Float32)
	if bias {
		y = Add(y, BroadcastToDims(InsertAxes(ConvertDType(w.get(name+biasSuffix), dtypes.Float32), 0),
			y.Shape().Dimensions...))
	}
	if residual != nil {
		y = Add(y, ConvertDType(residual, dtypes.Float32))
	}
	return ConvertDType(y, w.dtype)
}

// apply applies the linear layer of a name, with its bias if the model has one.
func apply(w Weights, name string, bias bool, x *Node, o linear.Options) *Node {
	if bias {
		o.Bias = w.get(name + biasSuffix)
	}
	o.Adapters = w.adaptersOf(name + ".weight")
	return linear.Apply(x, w.matrix(name+".weight"), o)
}
