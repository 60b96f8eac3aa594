// Package pagetable counts the references of KV pages on the device. It allocates, shares and releases pages by
// whole-array operations inside a program.
//
// A page is free exactly when its count is 0. Free pages that may be wanted again have an age: they are reused last,
// oldest first. Package seqtable knows which sequence holds which page, and package attention knows what the pages
// contain. [Host] is the plain-Go twin.
package pagetable

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
)

// Table counts the references of P pages. Page ids are int32 in [0, P); -1 stands for no page.
//
// The fields other than RefCounts exist only in a table that keeps pages: see [NewKeeping]. Otherwise they are nil.
type Table struct {
	// RefCounts, int32 [P], is the number of references to each page: references of sequences, and pins of the prefix
	// cache.
	RefCounts *Node
	// Ages, int32 [P], orders the free pages. Pages of age 0 are blank and are taken first, by index. Other free
	// pages are kept; if blank pages run short, the kept pages of the lowest ages are blanked first. The age of a
	// page that is not free is the one that it was last released with.
	Ages *Node
	// Takers, int32 [P], is who took each page since [Table.Begin]: see [Table.Mark]; -1 = nobody. A page keeps its
	// contents until it is taken.
	Takers *Node
	Clock  *Node // int32 scalar: counts calls of Begin, up to maxClock
}

// New returns a table of free pages.
func New(g *Graph, pages int) Table {
	return Table{RefCounts: Zeros(g, shapes.Make(dtypes.Int32, pages))}
}

// NewKeeping is New for a table that keeps free pages.
func NewKeeping(g *Graph, pages int) Table {
	t := New(g, pages)
	t.Ages, t.Takers = ZerosLike(t.RefCounts), nobody(t.RefCounts)
	t.Clock = ScalarZero(g, dtypes.Int32)
	return t
}

// Depths is how many depths in a sequence an age distinguishes among pages that are released at the same time.
const Depths = 64

// maxClock is the last value of the clock: pages that are released later all have the same age. If a call takes a
// hundredth of a second, the clock reaches it after four days.
const maxClock = math.MaxInt32/Depths - 1

// Keeps reports whether free pages are kept.
func (t Table) Keeps() bool { return t.Ages != nil }

func nobody(like *Node) *Node { return AddScalar(ZerosLike(like), -1) }

// Begin advances the clock and clears Takers.
func (t Table) Begin() Table {
	if t.Keeps() {
		t.Clock, t.Takers = MinScalar(AddScalar(t.Clock, 1), maxClock), nobody(t.Takers)
	}
	return t
}

// Mark records that pages, int32 [M], were taken by by, int32 [M]; a page of -1 is ignored.
func (t Table) Mark(pages, by *Node) Table {
	if t.Keeps() {
		nowhere := AddScalar(ZerosLike(pages), float64(t.NumPages()))
		isPage := GreaterOrEqual(pages, ZerosLike(pages))
		t.Takers = control.ScatterSet(t.Takers, Where(isPage, pages, nowhere), by)
	}
	return t
}

// Age returns the age, int32, of full pages that are released now. place, int32 of any shape, is how many pages
// precede a page in its sequence, which has at most most pages. The last pages of a sequence are the oldest.
func (t Table) Age(place *Node, most int) *Node {
	depth := MinScalar(DivScalar(place, float64((most+Depths-1)/Depths)), Depths-1)
	begin := MulScalar(AddScalar(t.Clock, 1), Depths)
	return Sub(BroadcastToShape(AddScalar(begin, -1), place.Shape()), depth)
}

// NumPages returns P.
func (t Table) NumPages() int { return t.RefCounts.Shape().Dimensions[0] }

// NumFree returns the number of free pages, an int32 scalar.
func (t Table) NumFree() *Node {
	return scan.Count(t.free())
}

func (t Table) free() *Node { return Equal(t.RefCounts, ScalarZero(t.RefCounts.Graph(), dtypes.Int32)) }

// reclaimShare sets how many pages are blanked at once when blank pages run short: at least 1/reclaimShare of all
// pages, so that this is rare.
const reclaimShare = 16

