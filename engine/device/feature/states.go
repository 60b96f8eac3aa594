package feature

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
)

// stateBytes bounds the hidden states of a call, unless each slot needs more for one.
const stateBytes = 16 << 20

// statePlaces is K, the number of hidden states that a call has room for. A call ends when a step may not find enough
// room: at most one prompt of each slot ends in it.
func (z Sizes) statePlaces() int { return max(z.Slots, min(4*z.Slots, stateBytes/(4*z.HiddenSize))) }

// NoStates returns hidden states that are empty, with room for the states of a call; nil if they are not reported.
func (z Sizes) NoStates(g *Graph) (out schedule.StatesOf[*Node, *Node]) {
	if z.HiddenSize == 0 {
		return out
	}
	k := z.statePlaces()
	return schedule.StatesOf[*Node, *Node]{Count: zeros(g, dtypes.Int32, 1), Owners: zeros(g, dtypes.Int32, k),
		Numbers: zeros(g, dtypes.Float32, k, z.HiddenSize)}
}

// AddStates adds the hidden states [D, H] of the rows that sample the first token after their prompts.
func (z Sizes) AddStates(out schedule.StatesOf[*Node, *Node], t Table, rows Samplers,
	hidden *Node) schedule.StatesOf[*Node, *Node] {
	if z.HiddenSize == 0 {
		return out
	}
	g := hidden.Graph()
	k, draws := z.statePlaces(), rows.Slots.Shape().Size()
	first := LogicalAnd(GreaterOrEqual(rows.Slots, ZerosLike(rows.Slots)),
		Equal(rows.Positions, take(t.PromptLens, rows.Slots)))
	which, count := scan.Positions(first, draws)
	which = Min(which, integer(g, draws-1))
	nth, base := Iota(g, shapes.Make(dtypes.Int32, draws), 0), Reshape(out.Count)
	to := Where(LessThan(nth, count), Add(nth, base), FillScalar(g, nth.Shape(), float64(k)))
	out.Owners = control.ScatterSet(out.Owners, to, take(take(t.Owners, rows.Slots), which))
	out.Numbers = control.ScatterSet(out.Numbers, to, ConvertDType(take(hidden, which), dtypes.Float32))
	out.Count = Reshape(Add(base, count), 1)
	return out
}

// StatesRoom reports whether there is room for the hidden states of another step, bool[]; nil if they are not reported.
func (z Sizes) StatesRoom(out schedule.StatesOf[*Node, *Node]) *Node {
	if z.HiddenSize == 0 {
		return nil
	}
	used := Reshape(out.Count)
	return LessOrEqual(AddScalar(used, float64(z.Slots)), integer(used.Graph(), z.statePlaces()))
}
