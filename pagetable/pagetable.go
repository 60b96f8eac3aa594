// Package pagetable counts the references of KV pages on the device. It allocates, shares and releases pages by
// whole-array operations inside a program.
//
// A page is free exactly when its count is 0. Free pages that may be wanted again have an age: they are taken last, the
// oldest first. Package seqtable knows which sequence holds which page, and package attention knows what the pages
// contain. [Host] is the plain-Go twin.
package pagetable

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/scan"
)

// Table counts the references of P pages. Page ids are int32 in [0, P); -1 stands for no page.
//
// All but the counts is there only in a table that keeps pages: see [NewKeeping]. Else it is nil.
type Table struct {
	// RefCounts, int32 [P], is the number of references of each page: those of sequences, and pins of the prefix cache.
	RefCounts *Node
	// Ages, int32 [P], orders the free pages: 0 is blank, taken first, by index. Others are kept, and blanked when
	// blank ones run short, those with the lowest ages first. The age of a page that is not free stands for what it was
	// released with before.
	Ages *Node
	// Takers, int32 [P], is by whom each page was taken since [Table.Begin]: see [Table.Mark]; -1 = by nobody. Until it
	// is taken a page has the contents that it had.
	Takers *Node
	Clock  *Node // int32 []: counts calls of Begin, up to maxClock
}

// New returns a table of pages free pages.
func New(g *Graph, pages int) Table {
	return Table{RefCounts: Zeros(g, shapes.Make(dtypes.Int32, pages))}
}

// NewKeeping is New, for a table that keeps pages.
func NewKeeping(g *Graph, pages int) Table {
	t := New(g, pages)
	t.Ages, t.Takers = ZerosLike(t.RefCounts), nobody(t.RefCounts)
	t.Clock = ScalarZero(g, dtypes.Int32)
	return t
}

// Depths is how many places in a sequence an age tells apart, of pages that are released at the same time.
const Depths = 64

// maxClock is where the clock stops: pages that are released after that are all of the same age. A call a hundredth of
// a second long each, it is reached after four days.
const maxClock = math.MaxInt32/Depths - 1

// Keeps says that pages are kept.
func (t Table) Keeps() bool { return t.Ages != nil }

func nobody(like *Node) *Node { return AddScalar(ZerosLike(like), -1) }

// Begin moves the clock on, and forgets who took pages.
func (t Table) Begin() Table {
	if t.Keeps() {
		t.Clock, t.Takers = MinScalar(AddScalar(t.Clock, 1), maxClock), nobody(t.Takers)
	}
	return t
}

// Mark notes by whom pages, int32 [M], were taken: by, int32 [M]; -1 is no page.
func (t Table) Mark(pages, by *Node) Table {
	if t.Keeps() {
		nowhere := AddScalar(ZerosLike(pages), float64(t.NumPages()))
		isPage := GreaterOrEqual(pages, ZerosLike(pages))
		t.Takers = control.ScatterSet(t.Takers, Where(isPage, pages, nowhere), by)
	}
	return t
}

// Age is the age, int32, of full pages that are released now: place, int32 of any shape, is how many pages come before
// a page in its sequence, of most at most. Of a sequence the last pages are the oldest.
func (t Table) Age(place *Node, most int) *Node {
	depth := MinScalar(DivScalar(place, float64((most+Depths-1)/Depths)), Depths-1)
	begin := MulScalar(AddScalar(t.Clock, 1), Depths)
	return Sub(BroadcastToShape(AddScalar(begin, -1), place.Shape()), depth)
}

// NumPages is P.
func (t Table) NumPages() int { return t.RefCounts.Shape().Dimensions[0] }

// NumFree returns the number of free pages, an int32 scalar.
func (t Table) NumFree() *Node {
	return scan.Count(t.free())
}

func (t Table) free() *Node { return Equal(t.RefCounts, ScalarZero(t.RefCounts.Graph(), dtypes.Int32)) }

// reclaimShare is the part of all pages that are blanked at least when blank ones run short, so that this is rare.
const reclaimShare = 16

// blank returns the mask of blank pages, bool [P], of which there are n, int32 scalar, if that many are free.
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
	// The lowest age up to which there are so many, by bisection: no round where blank pages suffice.
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

// Allocate gives a page, with one reference, to each element of need, bool [M], that is set: the k-th of them gets the
// k-th blank page. pages, int32 [M], is -1 where none is needed or none is left; short, an int32 scalar, counts the
// needs unmet.
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

