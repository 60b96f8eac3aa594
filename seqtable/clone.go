package seqtable

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/pagetable"
)

// Clone begins sequences that have the first tokens of others: for each i with dst[i] not -1, slot dst[i] gets the
// first lens[i] tokens of slot src[i]. All three are int32 [C]; several clones may have the same source.
//
// Pages that lie wholly within lens[i] are shared. A page only partly within it is not, for the clone will write to it:
// the clone gets a fresh page there, and the caller must copy the contents of page srcPages[i] to dstPages[i], int32
// [C], -1 if there is nothing to copy.
//
// Faults, each of which leaves out the clone concerned: [CodeInvalidSlot] if src[i] is not in use, or dst[i] is in use,
// out of range or named before; [CodeInvalidPosition] if the source has fewer than lens[i] tokens; [CodeOutOfPages] if
// there is no page for the partial one; [CodeInvalidPage].
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

// Adopt lets sequences give up pages for equal ones that others hold: slot s takes over the pages at places from[s] to
// to[s]-1 of slot sources[s], and its own there lose a reference. All three are int32 [R]; -1 as source leaves a slot
// as it is. That contents are equal is the caller's word; only full pages are taken over, for those are never written
// to.
//
// All slots give and take according to the table before the call. Faults, each of which leaves the slot as it is:
// [CodeInvalidSlot] if it or its source is not in use; [CodeInvalidPosition] if from is below 0, or one of the two has
// no full page before place to.
func (t Table) Adopt(pages pagetable.Table, sources, from, to *Node) (after Table, afterPages pagetable.Table,
	status Status) {
	g := sources.Graph()
	slots, pp := t.NumSlots(), t.PagesPerSeq()
	own, zero := iota32(g, slots), full(g, 0, slots)
	wanted := NotEqual(sources, full(g, -1, slots))
	sourceOK := LogicalAnd(t.inRange(sources), gatherMask(t.Used, sources))
	both := LogicalAnd(sourceOK, t.Used)
	lens := Min(t.SeqLens, gather(t.SeqLens, sources))
	end := MulScalar(to, t.PageSize)
	placeOK := LogicalAnd(GreaterOrEqual(from, zero), LessOrEqual(end, lens))
	status = firstFault(faultCodes{code: zero, need: zero, have: zero, slot: Where(sourceOK, own, sources)}.
		set(LogicalAnd(wanted, LogicalNot(both)), CodeInvalidSlot, zero, zero).
		set(LogicalAnd(LogicalAnd(wanted, both), LogicalNot(placeOK)), CodeInvalidPosition, end, lens))

	ok := LogicalAnd(wanted, LogicalAnd(both, placeOK))
	place := Iota(g, shapes.Make(dtypes.Int32, slots, pp), 1)
	within := LogicalAnd(column(ok, pp), LogicalAnd(GreaterOrEqual(place, column(from, pp)),
		LessThan(place, column(to, pp))))
	taken := gather(t.PageIndices, sources)
	empty := full(g, -1, slots, pp)
	order, count := scan.Positions(ok, slots)
	pages, shareInvalid := pages.ShareAll(tallyRows(pages, Where(within, taken, empty), order, count))
	pages, doubleFree, invalid := pages.ReleaseAll(tallyRows(pages, Where(within, t.PageIndices, empty), order, count))
	t.PageIndices = Where(within, taken, t.PageIndices)

	none, anywhere := scalar(g, 0), scalar(g, -1)
	invalid = Add(invalid, shareInvalid)
	return t, pages, status.
		Then(Status{Code: scalar(g, CodeDoubleFree), Need: doubleFree, Have: none,
			Slot: anywhere}.When(GreaterThan(doubleFree, none))).
		Then(Status{Code: scalar(g, CodeInvalidPage), Need: invalid, Have: scalar(g, pages.NumPages()),
			Slot: anywhere}.When(GreaterThan(invalid, none)))
}

// Adopt replaces pages with pages of other sequences: see [Table.Adopt].
func (h *Host) Adopt(pages *pagetable.Host, sources, from, to []int32) (err error) {
	before := make([][]int32, len(h.Rows))
	for s, row := range h.Rows {
		before[s] = append([]int32(nil), row.Pages...)
	}
	var share, release []int32
	for s := range h.Rows {
		source, row := sources[s], &h.Rows[s]
		switch {
		case source == -1:
			continue
		case !h.used(source):
			err = first(err, ErrInvalidSlot{Slot: int(source)})
			continue
		case !row.Used:
			err = first(err, ErrInvalidSlot{Slot: s})
			continue
		}
		if n := min(row.Len, h.Rows[source].Len); from[s] < 0 || int(to[s])*h.PageSize > n {
			err = first(err, ErrInvalidPosition{Slot: s, Position: int(to[s]) * h.PageSize, Length: n})
			continue
		}
		for p := from[s]; p < to[s]; p++ {
			share, release = append(share, before[source][p]), append(release, before[s][p])
			row.Pages[p] = before[source][p]
		}
	}
	pages.Share(share)
	pages.Release(release)
	return err
}

