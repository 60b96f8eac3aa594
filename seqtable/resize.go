package seqtable

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/pagetable"
)

// Truncate shortens the sequence of each slot to lens, int32 [R]; -1, or a length that it does not reach, leaves it as
// it is. Pages after the new end lose a reference. The sequence must not write to a page that others hold too until
// [Table.Own] has given it a page of its own. Faults are the same as for [Table.Release].
func (t Table) Truncate(pages pagetable.Table, lens *Node) (after Table, afterPages pagetable.Table, status Status) {
	g := lens.Graph()
	slots, pp := t.NumSlots(), t.PagesPerSeq()
	cut := LogicalAnd(t.Used, LogicalAnd(GreaterOrEqual(lens, full(g, 0, slots)), LessThan(lens, t.SeqLens)))
	place := Iota(g, shapes.Make(dtypes.Int32, slots, pp), 1)
	empty := full(g, -1, slots, pp)
	behind := LogicalAnd(column(cut, pp), GreaterOrEqual(place, column(t.pagesFor(lens), pp)))
	order, count := scan.Positions(cut, slots)
	pages, doubleFree, invalid := pages.ReleaseAll(t.tallyOld(pages, Where(behind, t.PageIndices, empty), t.SeqLens,
		order, count))
	t.PageIndices = Where(behind, empty, t.PageIndices)
	t.SeqLens = Where(cut, lens, t.SeqLens)
	return t, pages, releaseStatus(pages, doubleFree, invalid)
}

// Retract takes back the last tokens of sequences, with the pages that they took since [pagetable.Table.Begin]: each
// sequence becomes as long as lens, int32 [R], if it was longer; -1 leaves it as it is. Nobody else has these pages,
// and their contents mean nothing: by, see [pagetable.Table.Return], took them. Faults are the same as for
// [Table.Release].
func (t Table) Retract(pages pagetable.Table, lens *Node, by int) (after Table, afterPages pagetable.Table,
	status Status) {
	g := lens.Graph()
	slots, pp := t.NumSlots(), t.PagesPerSeq()
	cut := LogicalAnd(t.Used, LogicalAnd(GreaterOrEqual(lens, full(g, 0, slots)), LessThan(lens, t.SeqLens)))
	gone := LogicalAnd(cut, LessThan(t.pagesFor(lens), t.pagesFor(t.SeqLens))) // few rows are cut
	t.SeqLens = Where(cut, lens, t.SeqLens)
	place := Iota(g, shapes.Make(dtypes.Int32, slots, pp), 1)
	behind := LogicalAnd(column(gone, pp), GreaterOrEqual(place, column(t.pagesFor(lens), pp)))
	empty := full(g, -1, slots, pp)
	order, count := scan.Positions(gone, slots)
	pages, doubleFree, invalid := pages.Return(tallyRows(pages, Where(behind, t.PageIndices, empty), order, count), by)
	t.PageIndices = Where(behind, empty, t.PageIndices)
	return t, pages, releaseStatus(pages, doubleFree, invalid)
}

// Own gives the sequence of each slot for which mask, bool [R], holds a page of its own in place of a partial one that
// others hold too, so that it may write there. The caller must copy the contents of page srcPages[i] to dstPages[i],
// int32 [R], -1 if there is nothing to copy. All slots are judged by the table before the call: two slots that share a
// page both get a new page.
//
// If no page is left, the sequence stays as it is, and [CodeOutOfPages] is reported.
func (t Table) Own(pages pagetable.Table, mask *Node) (after Table, afterPages pagetable.Table, srcPages,
	dstPages *Node, status Status) {
	g := mask.Graph()
	slots, pp := t.NumSlots(), t.PagesPerSeq()
	none := full(g, -1, slots)
	isLast := LogicalAnd(Equal(Iota(g, shapes.Make(dtypes.Int32, slots, pp), 1),
		column(DivScalar(t.SeqLens, t.PageSize), pp)), column(LogicalAnd(mask, t.Used), pp))
	last := ReduceMax(Where(isLast, t.PageIndices, full(g, -1, slots, pp)), 1)
	shared := LogicalAnd(GreaterOrEqual(last, full(g, 0, slots)),
		GreaterThan(gather(pages.RefCounts, last), full(g, 1, slots)))
	have := pages.NumFree()
	pages, fresh, short := pages.Allocate(shared)
	copies := LogicalAnd(shared, GreaterOrEqual(fresh, full(g, 0, slots)))
	pages = t.mark(pages, fresh, iota32(g, slots), DivScalar(t.SeqLens, t.PageSize))
	pages, _, _ = pages.ReleaseAll(pages.NewTally().Add(Where(copies, last, none)))
	t.PageIndices = Where(LogicalAnd(isLast, column(copies, pp)), column(fresh, pp), t.PageIndices)
	status = Status{Code: scalar(g, CodeOutOfPages), Need: scan.Count(shared), Have: have,
		Slot: scalar(g, -1)}.When(GreaterThan(short, scalar(g, 0)))
	return t, pages, Where(copies, last, none), Where(copies, fresh, none), status
}

// Grow makes the sequence of a slot as long as length, if it is shorter, with the pages for that: for contents that do
// not come from a step. slot and length are int32 scalars. taken, int32 [limit], is the new pages in order of position,
// -1 after them; more than limit pages are refused.
//
// Faults, each of which changes nothing: [CodeInvalidSlot], [CodeSequenceTooLong] (also beyond limit),
// [CodeOutOfPages].
func (t Table) Grow(pages pagetable.Table, slot, length *Node, limit int) (after Table, afterPages pagetable.Table,
	taken *Node, status Status) {
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
	pages = t.mark(pages, taken, broadcast(slot, limit), Add(broadcast(held, limit), rank))
	nowhere := full(g, slots*pp, limit)
	to := Where(LessThan(rank, broadcast(given, limit)), Add(broadcast(Add(MulScalar(slot, pp), held), limit), rank),
		nowhere)
	t.PageIndices = Reshape(control.ScatterSet(Reshape(t.PageIndices, slots*pp), to, taken), slots, pp)
	t.SeqLens = control.ScatterSet(t.SeqLens, Reshape(Where(ok, slot, scalar(g, slots)), 1),
		Reshape(Max(old, length), 1))

	status = Status{Code: scalar(g, CodeInvalidSlot), Need: scalar(g, 0), Have: scalar(g, 0),
		Slot: slot}.When(LogicalNot(known)).
		Then(Status{Code: scalar(g, CodeSequenceTooLong), Need: length, Have: reach,
			Slot: slot}.When(LogicalAnd(known, LogicalNot(fits)))).
		Then(Status{Code: scalar(g, CodeOutOfPages), Need: need, Have: have,
			Slot: slot}.When(LogicalAnd(LogicalAnd(known, fits), LogicalNot(enough))))
	return t, pages, taken, status
}
