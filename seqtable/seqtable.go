// Package seqtable records on the device which slot holds which sequence, how long each is and which KV pages it uses.
// It opens, extends, clones and releases sequences by whole-array operations inside a program.
//
// Only package pagetable counts the references of pages. Methods here that change the counts take that table and return
// it. Clearing is logical: a released slot is all clear here, and its pages keep their contents. A page is written only
// while one sequence alone holds it, so full pages can be shared. [Host] is the plain-Go twin.
package seqtable

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/pagetable"
)

// Table describes R slots, each for one sequence of up to PP pages. A slot that is not used is all clear: length 0, no
// pages, no source.
type Table struct {
	SeqLens      *Node // int32 [R]: tokens of each sequence that have, or get in this step, a place in the cache.
	PageIndices  *Node // int32 [R, PP]: its pages, in order of position; -1 = none.
	Used         *Node // bool [R].
	CloneSources *Node // int32 [R]: the slot it was cloned from, while that one lives; -1 = none.
	// Owners, int32 [R], is for whom a slot takes pages: the pages are marked with Owner * PP + place, see
	// [pagetable.Table.Mark]. It has a meaning only in used slots.
	Owners   *Node
	PageSize int // Tokens a page.
}

// New returns a table of slots unused slots, for sequences of up to pagesPerSeq pages of pageSize tokens.
func New(g *Graph, slots, pagesPerSeq, pageSize int) Table {
	if slots < 1 || pagesPerSeq < 1 || pageSize < 1 {
		panic(fmt.Errorf("seqtable.New: slots %d, pages a sequence %d and page size %d must be at least 1", slots,
			pagesPerSeq, pageSize))
	}
	return Table{
		SeqLens:      Zeros(g, shapes.Make(dtypes.Int32, slots)),
		PageIndices:  full(g, -1, slots, pagesPerSeq),
		Used:         ConvertDType(Zeros(g, shapes.Make(dtypes.Int32, slots)), dtypes.Bool),
		CloneSources: full(g, -1, slots),
		Owners:       iota32(g, slots),
		PageSize:     pageSize,
	}
}

// NumSlots is R.
func (t Table) NumSlots() int { return t.SeqLens.Shape().Dimensions[0] }

// PagesPerSeq is PP.
func (t Table) PagesPerSeq() int { return t.PageIndices.Shape().Dimensions[1] }

// Capacity is the longest sequence, in tokens.
func (t Table) Capacity() int { return t.PagesPerSeq() * t.PageSize }

// Open begins an empty sequence in each slot for which mask, bool [R], holds. A slot in use stays as it is, and is
// reported as [CodeInvalidSlot].
func (t Table) Open(mask *Node) (Table, Status) {
	fault := LogicalAnd(mask, t.Used)
	slots := iota32(mask.Graph(), t.NumSlots())
	status := firstFault(faultCodes{
		code: where(fault, CodeInvalidSlot, ZerosLike(slots)),
		need: ZerosLike(slots), have: ZerosLike(slots), slot: slots,
	})
	t.Used = LogicalOr(t.Used, mask)
	return t, status
}

// Release ends the sequence of each slot for which mask, bool [R], holds: the slot becomes all clear, and each of its
// pages loses one reference. Slots that are not used stay as they are. Faults are [CodeDoubleFree] and
// [CodeInvalidPage].
//
// A table that keeps pages keeps the pages that are wholly within the first keep tokens, int32 [R]; nil = all full
// ones.
func (t Table) Release(pages pagetable.Table, mask, keep *Node) (Table, pagetable.Table, Status) {
	g := mask.Graph()
	order, count := scan.Positions(LogicalAnd(mask, t.Used), t.NumSlots())
	if keep == nil {
		keep = t.SeqLens
	} else {
		keep = Min(keep, t.SeqLens)
	}
	pages, doubleFree, invalid := pages.ReleaseAll(t.tallyOld(pages, t.PageIndices, keep, order, count))
	none := full(g, -1, t.NumSlots())
	sourceGone := LogicalAnd(GreaterOrEqual(t.CloneSources, ZerosLike(none)), gatherMask(mask, t.CloneSources))
	t.CloneSources = Where(LogicalOr(mask, sourceGone), none, t.CloneSources)
	t.SeqLens = Where(mask, ZerosLike(t.SeqLens), t.SeqLens)
	t.Used = LogicalAnd(t.Used, LogicalNot(mask))
	t.PageIndices = Where(BroadcastToShape(InsertAxes(mask, 1),
		shapes.Make(dtypes.Bool, t.PageIndices.Shape().Dimensions...)),
		full(g, -1, t.NumSlots(), t.PagesPerSeq()), t.PageIndices)

	return t, pages, releaseStatus(pages, doubleFree, invalid)
}

// releaseStatus is what a release of pages comes to.
func releaseStatus(pages pagetable.Table, doubleFree, invalid *Node) Status {
	g := doubleFree.Graph()
	zero, anywhere := scalar(g, 0), scalar(g, -1)
	return Status{Code: scalar(g, CodeDoubleFree), Need: doubleFree, Have: zero,
		Slot: anywhere}.When(GreaterThan(doubleFree, zero)).
		Then(Status{Code: scalar(g, CodeInvalidPage), Need: invalid, Have: scalar(g, pages.NumPages()),
			Slot: anywhere}.When(GreaterThan(invalid, zero)))
}

// tallying is the state of tallyRows' loop.
type tallying struct {
	Row   *Node // int32 scalar: rows done.
	Tally pagetable.Tally
}

