package decoder

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/ops/linear"
)

// mixture returns x plus the output of each token's experts and of the shared expert for h, or plus its norm, scaled
// by the residual scale. It also returns the numbers of these experts among all of the layer's, i32[T, K], ascending.
func (b body) mixture(w Weights, layer arch.Layer, h, x *Node) (after, experts *Node) {
	dense, toRouter := h, h // input of the shared expert
	if layer.Experts.Apart {
		h = b.norm(w, true, arch.ExpertsNorm, x)
		toRouter = b.norm(w, true, arch.RouterNorm, x)
	}
	scores := apply(w, string(arch.Router), layer.Experts.Bias, toRouter, linear.Options{Rows: b.rows, Float32: true})
	var scale *Node // f32[E] factors of the shares
	if layer.Experts.Apart {
		scores = DivScalar(scores, math.Sqrt(float64(b.cfg.HiddenSize)))
		scale = w.get(string(arch.ExpertScale))
	}
	var share *Node // f32[T, 1] share of the shared expert; nil: 1
	if layer.Experts.SharedGate {
		share = Sigmoid(SliceAxis(scores, 1, AxisRange(layer.Experts.Count)))
		scores = SliceAxis(scores, 1, AxisRangeFromStart(layer.Experts.Count))
	}
	up := "up"
	if layer.Gated {
		up = "gate_up"
	}
	e := linear.Experts{Up: w.matrix(arch.ExpertPrefix + up + ".weight"),
		Down: w.matrix(arch.ExpertPrefix + "down.weight"), Activation: linear.Activation(layer.Activation)}
	if layer.Experts.Bias {
		e.UpBias, e.DownBias = w.get(arch.ExpertPrefix+up+biasSuffix), w.get(arch.ExpertPrefix+"down"+biasSuffix)
	}
	var choice *Node
	if layer.Experts.Choice {
		choice = w.get(string(arch.RouterChoice))
	}
	routes := route(scores, choice, scale, layer.Experts)
	experts = routes.Experts
	if b.group != nil { // a device numbers its own experts from 0
		first := MulScalar(b.group, b.split.experts(layer.Experts.Count))
		routes.Experts = Sub(routes.Experts, BroadcastToDims(first, routes.Experts.Shape().Dimensions...))
	}
	var shared *Node
	if layer.Experts.Shared > 0 {
		shared = b.shared(w, layer, dense, share)
	}
	if layer.Experts.Apart {
		return b.sides(w, layer, b.apart(e, h, routes, nil, nil), shared, x), experts
	}
	if !layer.MLPNorm.After && b.cfg.ResidualScale == 0 {
		return b.apart(e, h, routes, shared, x), experts
	}
	y := b.norm(w, layer.MLPNorm.After, arch.MLPPostNorm, b.apart(e, h, routes, shared, nil))
	if b.cfg.ResidualScale > 0 {
		y = MulScalar(y, b.cfg.ResidualScale)
	}
	return Add(x, y), experts
}

// sides returns x plus the norm of the sum of two norms: of the experts' output and of the shared feed-forward's.
func (b body) sides(w Weights, layer arch.Layer, experts, shared, x *Node) *Node {
	shared = collective.Sum(ConvertDType(shared, experts.DType()))
	y := Add(b.norm(w, true, arch.SharedPostNorm, shared), b.norm(w, true, arch.ExpertsPostNorm, experts))
	return Add(x, b.norm(w, layer.MLPNorm.After, arch.MLPPostNorm, y))
}

// shared returns share times the shared expert's output for h, f32[T, hidden]. On a group, each device computes its
// part of the width.
func (b body) shared(w Weights, layer arch.Layer, h, share *Node) *Node {
	up := "shared_up"
	if layer.Gated {
		up = "shared_gate_up"
	}
	h = apply(w, up, false, h, linear.Options{Rows: b.rows, Activation: linear.Activation(layer.Activation)})
	y := apply(w, string(arch.SharedDown), false, h, linear.Options{Rows: b.rows, Float32: true})
	if share == nil {
		return y
	}
	return Mul(y, BroadcastToDims(share, y.Shape().Dimensions...))
}

// apart returns the experts' output for h, plus the shared expert's output and residual if they are not nil. Devices
// that each have a part of the experts exchange partial sums of the model's dtype, as in [body.add].
func (b body) apart(e linear.Experts, h *Node, routes linear.Routes, shared, residual *Node) *Node {
	if b.split.Devices == 1 && shared == nil {
		return e.Apply(h, routes, linear.Options{Rows: b.rows, Residual: residual})
	}
	y := e.Apply(h, routes, linear.Options{Rows: b.rows, Float32: shared != nil})
	if shared != nil {
		y = ConvertDType(Add(y, shared), h.DType())
	}
	if y = collective.Sum(y); residual != nil {
		y = ConvertDType(Add(ConvertDType(y, dtypes.Float32), ConvertDType(residual, dtypes.Float32)), h.DType())
	}
	return y
}

