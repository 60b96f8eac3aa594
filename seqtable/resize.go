package seqtable

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/scan"
)

// Truncate shortens the sequence of each slot to lens, int32 [R]; -1, or a length that it does not reach, leaves it as it is. Pages
// behind the new end lose a reference.
//
// What is left of a page that others hold too is not for this sequence to write to: it gets a fresh one, and the caller must copy the
// contents of page srcPages[i] to dstPages[i], int32 [R], -1 where there is nothing to copy. Where no page is left for that, the
// sequence ends before the partial page, and [CodeOutOfPages] is reported. Other faults are those of [Table.Release].
func (t Table) Truncate(pages pagetable.Table, lens *Node) (after Table, afterPages pagetable.Table, srcPages, dstPages *Node, status Status) {
	g := lens.Graph()
	slots, pp := t.NumSlots(), t.PagesPerSeq()
	zero, none := full(g, 0, slots), full(g, -1, slots)
	cut := LogicalAnd(t.Used, LogicalAnd(GreaterOrEqual(lens, zero), LessThan(lens, t.SeqLens)))
	place := Iota(g, shapes.Make(dtypes.Int32, slots, pp), 1)
	empty := full(g, -1, slots, pp)
	keep := t.pagesFor(lens)
	behind := LogicalAnd(column(cut, pp), GreaterOrEqual(place, column(keep, pp)))
	order, count := scan.Positions(cut, slots)
	pages, doubleFree, invalid := pages.ReleaseAll(tallyRows(pages, Where(behind, t.PageIndices, empty), order, count))
	t.PageIndices = Where(behind, empty, t.PageIndices)

	fullPages := DivScalar(MaxScalar(lens, 0), t.PageSize)
	isLast := Equal(place, column(fullPages, pp))
	last := ReduceMax(Where(LogicalAnd(isLast, column(cut, pp)), t.PageIndices, empty), 1)
	shared := LogicalAnd(GreaterOrEqual(last, zero), GreaterThan(gather(pages.RefCounts, last), full(g, 1, slots)))
	have := pages.NumFree()
	pages, fresh, short := pages.Allocate(shared)
	copies := LogicalAnd(shared, GreaterOrEqual(fresh, zero))
	given := pages.NewTally().Add(Where(shared, last, none))
	pages, _, _ = pages.ReleaseAll(given)
	t.PageIndices = Where(LogicalAnd(isLast, column(shared, pp)), column(fresh, pp), t.PageIndices)
	lens = Where(LogicalAnd(shared, LogicalNot(copies)), MulScalar(fullPages, t.PageSize), lens)
	t.SeqLens = Where(cut, lens, t.SeqLens)

	scalarZero, anywhere := scalar(g, 0), scalar(g, -1)
	status = Status{Code: scalar(g, CodeOutOfPages), Need: ReduceAllSum(ConvertDType(shared, dtypes.Int32)), Have: have, Slot: anywhere}.when(GreaterThan(short, scalarZero)).
		Then(Status{Code: scalar(g, CodeDoubleFree), Need: doubleFree, Have: scalarZero, Slot: anywhere}.when(GreaterThan(doubleFree, scalarZero))).
		Then(Status{Code: scalar(g, CodeInvalidPage), Need: invalid, Have: scalar(g, pages.NumPages()), Slot: anywhere}.when(GreaterThan(invalid, scalarZero)))
	return t, pages, Where(copies, last, none), Where(copies, fresh, none), status
}

// Grow makes the sequence of a slot as long as length, if it is shorter, with the pages for that: for contents that come from elsewhere
// than a step. slot and length are int32 scalars. taken, int32 [limit], is the new pages in order of position, -1 behind them; more than
// limit pages are refused.
//
// Faults, each of which changes nothing: [CodeInvalidSlot], [CodeSequenceTooLong] (also beyond limit), [CodeOutOfPages].
func (t Table) Grow(pages pagetable.Table, slot, length *Node, limit int) (after Table, afterPages pagetable.Table, taken *Node, status Status) {
	g := slot.Graph()
	slots, pp := t.NumSlots(), t.PagesPerSeq()
	at := Reshape(slot, 1)
	known := Reshape(LogicalAnd(t.inRange(at), gatherMask(t.Used, at)))
	old := Reshape(gather(t.SeqLens, at))
	held := Reshape(t.pagesFor(old))
	need := Max(Sub(Reshape(t.pagesFor(length)), held), scalar(g, 0))
	reach := Min(scalar(g, t.Capacity()), MulScalar(Add(held, scalar(g, limit)), t.PageSize))
	have := pages.NumFree()
	fits := LessOrEqual(length, reach)
	enough := LessOrEqual(need, have)
	ok := LogicalAnd(known, LogicalAnd(fits, enough))
	given := Where(ok, need, scalar(g, 0))
	pages, taken, _ = pages.Take(given, limit)

	// The k-th page goes to place held + k.
	rank := iota32(g, limit)
	nowhere := full(g, slots*pp, limit)
	to := Where(LessThan(rank, broadcast(given, limit)), Add(broadcast(Add(MulScalar(slot, pp), held), limit), rank), nowhere)
	t.PageIndices = Reshape(control.ScatterSet(Reshape(t.PageIndices, slots*pp), to, taken), slots, pp)
	t.SeqLens = control.ScatterSet(t.SeqLens, Reshape(Where(ok, slot, scalar(g, slots)), 1), Reshape(Max(old, length), 1))

	status = Status{Code: scalar(g, CodeInvalidSlot), Need: scalar(g, 0), Have: scalar(g, 0), Slot: slot}.when(LogicalNot(known)).
		Then(Status{Code: scalar(g, CodeSequenceTooLong), Need: length, Have: reach, Slot: slot}.when(LogicalAnd(known, LogicalNot(fits)))).
		Then(Status{Code: scalar(g, CodeOutOfPages), Need: need, Have: have, Slot: slot}.when(LogicalAnd(LogicalAnd(known, fits), LogicalNot(enough))))
	return t, pages, taken, status
}
