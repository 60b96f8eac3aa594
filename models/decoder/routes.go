package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/control"
)

// Routed is [Hidden] of a mixture. It also returns the experts that each token took, i32[T, layers * K], in the order
// of the layers that have experts, and ascending within a layer.
func Routed(cfg models.Config, w Weights, tokens Embedded, positions, rows *Node, state []*Node,
	attention AttentionFunc, states StatesFunc) (hidden, experts *Node, after []*Node) {
	layers, chosen, err := cfg.Routing()
	if err != nil {
		panic(err)
	}
	t := positions.Shape().Size()
	r := &routesOf{Config: cfg, loop: loopOf(cfg, w.looped), at: len(state)}
	all := Zeros(positions.Graph(), shapes.Make(dtypes.Int32, layers, t*chosen))
	hidden, after = run(cfg, w, tokens, positions, rows, append(state[:r.at:r.at], all), attention, states, r)
	experts = TransposeAllAxes(Reshape(after[r.at], layers, t, chosen), 1, 0, 2)
	return hidden, Reshape(experts, t, layers*chosen), after[:r.at]
}

// routesOf notes the experts of a model's layers in the array that follows the state of attention, at its place: i32
// [layers with experts, T * K]. A nil one notes nothing.
type routesOf struct {
	models.Config
	loop Loop
	at   int
}

// note notes the experts i32[T, K] that tokens took in a layer.
func (r *routesOf) note(state []*Node, layer Layer, experts *Node) []*Node {
	if r == nil {
		return state
	}
	place := Scalar(experts.Graph(), dtypes.Int32, float64(r.mixtures(0, layer.Number)))
	if layer.Turn != nil {
		ofTurn := r.mixtures(r.loop.First, r.loop.First+r.loop.Period)
		place = Add(place, MulScalar(layer.Turn, float64(ofTurn)))
	}
	after := append([]*Node(nil), state...)
	after[r.at] = control.ScatterSet(state[r.at], Reshape(place, 1), Reshape(experts, 1, experts.Shape().Size()))
	return after
}

// mixtures counts the layers with experts among those from one up to another.
func (r *routesOf) mixtures(from, to int) (n int) {
	for _, l := range r.Layers[from:to] {
		if l.Experts.Count > 0 {
			n++
		}
	}
	return n
}
