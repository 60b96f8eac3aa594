package seqtable

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/scan"
)

// Join lengthens sequences by pages that hold what comes next in them: slot s by the counts[s] pages from place
// starts[s] of named, int32 [N], on. starts and counts are int32 [R]; count 0 leaves a slot as it is. The pages are
// shared: somebody must hold them, see [pagetable.Table.Pin]. That their contents are right is the caller's word.
//
// Faults, each of which leaves the slot as it is: [CodeInvalidSlot] where it is not in use; [CodeInvalidPosition] where
// its last page is not full, or named has no such places; [CodeSequenceTooLong]. [CodeInvalidPage] says that pages are
// free or do not exist.
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
