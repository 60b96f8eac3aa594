package device

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/seqtable"
)

// accepting is the state of a loop over the tokens that slots sampled in a step with drafts: first the first token of
// each slot, then the second token of the slots whose first token was drafted, and so on.
type accepting struct {
	Loop      loop
	Round     *Node // i32[]
	Alive     *Node // bool[S]: the slots that have a token in this round
	Tokens    *Node // i32[S]: the last token that each slot sampled
	Positions *Node // i32[S]: its position
	Done      *Node // bool[S]: it ends the sequence
}

// recordDrafts is record for a step that may have drafts. indices, i32[D], lists the packed tokens after which the rows
// sample.
func (r recorder) recordDrafts(l loop, in input, packed stepTokens, indices *Node, rows samplers, d drawn,
	allocated seqtable.Status) loop {
	has := GreaterThan(packed.Drafted, ZerosLike(packed.Drafted))
	l = control.Once(has, l, func(now control.Now, l loop) loop {
		return r.accept(l, in, packed, control.Hold(now, indices), control.Hold(now, rows), d, allocated)
	})
	return control.Once(LogicalNot(has), l, func(_ control.Now, l loop) loop {
		first := func(x *Node) *Node { return SliceAxis(x, 0, AxisRangeFromStart(r.Slots)) } // the token of each slot
		rows := samplers{Slots: first(rows.Slots), Positions: first(rows.Positions), Count: rows.Count}
		l = r.record(l, in, rows, tree.Map(d, first), allocated)
		l.Rounds = Add(l.Rounds, ConvertDType(GreaterThan(rows.Count, ZerosLike(rows.Count)), dtypes.Int32))
		return l
	})
}

// accept is recordDrafts for a step that has drafts. A sampled token is the same as without drafts if all drafts before
// it equal the sampled tokens. accept drops the other sampled tokens and removes their drafts from the cache.
func (r recorder) accept(l loop, in input, packed stepTokens, indices *Node, rows samplers, d drawn,
	allocated seqtable.Status) loop {
	g := rows.Slots.Graph()
	slots, width := r.Slots, rows.Slots.Shape().Size()
	ids := Iota(g, shapes.Make(dtypes.Int32, slots), 0)
	none := FillScalar(g, ids.Shape(), -1)

	// The first row of each slot.
	before := Concatenate([]*Node{FillScalar(g, shapes.Make(dtypes.Int32, 1), -1),
		SliceAxis(rows.Slots, 0, AxisRange(0, width-1))}, 0)
	isFirst := LogicalAnd(GreaterOrEqual(rows.Slots, ZerosLike(before)), NotEqual(rows.Slots, before))
	first := control.ScatterSet(none, Where(isFirst, rows.Slots, FillScalar(g, before.Shape(), float64(slots))),
		Iota(g, before.Shape(), 0))
	drew := GreaterOrEqual(first, ZerosLike(first))
	drafts := SliceAxis(packed.Drafts.Counts, 0, AxisRangeFromStart(slots))
	inputs := take(packed.Tokens, indices)

	began := l.Out.Columns
	end := control.While(accepting{l, integer(g, 0), drew, none, none, LessThan(ids, ZerosLike(ids))},
		func(a accepting) *Node { return anyTrue(a.Alive) },
		func(a accepting) accepting {
			row := Min(Add(first, a.Round), integer(g, width-1))
			now := samplers{Slots: Where(a.Alive, ids, none), Positions: take(rows.Positions, row), Count: rows.Count}
			current := tree.Map(d, func(x *Node) *Node { return take(x, row) })
			l, finish := r.note(a.Loop, in, now, current)
			l.Out.Columns = AddScalar(l.Out.Columns, 1)
			done := LogicalAnd(a.Alive, GreaterThan(finish, integer(g, int(schedule.Running))))
			expected := take(inputs, Min(AddScalar(row, 1), integer(g, width-1)))
			continues := LogicalAnd(LogicalAnd(a.Alive, LogicalNot(done)),
				LogicalAnd(LessThan(a.Round, drafts), Equal(current.Tokens, expected)))
			return accepting{l, AddScalar(a.Round, 1), continues, Where(a.Alive, current.Tokens, a.Tokens),
				Where(a.Alive, now.Positions, a.Positions), LogicalOr(a.Done, done)}
		})
	l = end.Loop

	// The tokens after each slot's last accepted token were drafted wrongly.
	rest := FillScalar(g, shapes.Make(dtypes.Int32, r.Rows()-slots), -1)
	lens := Where(LogicalAnd(drew, GreaterThan(drafts, ZerosLike(drafts))), end.Positions, none)
	l.Out.Status = l.Out.Status.Then(allocated)
	l = r.retract(l, Concatenate([]*Node{lens, rest}, 0))

	last := samplers{Slots: Where(drew, ids, none), Positions: end.Positions, Count: rows.Count}
	l = r.advance(l, last, end.Tokens, end.Done)
	free := l.State.Pages.NumFree()
	column := Iota(g, l.Out.FreePages.Shape(), 0)
	filled := LogicalAnd(GreaterOrEqual(column, began), LessThan(column, l.Out.Columns))
	l.Out.FreePages = Where(filled, BroadcastToDims(free, r.Columns()), l.Out.FreePages)
	l.Out.MinFree = Min(l.Out.MinFree, free)
	l.Rounds = Add(l.Rounds, ConvertDType(anyTrue(drew), dtypes.Int32))

	// Each of the tokens of a slot is a position further than the one before.
	firstAt := take(rows.Positions, first)
	ofSlots := Where(drew, Sub(end.Positions, firstAt), ZerosLike(ids))
	if r.Drafts.Adapts {
		trust := &l.State.Extras.Drafts.Trust
		*trust = trust.learn(SliceAxis(packed.Drafts.Classes, 0, AxisRangeFromStart(slots)), drafts, ofSlots, end.Done)
	}
	accepted := ReduceAllSum(ofSlots)
	l.Out.Drafts = Add(l.Out.Drafts, Stack([]*Node{packed.Drafted, accepted}, 0))
	l.Out.DecodeTokens = Add(l.Out.DecodeTokens, accepted)
	return r.checked(l)
}

// retract truncates sequences to lens, i32[R], if they are longer; -1 leaves a sequence as it is. Only sequences that
// had drafts in this step are truncated.
func (r recorder) retract(l loop, lens *Node) loop {
	before := l.State.Pages
	var retracted seqtable.Status
	l.State.Sequences, l.State.Pages, retracted = l.State.Sequences.Retract(before, lens, r.Nobody()*r.PagesPerSeq)
	l.State.Caches = r.zeroFreed(l.State.Caches, before, l.State.Pages)
	l.Out.Status = l.Out.Status.Then(retracted)
	return l
}