// blank returns the mask of blank pages, bool [P]. At least n, an int32 scalar, are blank if that many pages are
// free.
func (t Table) blank(n *Node) (after Table, mask *Node) {
	free := t.free()
	if !t.Keeps() {
		return t, free
	}
	zero, none := ZerosLike(t.Ages), ScalarZero(n.Graph(), dtypes.Int32)
	upTo := func(age *Node) *Node { return LessOrEqual(t.Ages, BroadcastToShape(age, zero.Shape())) }
	short := Sub(n, scan.Count(LogicalAnd(free, Equal(t.Ages, zero))))
	isShort := GreaterThan(short, none)
	kept := LogicalAnd(free, GreaterThan(t.Ages, zero))
	many := Min(MaxScalar(short, max(1, t.NumPages()/reclaimShare)), scan.Count(kept))
	// Find the lowest age up to which there are many pages, by bisection. If there are enough blank pages, the loop
	// has no iterations.
	type span struct{ Low, High *Node }
	youngest := AddScalar(MulScalar(AddScalar(t.Clock, 1), Depths), -1)
	end := control.While(span{none, Where(isShort, youngest, none)},
		func(s span) *Node { return LessThan(s.Low, s.High) },
		func(s span) span {
			middle := Add(s.Low, DivScalar(Sub(s.High, s.Low), 2))
			enough := GreaterOrEqual(scan.Count(LogicalAnd(kept, upTo(middle))), many)
			return span{Where(enough, s.Low, AddScalar(middle, 1)), Where(enough, middle, s.High)}
		})
	t.Ages = Where(LogicalAnd(kept, upTo(end.High)), zero, t.Ages)
	return t, LogicalAnd(free, Equal(t.Ages, zero))
}

// Allocate assigns a page, with one reference, to each set element of need, bool [M]: the k-th of them gets the k-th
// blank page. pages, int32 [M], is -1 if none is needed or none is left; short, an int32 scalar, counts the unmet
// needs.
func (t Table) Allocate(need *Node) (after Table, pages, short *Node) {
	m := need.Shape().Dimensions[0]
	needs := ConvertDType(need, dtypes.Int32)
	ranks := scan.Sum(needs)
	wanted := Reshape(SliceAxis(ranks, 0, AxisElem(m-1)))
	after, taken, have := t.Take(wanted, m)
	none := MulScalar(OnesLike(ranks), -1)
	pages = Where(need, Gather(taken, InsertAxes(MaxScalar(AddScalar(ranks, -1), 0), -1)), none)
	return after, pages, Max(Sub(wanted, have), ScalarZero(need.Graph(), dtypes.Int32))
}

// Take allocates the first n blank pages, in order, with one reference each. n is an int32 scalar of at most the
// static bound limit. pages, int32 [limit], is -1 from the n-th on and if no free page is left; have is the number of
// pages that were free. The caller must Mark the pages that it takes.
func (t Table) Take(n *Node, limit int) (after Table, pages, have *Node) {
	g := n.Graph()
	have = t.NumFree()
	t, blank := t.blank(n)
	positions, _ := scan.Positions(blank, limit)
	ranks := Iota(g, shapes.Make(dtypes.Int32, limit), 0)
	granted := LessThan(ranks, BroadcastToShape(Min(n, have), ranks.Shape()))
	pages = Where(granted, positions, MulScalar(OnesLike(positions), -1))
	t.RefCounts = t.add(t.RefCounts, pages, granted)
	return t, pages, have
}

// Share adds a reference to each page of pages, int32 [M], as often as it is listed; -1 is no page. A reference to a
// page that is free or does not exist is not added but counted in invalid, an int32 scalar.
func (t Table) Share(pages *Node) (after Table, invalid *Node) {
	return t.ShareAll(t.NewTally().Add(pages))
}

// Pin adds a reference to each page of pages, int32 [M], as often as it is listed, including free pages; -1 is no
// page. Ids of pages that do not exist are counted in invalid.
func (t Table) Pin(pages *Node) (after Table, invalid *Node) {
	y := t.NewTally().Add(pages)
	t.RefCounts = Add(t.RefCounts, y.Counts)
	return t, y.Invalid
}