// route chooses the experts of each token by its scores f32[T, E]: the ones with the largest shares, or shares plus
// choice f32[E] if that is not nil; of equal ones the first. The shares are multiplied by scale f32[E] if that is not
// nil.
func route(scores, choice, scale *Node, e arch.Experts) linear.Routes {
	g, t := scores.Graph(), scores.Shape().Dimensions[0]
	all := Softmax(scores, 1)
	if e.Sigmoid {
		all = Sigmoid(scores)
	}
	left, least := all, -1.0 // replaces the scores of experts that were chosen or cannot be
	if choice != nil {
		left, least = Add(all, BroadcastToDims(InsertAxes(choice, 0), t, e.Count)), -math.MaxFloat32
	}
	out := func() *Node { return MulScalar(OnesLike(left), least) }
	if e.ChosenGroups < e.Groups {
		left = Where(inGroups(left, e), left, out())
	}
	numbers := Iota(g, shapes.Make(dtypes.Int32, t, e.Count), 1)
	pick := func(taken, x *Node) *Node { // selects the chosen expert's element of x [T, E]
		return ReduceAndKeep(Where(taken, x, ZerosLike(x)), ReduceSum, 1)
	}
	var chosen, shares, scales []*Node // [T, 1] each, from the first choice to the last
	for range e.Chosen {
		number := InsertAxes(ArgMax(left, 1, dtypes.Int32), 1)
		taken := Equal(numbers, BroadcastToDims(number, t, e.Count))
		share := ReduceAndKeep(left, ReduceMax, 1)
		if choice != nil {
			share = pick(taken, all)
		}
		if scale != nil {
			scales = append(scales, pick(taken, BroadcastToDims(InsertAxes(scale, 0), t, e.Count)))
		}
		left = Where(taken, out(), left)
		chosen, shares = append(chosen, number), append(shares, share)
	}
	if e.Renormalize {
		sum := shares[0]
		for _, share := range shares[1:] {
			sum = Add(sum, share)
		}
		if e.SumEps > 0 { // all shares may be almost 0
			sum = AddScalar(sum, e.SumEps)
		}
		for i := range shares {
			shares[i] = Div(shares[i], sum)
		}
	}
	for i, scale := range scales {
		shares[i] = Mul(shares[i], scale)
	}
	routes := ascending(Concatenate(chosen, 1), Concatenate(shares, 1))
	if e.Scale > 0 {
		routes.Shares = MulScalar(routes.Shares, e.Scale)
	}
	return routes
}

// inGroups returns whether each expert of each token, given the scores that experts are chosen by, [T, E], is in one
// of the groups that the token chooses from.
func inGroups(choice *Node, e arch.Experts) *Node {
	g, t, size := choice.Graph(), choice.Shape().Dimensions[0], e.Count/e.Groups
	byGroup := Reshape(choice, t, e.Groups, size)
	best := ReduceMax(byGroup, 2) // [T, groups]
	out := func(x *Node) *Node { return FillScalar(g, x.Shape(), -math.MaxFloat32) }
	if e.Choice {
		first := InsertAxes(ArgMax(byGroup, 2, dtypes.Int32), 2)
		isFirst := Equal(Iota(g, shapes.Make(dtypes.Int32, t, e.Groups, size), 2),
			BroadcastToDims(first, t, e.Groups, size))
		best = Add(best, ReduceMax(Where(isFirst, out(byGroup), byGroup), 2))
	}
	numbers := Iota(g, shapes.Make(dtypes.Int32, t, e.Groups), 1)
	in := ZerosLike(numbers)
	for range e.ChosenGroups {
		first := Equal(numbers, BroadcastToDims(InsertAxes(ArgMax(best, 1, dtypes.Int32), 1), t, e.Groups))
		in, best = Where(first, OnesLike(in), in), Where(first, out(best), best)
	}
	in = BroadcastToDims(InsertAxes(in, 2), t, e.Groups, size)
	return Reshape(GreaterThan(in, ZerosLike(in)), t, e.Count)
}

// ascending sorts the experts of each token, i32[T, K], by number, together with their shares.
func ascending(chosen, shares *Node) linear.Routes {
	g, t, k := chosen.Graph(), chosen.Shape().Dimensions[0], chosen.Shape().Dimensions[1]
	all := []int{t, k, k}
	mine, other := BroadcastToDims(InsertAxes(chosen, 2), all...), BroadcastToDims(InsertAxes(chosen, 1), all...)
	rank := ReduceSum(ConvertDType(LessThan(other, mine), dtypes.Int32), 2) // [T, K]
	// to[t, i, j] reports whether expert i of the token moves to place j.
	to := Equal(BroadcastToDims(InsertAxes(rank, 2), all...), Iota(g, shapes.Make(dtypes.Int32, all...), 2))
	place := func(x *Node) *Node {
		x = BroadcastToDims(InsertAxes(x, 2), all...)
		return ReduceSum(Where(to, x, ZerosLike(x)), 1)
	}
	return linear.Routes{Experts: place(chosen), Shares: place(shares)}
}
