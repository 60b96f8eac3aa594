// Package pagetable counts the references of KV pages on the device. It allocates, shares and releases pages by
// whole-array operations inside a program.
//
// A page is free exactly when its count is 0. Package seqtable knows which sequence holds which page, and package
// attention knows what the pages contain. [Host] is the plain-Go twin.
package pagetable

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/scan"
)

// Table counts the references of P pages. Page ids are int32 in [0, P); -1 stands for no page.
type Table struct {
	// RefCounts, int32 [P], is the number of references of each page: those of sequences, and pins of the prefix cache.
	RefCounts *Node
}

// New returns a table of pages free pages.
func New(g *Graph, pages int) Table {
	return Table{RefCounts: Zeros(g, shapes.Make(dtypes.Int32, pages))}
}

// NumPages is P.
func (t Table) NumPages() int { return t.RefCounts.Shape().Dimensions[0] }

// NumFree returns the number of free pages, an int32 scalar.
func (t Table) NumFree() *Node {
	return ReduceAllSum(ConvertDType(t.free(), dtypes.Int32))
}

func (t Table) free() *Node { return Equal(t.RefCounts, ScalarZero(t.RefCounts.Graph(), dtypes.Int32)) }

// Allocate gives a page, with one reference, to each element of need, bool [M], that is set: the k-th of them gets the
// k-th free page. pages, int32 [M], is -1 where none is needed or none is left; short, an int32 scalar, counts the
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

// Take gives the first n free pages, in order, one reference each: n is an int32 scalar of at most the static bound
// limit. pages, int32 [limit], is -1 from the n-th on and where no free page is left; have is the number of pages that
// were free.
func (t Table) Take(n *Node, limit int) (after Table, pages, have *Node) {
	g := n.Graph()
	positions, have := scan.Positions(t.free(), limit)
	ranks := Iota(g, shapes.Make(dtypes.Int32, limit), 0)
	granted := LessThan(ranks, BroadcastToShape(Min(n, have), ranks.Shape()))
	pages = Where(granted, positions, MulScalar(OnesLike(positions), -1))
	return Table{RefCounts: t.add(t.RefCounts, pages, granted)}, pages, have
}

// Share adds a reference to each page of pages, int32 [M], as often as it is named; -1 is no page. A reference to a
// page that is free or does not exist is not added but counted in invalid, an int32 scalar.
func (t Table) Share(pages *Node) (after Table, invalid *Node) {
	return t.ShareAll(t.NewTally().Add(pages))
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
}

// NewTally returns a tally of the table's pages, all zero.
func (t Table) NewTally() Tally {
	return Tally{Counts: ZerosLike(t.RefCounts), Invalid: ScalarZero(t.RefCounts.Graph(), dtypes.Int32)}
}

// Add counts pages, int32 [M]; -1 is no page.
func (y Tally) Add(pages *Node) Tally {
	t := Table{RefCounts: y.Counts}
	exists := t.exists(pages)
	isPage := NotEqual(pages, Scalar(pages.Graph(), dtypes.Int32, -1))
	return Tally{
		Counts:  t.add(y.Counts, pages, exists),
		Invalid: Add(y.Invalid, ReduceAllSum(ConvertDType(LogicalAnd(isPage, LogicalNot(exists)), dtypes.Int32))),
	}
}

// ShareAll is [Table.Share] for what a tally counted.
func (t Table) ShareAll(y Tally) (after Table, invalid *Node) {
	zero := ZerosLike(y.Counts)
	free := t.free()
	return Table{RefCounts: Add(t.RefCounts, Where(free, zero, y.Counts))},
		Add(y.Invalid, ReduceAllSum(Where(free, y.Counts, zero)))
}

// ReleaseAll is [Table.Release] for what a tally counted.
func (t Table) ReleaseAll(y Tally) (after Table, doubleFree, invalid *Node) {
	zero := ZerosLike(y.Counts)
	return Table{RefCounts: Max(Sub(t.RefCounts, y.Counts), zero)}, ReduceAllSum(Max(Sub(y.Counts, t.RefCounts), zero)),
		y.Invalid
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
