package seqtable

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/scan"
)

// Clone begins sequences that have the first tokens of others: for each i with dst[i] not -1, slot dst[i] gets the
// first lens[i] tokens of slot src[i]. All three are int32 [C]; several clones may have the same source.
//
// Pages that lie wholly within lens[i] are shared. A page only partly within it is not, for the clone will write to it:
// the clone gets a fresh page there, and the caller must copy the contents of page srcPages[i] to dstPages[i], int32
// [C], -1 where there is nothing to copy.
//
// Faults, each of which leaves out the clone concerned: [CodeInvalidSlot] where src[i] is not in use, or dst[i] is in
// use, out of range or named before; [CodeInvalidPosition] where the source has fewer than lens[i] tokens;
// [CodeOutOfPages] where there is no page for the partial one; [CodeInvalidPage].
func (t Table) Clone(pages pagetable.Table, src, dst, lens *Node) (after Table, afterPages pagetable.Table, srcPages,
	dstPages *Node, status Status) {
	return t.Fork(pages, src, dst, lens, ConvertDType(ZerosLike(src), dtypes.Bool))
}

// Fork is [Table.Clone], but that a clone for which lazy, bool [C], holds shares the partial page too, and takes none.
// Before either of the two writes to it, that one must [Table.Own] it.
func (t Table) Fork(pages pagetable.Table, src, dst, lens, lazy *Node) (after Table, afterPages pagetable.Table,
	srcPages, dstPages *Node, status Status) {
	g := src.Graph()
	clones, slots, pp := src.Shape().Dimensions[0], t.NumSlots(), t.PagesPerSeq()
	none, zero := full(g, -1, clones), full(g, 0, clones)

	wanted := NotEqual(dst, none)
	sourceOK := LogicalAnd(t.inRange(src), gatherMask(t.Used, src))
	sourceLens := gather(t.SeqLens, src)
	lensOK := LogicalAnd(GreaterOrEqual(lens, zero), LessOrEqual(lens, sourceLens))
	slotOK := LogicalAnd(t.inRange(dst), LogicalNot(gatherMask(t.Used, dst)))
	claims := LogicalAnd(LogicalAnd(wanted, slotOK), LogicalAnd(sourceOK, lensOK))
	// Of several claims to a slot the first has it.
	claimants := ScatterMin(full(g, clones, slots), InsertAxes(clip(dst, slots), -1),
		Where(claims, iota32(g, clones), full(g, clones, clones)), false, false)
	valid := LogicalAnd(claims, Equal(gather(claimants, dst), iota32(g, clones)))
	status = firstFault(faultCodes{code: zero, need: zero, have: zero, slot: Where(sourceOK, dst, src)}.
		set(LogicalAnd(wanted, LogicalNot(LogicalAnd(sourceOK, slotOK))), CodeInvalidSlot, zero, zero).
		setAt(LogicalAnd(wanted, LogicalNot(lensOK)), CodeInvalidPosition, lens, sourceLens, src).
		set(LogicalAnd(claims, LogicalNot(valid)), CodeInvalidSlot, zero, zero))

	fullPages := DivScalar(MaxScalar(lens, 0), t.PageSize)
	partial := LogicalAnd(LogicalAnd(valid, LogicalNot(lazy)), NotEqual(lens, MulScalar(fullPages, t.PageSize)))
	sharedPages := Where(lazy, t.pagesFor(MaxScalar(lens, 0)), fullPages)
	have := pages.NumFree()
	pages, fresh, short := pages.Allocate(partial)
	copies := LogicalAnd(partial, GreaterOrEqual(fresh, zero))
	pages = t.mark(pages, fresh, dst, fullPages)
	done := LogicalAnd(valid, LogicalOr(copies, LogicalNot(partial)))
	need := scan.Count(partial)
	outOfPages := Status{Code: scalar(g, CodeOutOfPages), Need: need, Have: have,
		Slot: scalar(g, -1)}.When(GreaterThan(short, scalar(g, 0)))

	place := Iota(g, shapes.Make(dtypes.Int32, clones, pp), 1)
	sourceRows := gather(t.PageIndices, src)
	isShared := LessThan(place, column(sharedPages, pp))
	isPartial := LogicalAnd(Equal(place, column(fullPages, pp)), column(copies, pp))
	empty := full(g, -1, clones, pp)
	shared := Where(LogicalAnd(isShared, column(done, pp)), sourceRows, empty)
	order := iota32(g, clones)
	lastDone := ReduceAllMax(Where(done, AddScalar(order, 1), zero))
	pages, invalid := pages.ShareAll(tallyRows(pages, shared, order, lastDone))

	rows := Where(isPartial, column(fresh, pp), shared)
	to := Where(done, dst, none)
	srcPages = Where(copies, ReduceMax(Where(isPartial, sourceRows, empty), 1), none)
	dstPages = Where(copies, fresh, none)
	t.PageIndices = control.ScatterSet(t.PageIndices, to, rows)
	t.SeqLens = control.ScatterSet(t.SeqLens, to, lens)
	t.CloneSources = control.ScatterSet(t.CloneSources, to, src)
	t.Used = LogicalOr(t.Used, t.marked(to))

	status = status.Then(outOfPages).Then(Status{Code: scalar(g, CodeInvalidPage), Need: invalid,
		Have: scalar(g, pages.NumPages()), Slot: scalar(g, -1)}.
		When(GreaterThan(invalid, scalar(g, 0))))
	return t, pages, srcPages, dstPages, status
}