// Take gives the first n blank pages, in order, one reference each: n is an int32 scalar of at most the static bound
// limit. pages, int32 [limit], is -1 from the n-th on and where no free page is left; have is the number of pages that
// were free. Whoever takes pages must Mark them.
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

// Share adds a reference to each page of pages, int32 [M], as often as it is named; -1 is no page. A reference to a
// page that is free or does not exist is not added but counted in invalid, an int32 scalar.
func (t Table) Share(pages *Node) (after Table, invalid *Node) {
	return t.ShareAll(t.NewTally().Add(pages))
}

// Pin adds a reference to each page of pages, int32 [M], as often as it is named, also to free ones; -1 is no page. Ids
// of pages that do not exist are counted in invalid.
func (t Table) Pin(pages *Node) (after Table, invalid *Node) {
	y := t.NewTally().Add(pages)
	t.RefCounts = Add(t.RefCounts, y.Counts)
	return t, y.Invalid
}

// Release takes back a reference to each page of pages, int32 [M], as often as it is named; -1 is no page. No count
// falls below 0: releases beyond it are counted in doubleFree, and ids of pages that do not exist in invalid (int32
// scalars).
func (t Table) Release(pages *Node) (after Table, doubleFree, invalid *Node) {
	return t.ReleaseAll(t.NewTally().Add(pages))
}

// Tally counts how often pages are named, over several lists: to share or release many pages a few at a time, without
// going through the whole table for each.
type Tally struct {
	Counts  *Node // int32 [P].
	Invalid *Node // int32 scalar: ids other than -1 that are no pages of the table.
	Ages    *Node // int32 [P]: the highest age that a page was named with; nil where none are
}

// NewTally returns a tally of the table's pages, all zero.
func (t Table) NewTally() Tally {
	return Tally{Counts: ZerosLike(t.RefCounts), Invalid: ScalarZero(t.RefCounts.Graph(), dtypes.Int32)}
}

// WithAges is the tally, to be added to by AddOld.
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

// AddOld is Add of pages that are released with ages, int32 [M].
func (y Tally) AddOld(pages, ages *Node) Tally {
	t := Table{RefCounts: y.Counts}
	known := Where(t.exists(pages), ages, ZerosLike(ages))
	y = y.Add(pages)
	y.Ages = ScatterMax(y.Ages, InsertAxes(t.clip(pages), -1), known, false, false)
	return y
}

// ShareAll is [Table.Share] for what a tally counted.
func (t Table) ShareAll(y Tally) (after Table, invalid *Node) {
	zero := ZerosLike(y.Counts)
	free := t.free()
	t.RefCounts = Add(t.RefCounts, Where(free, zero, y.Counts))
	return t, Add(y.Invalid, ReduceAllSum(Where(free, y.Counts, zero)))
}

// ReleaseAll is [Table.Release] for what a tally counted. Pages are kept that it has with ages.
func (t Table) ReleaseAll(y Tally) (after Table, doubleFree, invalid *Node) {
	zero := ZerosLike(y.Counts)
	doubleFree = ReduceAllSum(Max(Sub(y.Counts, t.RefCounts), zero))
	t.RefCounts = Max(Sub(t.RefCounts, y.Counts), zero)
	if y.Ages != nil {
		t.Ages = Max(t.Ages, y.Ages)
	}
	return t, doubleFree, y.Invalid
}

// Return is [Table.ReleaseAll] of pages that were taken since Begin, and whose contents mean nothing: they are blank,
// and by, which stands for nobody who is known, took them.
func (t Table) Return(y Tally, by int) (after Table, doubleFree, invalid *Node) {
	if t.Keeps() {
		zero := ZerosLike(y.Counts)
		t.Takers = Where(GreaterThan(y.Counts, zero), AddScalar(zero, by), t.Takers)
	}
	return t.ReleaseAll(y)
}

// add returns counts [P] with one added at each page for each element of mask that is set.
func (t Table) add(counts, pages, mask *Node) *Node {
	return ScatterSum(counts, InsertAxes(t.clip(pages), -1), ConvertDType(mask, dtypes.Int32), false, false)
}

// clip makes ids safe as indices: backends differ on indices out of range.
func (t Table) clip(pages *Node) *Node {
	return MinScalar(MaxScalar(pages, 0), t.NumPages()-1)
}

func (t Table) exists(pages *Node) *Node {
	return LogicalAnd(
		GreaterOrEqual(pages, ScalarZero(pages.Graph(), dtypes.Int32)),
		LessThan(pages, Scalar(pages.Graph(), dtypes.Int32, t.NumPages())))
}
