package feature

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/stopping"
)

// masks are the tables of an arena of package masking, and the states of slots in them.
type masks struct {
	Tables masking.Tables
	States *Node // i32[S, stopping.Lanes]: -1 = none
}

// masksOf is the part of a call's input that is about masks. The host knows the sampled tokens, and thus the states.
type masksOf[States, Ints, Words any] struct {
	States States // i32[S, stopping.Lanes]: of the slots that stand
	Patch  masking.PatchOf[Ints, Words]
}

type (
	// MaskInput is that, on the device.
	MaskInput = masksOf[*Node, *Node, *Node]
	// Masking is the host's masksOf.
	Masking = masksOf[[][stopping.Lanes]int32, []int32, []uint32]
)

// NoStates are the states of a row without masks.
var NoStates = [stopping.Lanes]int32{sampling.NoMask, sampling.NoMask}

// maskFeature are masks of the tokens that may come next.
type maskFeature struct {
	idle
	Sizes
}

func (f maskFeature) begin(g *Graph, st *State) {
	st.Masks = masks{f.Masks.Zeros(g), zeros(g, dtypes.Int32, f.Slots, stopping.Lanes)}
}

func (f maskFeature) bytes() int64 { return f.MaskBytes() }

// MaskBytes is the memory that tables and states of masks take.
func (z Sizes) MaskBytes() int64 {
	m := z.Masks
	return 4 * (int64(m.States)*(masking.Width+1) + int64(m.Masks)*int64(m.Words) + int64(z.Slots)*stopping.Lanes +
		int64(m.Texts+z.Vocabulary+1))
}

// NewMasking makes one without masks, which is empty if rows have none.
func (z Sizes) NewMasking() (m Masking) {
	if z.Features.Has(MaskedTokens) {
		m = Masking{States: noStates(z.Slots), Patch: *z.Masks.NewPatch()}
	}
	return m
}

func (f maskFeature) ask(in *Asked) { in.MaskStates = noStates(f.WaitingLen()) }

// set does nothing: the engine gives the states of entries together with the states of slots.
func (f maskFeature) set(*Asked, int, Row, schedule.Entry) {}

func noStates(n int) [][stopping.Lanes]int32 {
	states := make([][stopping.Lanes]int32, n)
	for i := range states {
		states[i] = NoStates
	}
	return states
}

// sync updates the tables and the states of slots to what the host has.
func (f maskFeature) sync(st *State, in Input) {
	st.Masks = masks{st.Masks.Tables.Apply(in.Masks.Patch), in.Masks.States}
}

func (f maskFeature) admit(st *State, in Input, a Admission) {
	st.Masks.States = control.ScatterSet(st.Masks.States, a.slots(f.Slots), in.Asked.MaskStates)
}

func (f maskFeature) process(st State, _ Table, rows Samplers, by *Processors) {
	by.Masks, by.Ends = st.Masks.Tables.Masks(maskStates(st.Masks, rows))
}

// maskStates returns the states of rows that sample.
func maskStates(m masks, rows Samplers) *Node {
	states := take(m.States, rows.Slots)
	if rows.Behind != nil {
		states = rows.Behind.Masks
	}
	valid := GreaterOrEqual(rows.Slots, ZerosLike(rows.Slots))
	return Where(BroadcastToDims(InsertAxes(valid, -1), states.Shape().Dimensions...), states,
		FillScalar(states.Graph(), states.Shape(), sampling.NoMask))
}

func (f maskFeature) drew(st *State, in Input, rows Samplers, tokens *Node) {
	m := &st.Masks
	after := m.Tables.Walk(in.Texts, maskStates(*m, rows), tokens)
	valid := GreaterOrEqual(rows.Slots, ZerosLike(rows.Slots))
	m.States = control.ScatterSet(m.States, chosen(rows.Slots, valid, f.Slots), after)
}

func (f maskFeature) slotStates(st State, slots *Node, s *SlotStates) {
	s.Masks = take(st.Masks.States, slots)
}

func (f maskFeature) zeroStates(g *Graph, n int, s *SlotStates) {
	s.Masks = zeros(g, dtypes.Int32, n, stopping.Lanes)
}

func (f maskFeature) walk(st State, in Input, _, tokens, able *Node, s *SlotStates) *Node {
	m := st.Masks.Tables
	able = LogicalAnd(able, m.Allow(s.Masks, tokens))
	s.Masks = m.Walk(in.Texts, s.Masks, Where(able, tokens, FillScalar(tokens.Graph(), tokens.Shape(), -1)))
	return LogicalAnd(able, m.Known(s.Masks))
}

func (f maskFeature) only(st State, _ *Node, s SlotStates) *Node {
	return st.Masks.Tables.Only(s.Masks)
}

// Waits reports which slots are in a state that the tables lack, bool[S]: they sample nothing until the host has filled
// it in, and the others continue. It is nil if no row has masks.
func (z Sizes) Waits(st State, t Table) *Node {
	if !z.Features.Has(MaskedTokens) {
		return nil
	}
	used := SliceAxis(t.Used, 0, AxisRangeFromStart(z.Slots))
	return LogicalAnd(used, LogicalNot(st.Masks.Tables.Known(st.Masks.States)))
}

// Texts returns the shapes of the texts of tokens, which masks read; none if rows have no masks.
func (z Sizes) Texts() []shapes.Shape {
	if !z.Features.Has(MaskedTokens) {
		return nil
	}
	return []shapes.Shape{shapes.Make(dtypes.Int32, max(1, z.Masks.Texts)), shapes.Make(dtypes.Int32, z.Vocabulary+1)}
}
