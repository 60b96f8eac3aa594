package feature

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/tree"
)

// Thought is the reasoning that a completion may have, between two tokens.
type Thought struct {
	Start, End int32 // the tokens
	Most       int   // the most tokens between them; after so many, End is forced
	// Open reports that the prompt ends within reasoning. Its tokens after the last Start count.
	Open bool
}

// thinkingOf is the state of n rows in their reasoning, declared once for the device and for the host. All zero is a
// row whose reasoning has no bound.
type thinkingOf[Ints any] struct {
	Start, End Ints // i32[n]: the tokens, plus 1
	Left       Ints // i32[n]: how many more tokens the reasoning may have
	Open       Ints // i32[n]: 1 within reasoning
}

type thinking = thinkingOf[*Node]

// thinkingFeature are bounds of reasoning.
type thinkingFeature struct {
	idle
	Sizes
}

func (f thinkingFeature) begin(g *Graph, st *State) {
	each := func() *Node { return zeros(g, dtypes.Int32, f.Slots) }
	st.Thinking = thinking{Start: each(), End: each(), Left: each(), Open: each()}
}

func (f thinkingFeature) bytes() int64 { return 4 * 4 * int64(f.Slots) }

func (f thinkingFeature) ask(in *Asked) { in.Thinking = tree.Make[thinkingOf[[]int32]](f.WaitingLen()) }

// set fills in entry i from the tokens of the prompt and the tokens that were sampled before it was swapped out.
func (f thinkingFeature) set(all *Asked, i int, row Row, e schedule.Entry) {
	in, t := all.Thinking, row.Thought
	if t == nil {
		in.Start[i], in.End[i], in.Left[i], in.Open[i] = 0, 0, 0, 0
		return
	}
	in.Start[i], in.End[i], in.Left[i], in.Open[i] = t.Start+1, t.End+1, int32(t.Most), number(t.Open)
	if t.Open {
		for _, token := range slices.Backward(e.Request.Tokens) {
			if token == t.Start || in.Left[i] == 0 {
				break
			}
			in.Left[i]--
		}
	}
	for _, token := range e.Drawn {
		next(in, i, token)
	}
}

// next advances row i by a token that it sampled: the plain form of drew.
func next(in thinkingOf[[]int32], i int, token int32) {
	if in.Open[i] == 0 {
		in.Open[i] = number(token+1 == in.Start[i])
		return
	}
	in.Left[i] = max(0, in.Left[i]-1)
	in.Open[i] = number(token+1 != in.End[i])
}

func (f thinkingFeature) admit(st *State, in Input, a Admission) {
	to := a.slots(f.Slots)
	set := func(state, in *Node) *Node { return control.ScatterSet(state, to, in) }
	st.Thinking = tree.Zip(st.Thinking, in.Asked.Thinking, set)
}

// forcedBy returns the tokens that rows must sample, i32[n]; -1 is none.
func forcedBy(t thinking) *Node {
	zero := ZerosLike(t.Left)
	atEnd := And(GreaterThan(t.Open, zero), LessOrEqual(t.Left, zero))
	return Where(atEnd, AddScalar(t.End, -1), AddScalar(zero, -1))
}

func (f thinkingFeature) process(st State, _ Table, rows Samplers, by *Processors) {
	t := tree.Map(st.Thinking, func(x *Node) *Node { return take(x, rows.Slots) })
	if rows.Behind != nil {
		t.Left, t.Open = rows.Behind.Left, rows.Behind.Open
	}
	by.Forced = forcedBy(t)
}

func (f thinkingFeature) drew(st *State, _ Input, rows Samplers, tokens *Node) {
	t := &st.Thinking
	states := tree.Map(*t, func(x *Node) *Node { return take(x, rows.Slots) })
	zero := ZerosLike(tokens)
	left, open := thinkOn(states, tokens)
	to := rows.drew(tokens, zero, f.Slots)
	t.Left = control.ScatterSet(t.Left, to, left)
	t.Open = control.ScatterSet(t.Open, to, open)
}

func (f thinkingFeature) slotStates(st State, slots *Node, s *SlotStates) {
	s.Left, s.Open = take(st.Thinking.Left, slots), take(st.Thinking.Open, slots)
}

func (f thinkingFeature) zeroStates(g *Graph, n int, s *SlotStates) {
	s.Left, s.Open = zeros(g, dtypes.Int32, n), zeros(g, dtypes.Int32, n)
}

func (f thinkingFeature) walk(st State, _ Input, slots, tokens, able *Node, s *SlotStates) *Node {
	s.Left, s.Open = thinkOn(thinkingAt(st, slots, *s), tokens)
	return able
}

func (f thinkingFeature) only(st State, slots *Node, s SlotStates) *Node {
	return forcedBy(thinkingAt(st, slots, s))
}

// thinkingAt returns the thinking of slots, i32[n], in these states.
func thinkingAt(st State, slots *Node, s SlotStates) thinking {
	t := tree.Map(st.Thinking, func(x *Node) *Node { return take(x, slots) })
	t.Left, t.Open = s.Left, s.Open
	return t
}

// thinkOn returns the states of rows after tokens, i32[n].
func thinkOn(t thinking, tokens *Node) (left, open *Node) {
	zero, one := ZerosLike(tokens), OnesLike(tokens)
	isOpen := GreaterThan(t.Open, zero)
	drawn := Add(tokens, one)
	left = Where(isOpen, Max(zero, Sub(t.Left, one)), t.Left)
	return left, ConvertDType(Where(isOpen, NotEqual(drawn, t.End), Equal(drawn, t.Start)), dtypes.Int32)
}
