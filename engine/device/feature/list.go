package feature

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
)

// Of returns the features of a program, in the order of State. The methods below call them in this order; the logits
// are changed in the order of [sampling.Processors].
func Of(z Sizes) (list List) {
	for _, f := range []struct {
		Set
		feature
	}{
		{Penalties, penaltyFeature{Sizes: z}},
		{MaskedTokens, maskFeature{Sizes: z}},
		{Biases, biasFeature{Sizes: z}},
		{Filters, filterFeature{Sizes: z}},
		{Thinking, thinkingFeature{Sizes: z}},
		{DRY, dryFeature{Sizes: z}},
		{TopLogprobs | PromptLogprobs, scoreFeature{Sizes: z}},
		{NoRepeat, noRepeatFeature{Sizes: z}},
	} {
		if z.Features&f.Set != 0 {
			list = append(list, f.feature)
		}
	}
	return list
}

// List is the features that a program is built with.
type List []feature

// Bytes is the memory that the state takes.
func (l List) Bytes() (n int64) {
	for _, f := range l {
		n += f.bytes()
	}
	return n
}

// Begin makes the state, all zero.
func (l List) Begin(g *Graph) (st State) {
	for _, f := range l {
		f.begin(g, &st)
	}
	return st
}

// Ask makes what the host gives: nothing is asked for.
func (l List) Ask() (in Asked) {
	for _, f := range l {
		f.ask(&in)
	}
	return in
}

// SetEntry fills in what the row of entry i asks for.
func (l List) SetEntry(in *Asked, i int, row Row, e schedule.Entry) {
	for _, f := range l {
		f.set(in, i, row, e)
	}
}

// SetAhead fills in what the i-th prompt ahead asks for.
func (l List) SetAhead(in *Asked, i int, p schedule.Prompt) {
	for _, f := range l {
		f.setAhead(in, i, p)
	}
}

// Sync updates the state to what the host has when a call starts.
func (l List) Sync(st State, in Input) State {
	for _, f := range l {
		f.sync(&st, in)
	}
	return st
}

// Admit makes the state of the slots that entries get.
func (l List) Admit(st State, in Input, a Admission) State {
	for _, f := range l {
		f.admit(&st, in, a)
	}
	return st
}

// Process returns what changes the logits of rows.
func (l List) Process(st State, t Table, rows Samplers) (by Processors) {
	for _, f := range l {
		f.process(st, t, rows, &by)
	}
	return by
}

// Drew updates the state with the tokens that rows sampled, i32[D].
func (l List) Drew(st State, in Input, rows Samplers, tokens *Node) State {
	for _, f := range l {
		f.drew(&st, in, rows, tokens)
	}
	return st
}

// MayDraft reports which of slots i32[n] may have drafts, bool[n].
func (l List) MayDraft(st State, slots *Node) *Node {
	may := Equal(slots, slots)
	for _, f := range l {
		if not := f.noDrafts(st); not != nil {
			may = LogicalAnd(may, LogicalNot(take(not, slots)))
		}
	}
	return may
}

// walkers are the features that drafts are walked through.
func (l List) walkers() (list []walker) {
	for _, f := range l {
		if w, ok := f.(walker); ok {
			list = append(list, w)
		}
	}
	return list
}

// WalksDrafts reports whether drafts must be walked through features.
func (l List) WalksDrafts() bool { return len(l.walkers()) > 0 }

// SlotStates returns the states of slots i32[n].
func (l List) SlotStates(st State, slots *Node) (s SlotStates) {
	for _, w := range l.walkers() {
		w.slotStates(st, slots, &s)
	}
	return s
}

// ZeroStates is one of n rows, all zero.
func (l List) ZeroStates(g *Graph, n int) (s SlotStates) {
	for _, w := range l.walkers() {
		w.zeroStates(g, n, &s)
	}
	return s
}

// WalkDrafts advances slots i32[n] by tokens i32[n], if able, bool[n]. It reports which slots may sample their tokens,
// and for which the device knows what they may sample next.
func (l List) WalkDrafts(st State, in Input, slots, tokens, able *Node, s SlotStates) (*Node, SlotStates) {
	for _, w := range l.walkers() {
		able = w.walk(st, in, slots, tokens, able, &s)
	}
	return able, s
}

// OnlyToken returns the only token that slots i32[n] may sample next, i32[n]; -1 if there are several. If two features
// have one, the later feature decides.
func (l List) OnlyToken(st State, slots *Node, s SlotStates) (token *Node) {
	for _, w := range l.walkers() {
		if one := w.only(st, slots, s); token == nil {
			token = one
		} else {
			token = Where(GreaterOrEqual(one, ZerosLike(one)), one, token)
		}
	}
	return token
}