// Join lengthens sequences by pages that hold what comes next in them: slot s by the counts[s] pages from place
// starts[s] of named, int32 [N], on. starts and counts are int32 [R]; count 0 leaves a slot as it is. The pages are
// shared: somebody must hold them, see [pagetable.Table.Pin]. That their contents are right is the caller's word.
//
// Faults, each of which leaves the slot as it is: [CodeInvalidSlot] if it is not in use; [CodeInvalidPosition] if its
// last page is not full, or named has no such places; [CodeSequenceTooLong]. [CodeInvalidPage] if pages are free or do
// not exist.
func (t Table) Join(pages pagetable.Table, named, starts, counts *Node) (after Table, afterPages pagetable.Table,
	status Status) {
	g := named.Graph()
	slots, pp, n := t.NumSlots(), t.PagesPerSeq(), named.Shape().Dimensions[0]
	zero := full(g, 0, slots)
	wanted := NotEqual(counts, zero)
	held := DivScalar(t.SeqLens, t.PageSize)
	whole := LogicalAnd(Equal(MulScalar(held, t.PageSize), t.SeqLens), LogicalAnd(GreaterThan(counts, zero),
		LogicalAnd(GreaterOrEqual(starts, zero), LessOrEqual(Add(starts, counts), fillLike(starts, n)))))
	reach := Add(held, counts)
	fits := LessOrEqual(reach, fillLike(reach, pp))
	status = firstFault(faultCodes{code: zero, need: zero, have: zero, slot: iota32(g, slots)}.
		set(LogicalAnd(wanted, LogicalNot(t.Used)), CodeInvalidSlot, zero, zero).
		set(LogicalAnd(wanted, LogicalNot(whole)), CodeInvalidPosition, t.SeqLens, t.SeqLens).
		set(LogicalAnd(wanted, LogicalNot(fits)), CodeSequenceTooLong, MulScalar(reach, t.PageSize),
			fillLike(reach, t.Capacity())))

	ok := LogicalAnd(LogicalAnd(wanted, t.Used), LogicalAnd(whole, fits))
	place := Iota(g, shapes.Make(dtypes.Int32, slots, pp), 1)
	within := LogicalAnd(column(ok, pp), LogicalAnd(GreaterOrEqual(place, column(held, pp)),
		LessThan(place, column(reach, pp))))
	at := Add(column(starts, pp), Sub(place, column(held, pp)))
	taken := Reshape(gather(named, Reshape(at, slots*pp)), slots, pp)
	empty := full(g, -1, slots, pp)
	order, count := scan.Positions(ok, slots)
	pages, invalid := pages.ShareAll(tallyRows(pages, Where(within, taken, empty), order, count))
	t.PageIndices = Where(within, taken, t.PageIndices)
	t.SeqLens = Where(ok, MulScalar(reach, t.PageSize), t.SeqLens)
	return t, pages, status.Then(Status{Code: scalar(g, CodeInvalidPage), Need: invalid,
		Have: scalar(g, pages.NumPages()), Slot: scalar(g, -1)}.When(GreaterThan(invalid, scalar(g, 0))))
}

// Join lengthens sequences by named pages: see [Table.Join].
func (h *Host) Join(pages *pagetable.Host, named, starts, counts []int32) (err error) {
	var share []int32
	for s := range h.Rows {
		row := &h.Rows[s]
		start, n := int(starts[s]), int(counts[s])
		switch reach := row.Len/h.PageSize + n; {
		case n == 0:
			continue
		case !row.Used:
			err = first(err, ErrInvalidSlot{Slot: s})
			continue
		case row.Len%h.PageSize != 0 || n < 0 || start < 0 || start+n > len(named):
			err = first(err, ErrInvalidPosition{Slot: s, Position: row.Len, Length: row.Len})
			continue
		case reach > h.PagesPerSeq:
			err = first(err, ErrSequenceTooLong{Slot: s, Need: reach * h.PageSize, Have: h.PagesPerSeq * h.PageSize})
			continue
		}
		share = append(share, named[start:start+n]...)
		row.Pages = append(row.Pages[:len(row.Pages):len(row.Pages)], named[start:start+n]...)
		row.Len = len(row.Pages) * h.PageSize
	}
	if invalid := pages.Share(share); invalid > 0 {
		err = first(err, pagetable.ErrInvalidPage{Slot: -1, Count: invalid, Pages: len(pages.RefCounts)})
	}
	return err
}
