package seqtable

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/scan"
)

// Adopt lets sequences give up pages for equal ones that others hold: slot s takes over the pages at places from[s] to
// to[s]-1 of slot sources[s], and its own there lose a reference. All three are int32 [R]; -1 as source leaves a slot
// as it is. That contents are equal is the caller's word; only full pages are taken over, for those are never written
// to.
//
// All slots give and take as the table was before. Faults, each of which leaves the slot as it is: [CodeInvalidSlot]
// where it or its source is not in use; [CodeInvalidPosition] where from is below 0, or one of the two has no full page
// before place to.
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

// Adopt gives up pages for those of others: see [Table.Adopt].
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
