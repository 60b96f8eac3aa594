package device

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/masking"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/scan"
	"github.com/quire/quire/stopping"
	"github.com/quire/quire/tokenqueue"
)

// masks are the tables of an arena of package masking, and where slots stand in them.
type masks struct {
	Tables masking.Tables
	States *Node // i32[S, stopping.Lanes]: -1 = none
}

// masksOf is what the host gives of the masks in each call: it knows the tokens that were drawn, and so the states.
type masksOf[States, Ints, Words any] struct {
	States States // i32[S, stopping.Lanes]: of the slots that stand
	Patch  masking.PatchOf[Ints, Words]
}

type (
	maskInput = masksOf[*Node, *Node, *Node]
	// Masks is that of the host.
	Masks = masksOf[[][stopping.Lanes]int32, []int32, []uint32]
)

// NoStates are those of a row without masks.
var NoStates = [stopping.Lanes]int32{sampling.NoMask, sampling.NoMask}

// MaskSizes are the sizes of what masks take.
type MaskSizes struct {
	masking.Sizes
	Texts int // bytes of all tokens
}

func (gr *Graphs) newMasks(g *Graph) masks {
	return masks{gr.Masks.Zeros(g), zeros(g, dtypes.Int32, gr.Slots, stopping.Lanes)}
}

// MaskBytes is the memory that tables and states of masks take.
func (p Sizes) MaskBytes() int64 {
	m := p.Masks
	return 4 * (int64(m.States)*(masking.Width+1) + int64(m.Masks)*int64(m.Words) + int64(p.Slots)*stopping.Lanes +
		int64(m.Texts+p.Vocabulary+1))
}

// newMaskInput makes one of no masks.
func (p Sizes) newMaskInput() Masks {
	return Masks{States: noStates(p.Slots), Patch: *p.Masks.NewPatch()}
}

func noStates(n int) [][stopping.Lanes]int32 {
	states := make([][stopping.Lanes]int32, n)
	for i := range states {
		states[i] = NoStates
	}
	return states
}

// beginMasks brings the tables and the states of slots to where the host has them.
func (gr *Graphs) beginMasks(m masks, in maskInput) masks {
	return masks{m.Tables.Apply(in.Patch), in.States}
}

// admitMasks makes the states of the slots that entries get.
func (gr *Graphs) admitMasks(m masks, states *Node, a admission) masks {
	to := Where(a.Entries, a.Rows, FillScalar(states.Graph(), a.Rows.Shape(), float64(gr.Slots)))
	m.States = control.ScatterSet(m.States, to, states)
	return m
}

// maskStates are the states of rows that draw.
func maskStates(m masks, rows samplers) *Node {
	states := take(m.States, rows.Slots)
	if rows.Behind != nil {
		states = rows.Behind.Masks
	}
	valid := GreaterOrEqual(rows.Slots, ZerosLike(rows.Slots))
	return Where(BroadcastToDims(InsertAxes(valid, -1), states.Shape().Dimensions...), states,
		FillScalar(states.Graph(), states.Shape(), sampling.NoMask))
}

// walkMasks takes the states of rows through the tokens that they drew.
func (gr *Graphs) walkMasks(m masks, texts stopping.Tables, rows samplers, tokens *Node) masks {
	g := tokens.Graph()
	after := m.Tables.Walk(texts, maskStates(m, rows), tokens)
	valid := GreaterOrEqual(rows.Slots, ZerosLike(rows.Slots))
	to := Where(valid, rows.Slots, FillScalar(g, rows.Slots.Shape(), float64(gr.Slots)))
	m.States = control.ScatterSet(m.States, to, after)
	return m
}

// waits says which slots stand in a state that the tables lack, bool[S]: they draw nothing until the host has filled it
// in, and the others go on.
func (gr *Graphs) waits(st state) *Node {
	m := st.Extras.Masks
	used := SliceAxis(st.Sequences.Used, 0, AxisRangeFromStart(gr.Slots))
	return LogicalAnd(used, LogicalNot(m.Tables.Known(m.States)))
}

// numWaits counts them, i32[].
func (gr *Graphs) numWaits(st state) *Node {
	return scan.Count(gr.waits(st))
}

// mostWaited is how many tokens the slots that wait may have missed when a call returns for them. A call has a price,
// about that of a twelfth of a step on CPUs, and so has a slot that draws nothing.
func (p Sizes) mostWaited() int { return p.MaxSeqs / 8 }

// holdBack leaves the tokens of slots that wait in the queue, and takes them from next, i32[R], see tokenqueue.Queue.
// after is the queue where a step takes the others of next.
func (gr *Graphs) holdBack(l *loop, next, takes *Node) (left *Node, after tokenqueue.Queue) {
	g, rows := next.Graph(), gr.Rows()
	waits := gr.waits(l.State)
	all := Concatenate([]*Node{waits, zeros(g, dtypes.Bool, rows-gr.Slots)}, 0)
	count := ConvertDType(LogicalAnd(waits, BroadcastToDims(takes, gr.Slots)), dtypes.Int32)
	l.Out.Waits = Add(l.Out.Waits, Concatenate([]*Node{zeros(g, dtypes.Int32, 1), Reshape(ReduceAllSum(count), 1)}, 0))
	return Where(all, FillScalar(g, next.Shape(), -1), next), l.State.Queue.PurgeSlots(LogicalNot(all))
}

// mayWait says that the slots that wait have not missed too many tokens, with the next.
func (gr *Graphs) mayWait(l loop) *Node {
	missed := Add(ReduceAllSum(l.Out.Waits), gr.numWaits(l.State))
	return LessOrEqual(missed, integer(missed.Graph(), gr.mostWaited()))
}

// maskTexts are the texts of tokens as arguments of a program, none where rows have no masks.
func (gr *Graphs) maskTexts() []Leaf {
	if !gr.Features.Has(MaskedTokens) {
		return nil
	}
	return []Leaf{{Name: "Masks.Bytes", Shape: shapes.Make(dtypes.Int32, max(1, gr.Masks.Texts))},
		{Name: "Masks.Starts", Shape: shapes.Make(dtypes.Int32, gr.Vocabulary+1)}}
}
