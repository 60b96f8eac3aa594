package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/collective"
	"github.com/quire/quire/linear"
	"github.com/quire/quire/models/arch"
)

// mixture is x plus what the experts of each token make of h, or plus its norm. Where each device has some of every
// expert's width, their parts are added up before they are rounded.
func (b body) mixture(w Weights, layer arch.Layer, h, x *Node) *Node {
	scores := apply(w, string(arch.Router), layer.Experts.Bias, h, linear.Options{Rows: b.rows, Float32: true})
	up := "up"
	if layer.Gated {
		up = "gate_up"
	}
	e := linear.Experts{Up: w.matrix(arch.ExpertPrefix + up + ".weight"),
		Down: w.matrix(arch.ExpertPrefix + "down.weight"), Activation: linear.Activation(layer.Activation)}
	if layer.Experts.Bias {
		e.UpBias, e.DownBias = w.get(arch.ExpertPrefix+up+biasSuffix), w.get(arch.ExpertPrefix+"down"+biasSuffix)
	}
	routes, o := route(scores, layer.Experts), linear.Options{Rows: b.rows}
	if layer.MLPNorm.After {
		return Add(x, b.norm(w, true, arch.MLPPostNorm, b.apart(e, h, routes, o)))
	}
	o.Residual = x
	return b.apart(e, h, routes, o)
}

// apart runs experts of which each device has a part.
func (b body) apart(e linear.Experts, h *Node, routes linear.Routes, o linear.Options) *Node {
	if b.split.Devices == 1 {
		return e.Apply(h, routes, o)
	}
	y := collective.Sum(e.Apply(h, routes, linear.Options{Rows: o.Rows, Float32: true}))
	if o.Residual != nil {
		y = Add(y, ConvertDType(o.Residual, dtypes.Float32))
	}
	return ConvertDType(y, h.DType())
}

// route chooses the experts of each token by its scores f32[T, E]: those with the largest, of equal ones the first.
func route(scores *Node, e arch.Experts) linear.Routes {
	g, t := scores.Graph(), scores.Shape().Dimensions[0]
	left := Softmax(scores, 1)
	numbers := Iota(g, shapes.Make(dtypes.Int32, t, e.Count), 1)
	var chosen, shares []*Node // [T, 1] each, by falling share
	for range e.Chosen {
		share := ReduceAndKeep(left, ReduceMax, 1)
		number := InsertAxes(ArgMax(left, 1, dtypes.Int32), 1)
		taken := Equal(numbers, BroadcastToDims(number, t, e.Count))
		left = Where(taken, MulScalar(OnesLike(left), -1), left)
		chosen, shares = append(chosen, number), append(shares, share)
	}
	if e.Renormalize {
		sum := shares[0]
		for _, share := range shares[1:] {
			sum = Add(sum, share)
		}
		for i := range shares {
			shares[i] = Div(shares[i], sum)
		}
	}
	return ascending(Concatenate(chosen, 1), Concatenate(shares, 1))
}

// ascending puts the experts of each token, i32[T, K], in the order of their numbers, and the shares with them.
func ascending(chosen, shares *Node) linear.Routes {
	g, t, k := chosen.Graph(), chosen.Shape().Dimensions[0], chosen.Shape().Dimensions[1]
	all := []int{t, k, k}
	mine, other := BroadcastToDims(InsertAxes(chosen, 2), all...), BroadcastToDims(InsertAxes(chosen, 1), all...)
	rank := ReduceSum(ConvertDType(LessThan(other, mine), dtypes.Int32), 2) // [T, K]
	// to[t, i, j] says that expert i of the token goes to place j.
	to := Equal(BroadcastToDims(InsertAxes(rank, 2), all...), Iota(g, shapes.Make(dtypes.Int32, all...), 2))
	place := func(x *Node) *Node {
		x = BroadcastToDims(InsertAxes(x, 2), all...)
		return ReduceSum(Where(to, x, ZerosLike(x)), 1)
	}
	return linear.Routes{Experts: place(chosen), Shares: place(shares)}
}