// Release drops a reference to each page of pages, int32 [M], as often as it is listed; -1 is no page. No count falls
// below 0: releases beyond it are counted in doubleFree, and ids of pages that do not exist in invalid (int32
// scalars).
func (t Table) Release(pages *Node) (after Table, doubleFree, invalid *Node) {
	return t.ReleaseAll(t.NewTally().Add(pages))
}

// Tally counts how often pages are listed over several lists. With it, many pages are shared or released a few at a
// time without a pass over the whole table for each list.
type Tally struct {
	Counts  *Node // int32 [P].
	Invalid *Node // int32 scalar: how many ids are neither -1 nor a page of the table.
	Ages    *Node // int32 [P]: the highest age that a page was listed with; nil without ages.
}

// NewTally returns a tally of the table's pages, all zero.
func (t Table) NewTally() Tally {
	return Tally{Counts: ZerosLike(t.RefCounts), Invalid: ScalarZero(t.RefCounts.Graph(), dtypes.Int32)}
}

// WithAges returns the tally with ages, for AddOld.
func (y Tally) WithAges() Tally {
	y.Ages = ZerosLike(y.Counts)
	return y
}

// Add counts pages, int32 [M]; -1 is no page.
func (y Tally) Add(pages *Node) Tally {
	t := Table{RefCounts: y.Counts}
	exists := t.exists(pages)
	isPage := NotEqual(pages, Scalar(pages.Graph(), dtypes.Int32, -1))
	y.Counts = t.add(y.Counts, pages, exists)
	y.Invalid = Add(y.Invalid, scan.Count(LogicalAnd(isPage, LogicalNot(exists))))
	return y
}

// AddOld is Add for pages that are released with ages, int32 [M].
func (y Tally) AddOld(pages, ages *Node) Tally {
	t := Table{RefCounts: y.Counts}
	known := Where(t.exists(pages), ages, ZerosLike(ages))
	y = y.Add(pages)
	y.Ages = ScatterMax(y.Ages, InsertAxes(t.clip(pages), -1), known, false, false)
	return y
}

// ShareAll is [Table.Share] for the pages of a tally.
func (t Table) ShareAll(y Tally) (after Table, invalid *Node) {
	zero := ZerosLike(y.Counts)
	free := t.free()
	t.RefCounts = Add(t.RefCounts, Where(free, zero, y.Counts))
	return t, Add(y.Invalid, ReduceAllSum(Where(free, y.Counts, zero)))
}

// ReleaseAll is [Table.Release] for the pages of a tally. Pages that were added with ages are kept.
func (t Table) ReleaseAll(y Tally) (after Table, doubleFree, invalid *Node) {
	zero := ZerosLike(y.Counts)
	doubleFree = ReduceAllSum(Max(Sub(y.Counts, t.RefCounts), zero))
	t.RefCounts = Max(Sub(t.RefCounts, y.Counts), zero)
	if y.Ages != nil {
		t.Ages = Max(t.Ages, y.Ages)
	}
	return t, doubleFree, y.Invalid
}

// Return is [Table.ReleaseAll] for pages that were taken since Begin and whose contents are meaningless. They become
// blank, and their taker becomes by, which stands for no known taker.
func (t Table) Return(y Tally, by int) (after Table, doubleFree, invalid *Node) {
	if t.Keeps() {
		zero := ZerosLike(y.Counts)
		t.Takers = Where(GreaterThan(y.Counts, zero), AddScalar(zero, by), t.Takers)
	}
	return t.ReleaseAll(y)
}

// add returns counts [P], incremented at each page whose mask is set.
func (t Table) add(counts, pages, mask *Node) *Node {
	return ScatterSum(counts, InsertAxes(t.clip(pages), -1), ConvertDType(mask, dtypes.Int32), false, false)
}

// clip makes ids safe as indices, because backends differ in how they treat indices out of range.
func (t Table) clip(pages *Node) *Node {
	return MinScalar(MaxScalar(pages, 0), t.NumPages()-1)
}

func (t Table) exists(pages *Node) *Node {
	return LogicalAnd(
		GreaterOrEqual(pages, ScalarZero(pages.Graph(), dtypes.Int32)),
		LessThan(pages, Scalar(pages.Graph(), dtypes.Int32, t.NumPages())))
}
