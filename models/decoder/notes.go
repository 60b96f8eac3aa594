package decoder

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/control"
)

// Notes is what [Noting] returns of the layers.
type Notes struct {
	Experts bool
	// States are places among the hidden states: 0 is the input of the first layer, n the output of the n-th one. The
	// place after the last layer is its output normalized, which [Hidden] returns too.
	States []int
}

// Noted is what was noted of T tokens. Fields that were not asked for are nil.
type Noted struct {
	// Experts, i32[T, layers * K], are the experts that each token took, in the order of the layers that have experts,
	// and ascending within a layer.
	Experts *Node
	States  *Node // [T, places, hidden], in the weights' dtype
}

// Noting is [Hidden]. It also returns what is to be noted.
func Noting(cfg models.Config, w Weights, tokens Embedded, positions, rows *Node, state []*Node,
	attention AttentionFunc, states StatesFunc, notes Notes) (hidden *Node, noted Noted, after []*Node) {
	t, size, last := positions.Shape().Size(), cfg.HiddenSize, len(cfg.Layers)
	r := &recorder{Config: cfg, loop: loopOf(cfg, w.looped), experts: -1, states: -1, places: notes.States}
	state = slices.Clone(state)
	of := len(state)
	if notes.Experts {
		layers, chosen, err := cfg.Routing()
		if err != nil {
			panic(err)
		}
		r.experts = len(state)
		state = append(state, Zeros(positions.Graph(), shapes.Make(dtypes.Int32, layers, t*chosen)))
	}
	if len(notes.States) > 0 {
		r.states = len(state)
		state = append(state, Zeros(positions.Graph(), shapes.Make(w.dtype, len(notes.States), t, size)))
		state = r.put(state, 0, nil, tokens.Hidden)
	}
	hidden, after = run(cfg, w, tokens, positions, rows, state, attention, states, r)
	if r.experts >= 0 {
		layers, chosen := after[r.experts].Shape().Dimensions[0], after[r.experts].Shape().Dimensions[1]/t
		noted.Experts = Reshape(TransposeAllAxes(Reshape(after[r.experts], layers, t, chosen), 1, 0, 2), t,
			layers*chosen)
	}
	if r.states >= 0 {
		noted.States = TransposeAllAxes(r.put(after, last, nil, hidden)[r.states], 1, 0, 2)
	}
	return hidden, noted, after[:of]
}

// recorder notes what layers compute in arrays that follow the state of attention: experts in i32[layers with experts,
// T * K], and hidden states in [places, T, hidden]. A nil one notes nothing, nor does it in an array of number -1.
type recorder struct {
	models.Config
	loop            Loop
	experts, states int   // numbers of the arrays
	places          []int // see [Notes]
}

// routes notes the experts i32[T, K] that tokens took in a layer.
func (r *recorder) routes(state []*Node, layer Layer, experts *Node) []*Node {
	if r == nil || r.experts < 0 {
		return state
	}
	place := Scalar(experts.Graph(), dtypes.Int32, float64(r.mixtures(0, layer.Number)))
	if layer.Turn != nil {
		ofTurn := r.mixtures(r.loop.First, r.loop.First+r.loop.Period)
		place = Add(place, MulScalar(layer.Turn, float64(ofTurn)))
	}
	return scattered(state, r.experts, place, Reshape(experts, 1, experts.Shape().Size()))
}

// output notes the output [T, hidden] of a layer. The last layer's is noted when it is normalized.
func (r *recorder) output(state []*Node, layer Layer, x *Node) []*Node {
	if r == nil || r.states < 0 || layer.Turn == nil && layer.Number == len(r.Layers)-1 {
		return state
	}
	return r.put(state, layer.Number+1, layer.Turn, x)
}

// put notes a hidden state if its place is wanted: a layer's in the first turn of the loop, and the same layer's of a
// later turn.
func (r *recorder) put(state []*Node, place int, turn, x *Node) []*Node {
	turns := 1
	if turn != nil {
		turns = r.loop.Turns
	}
	wanted, found := make([]int32, turns), false // by turn, if the array has it
	for i := range wanted {
		n := place + i*r.loop.Period
		at := slices.Index(r.places, n)
		if at < 0 || n == len(r.Layers) && turn != nil {
			wanted[i] = int32(len(r.places)) // beyond the array, so that it is dropped
			continue
		}
		wanted[i], found = int32(at), true
	}
	if !found {
		return state
	}
	index := Const(x.Graph(), wanted)
	if turn != nil {
		index = Gather(index, InsertAxes(turn, -1))
	}
	return scattered(state, r.states, index, InsertAxes(x, 0))
}

// scattered replaces row place, i32[], of one of the arrays of a state.
func scattered(state []*Node, array int, place, row *Node) []*Node {
	after := slices.Clone(state)
	after[array] = control.ScatterSet(state[array], Reshape(place, 1), row)
	return after
}

// mixtures counts the layers with experts among those from one up to another.
func (r *recorder) mixtures(from, to int) (n int) {
	for _, l := range r.Layers[from:to] {
		if l.Experts.Count > 0 {
			n++
		}
	}
	return n
}