// tallyRows counts the pages of some rows of matrix, int32 [M, PP]: of the first count that order, int32 [M], names. It
// loops over a few rows at a time, so its cost follows the sequences that begin or end, which are few in most steps,
// and not the size of the table.
func tallyRows(pages pagetable.Table, matrix, order, count *Node) pagetable.Tally {
	return control.While(tallying{Row: scalar(matrix.Graph(), 0), Tally: pages.NewTally()},
		func(s tallying) *Node { return LessThan(s.Row, count) },
		func(s tallying) tallying {
			return tallying{Row: AddScalar(s.Row, chunkRows(matrix)),
				Tally: s.Tally.Add(nextRows(matrix, order, count, s.Row))}
		}).Tally
}

// tallyOld is tallyRows of pages that are released, with the ages of the pages that are wholly within the first keep
// tokens, int32 [R].
func (t Table) tallyOld(pages pagetable.Table, matrix, keep, order, count *Node) pagetable.Tally {
	if !pages.Keeps() {
		return tallyRows(pages, matrix, order, count)
	}
	g := matrix.Graph()
	m, pp := matrix.Shape().Dimensions[0], matrix.Shape().Dimensions[1]
	place := Iota(g, shapes.Make(dtypes.Int32, m, pp), 1)
	kept := LessThan(place, column(DivScalar(MaxScalar(keep, 0), t.PageSize), pp))
	ages := Where(kept, pages.Age(place, pp), ZerosLike(place))
	return control.While(tallying{Row: scalar(g, 0), Tally: pages.NewTally().WithAges()},
		func(s tallying) *Node { return LessThan(s.Row, count) },
		func(s tallying) tallying {
			return tallying{Row: AddScalar(s.Row, chunkRows(matrix)),
				Tally: s.Tally.AddOld(nextRows(matrix, order, count, s.Row), nextRows(ages, order, count, s.Row))}
		}).Tally
}

// chunkRows is the number of rows of matrix [M, PP] whose pages are handled in one go.
func chunkRows(matrix *Node) int {
	return min(matrix.Shape().Dimensions[0], max(1, 512/matrix.Shape().Dimensions[1]))
}

// nextRows returns chunkRows rows of matrix, int32 [M, PP], as one vector: those named by order, int32 [M], from place
// at on. From place count on it is -1.
func nextRows(matrix, order, count, at *Node) *Node {
	g := matrix.Graph()
	m, pp := matrix.Shape().Dimensions[0], matrix.Shape().Dimensions[1]
	rows := chunkRows(matrix)
	places := Add(iota32(g, rows), broadcast(at, rows))
	live := LessThan(places, broadcast(count, rows))
	chosen := Gather(matrix, InsertAxes(clip(gather(order, places), m), -1))
	return Reshape(Where(column(live, pp), chosen, full(g, -1, rows, pp)), rows*pp)
}

// mark notes who took pages, int32 [N]: slots, for places in their sequences.
func (t Table) mark(pages pagetable.Table, taken, slots, places *Node) pagetable.Table {
	if !pages.Keeps() {
		return pages
	}
	return pages.Mark(taken, Add(MulScalar(gather(t.Owners, slots), t.PagesPerSeq()), places))
}

// marked, bool [R], reports whether slots, int32 [N], names the slot. Ids out of range name none.
func (t Table) marked(slots *Node) *Node {
	inRange := ConvertDType(t.inRange(slots), dtypes.Int32)
	counts := ScatterSum(ZerosLike(t.SeqLens), InsertAxes(clip(slots, t.NumSlots()), -1), inRange, false, false)
	return GreaterThan(counts, ZerosLike(counts))
}

func (t Table) inRange(slots *Node) *Node {
	return LogicalAnd(GreaterOrEqual(slots, ZerosLike(slots)), LessThan(slots, fillLike(slots, t.NumSlots())))
}

// checkSizes panics if destinations of tokens would not fit int32.
func (t Table) checkSizes(pages pagetable.Table) {
	if n := pages.NumPages(); n > math.MaxInt32/t.PageSize-1 {
		panic(fmt.Errorf("seqtable: %d pages of %d tokens exceed the range of int32", n, t.PageSize))
	}
}

func iota32(g *Graph, n int) *Node   { return Iota(g, shapes.Make(dtypes.Int32, n), 0) }
func scalar(g *Graph, v int) *Node   { return Scalar(g, dtypes.Int32, v) }
func broadcast(x *Node, n int) *Node { return BroadcastToDims(x, n) }
func fillLike(like *Node, v int) *Node {
	return BroadcastToShape(scalar(like.Graph(), v), like.Shape())
}
func full(g *Graph, v int, dims ...int) *Node {
	return BroadcastToDims(scalar(g, v), dims...)
}

// column repeats x [N] along a new last axis.
func column(x *Node, n int) *Node {
	return BroadcastToDims(InsertAxes(x, 1), x.Shape().Dimensions[0], n)
}

// clip makes indices safe for an axis of n: backends differ on indices out of range.
func clip(indices *Node, n int) *Node { return MinScalar(MaxScalar(indices, 0), n-1) }

// gather returns the elements (or rows) of x at indices, int32 [N], which may be out of range if the result is not
// used.
func gather(x, indices *Node) *Node {
	return Gather(x, InsertAxes(clip(indices, x.Shape().Dimensions[0]), -1))
}

// gatherMask is gather for bool, which not all backends gather.
func gatherMask(mask, indices *Node) *Node {
	found := gather(ConvertDType(mask, dtypes.Int32), indices)
	return GreaterThan(found, ZerosLike(found))
}

// where is Where with a constant.
func where(mask *Node, value int, otherwise *Node) *Node {
	return Where(mask, fillLike(otherwise, value), otherwise)
}
