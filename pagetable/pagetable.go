// Package pagetable is the device's account of KV pages: how often each page is referenced. It allocates, shares and
// releases pages by whole-array operations inside a program.
//
// A page is free exactly when its count is 0. Which sequence holds which page is the business of package seqtable; what the
// pages contain is that of package attention. [Host] is the plain-Go twin.
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

// Allocate gives a page, with one reference, to each element of need, bool [M], that is set: the k-th of them gets the k-th
// free page. pages, int32 [M], is -1 where none is needed or none is left; short, an int32 scalar, counts the needs unmet.
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

// Take gives the first n free pages, in order, one reference each: n is an int32 scalar of at most the static bound limit.
// pages, int32 [limit], is -1 from the n-th on and where no free page is left; have is the number of pages that were free.
func (t Table) Take(n *Node, limit int) (after Table, pages, have *Node) {
	g := n.Graph()
	positions, have := scan.Positions(t.free(), limit)
	ranks := Iota(g, shapes.Make(dtypes.Int32, limit), 0)
	granted := LessThan(ranks, BroadcastToShape(Min(n, have), ranks.Shape()))
	pages = Where(granted, positions, MulScalar(OnesLike(positions), -1))
	return Table{RefCounts: t.add(t.RefCounts, pages, granted)}, pages, have
}

// Share adds a reference to each page of pages, int32 [M], as often as it is named; -1 is no page. A reference to a page that is
// free or does not exist is not added but counted in invalid, an int32 scalar.
func (t Table) Share(pages *Node) (after Table, invalid *Node) {
	exists := t.exists(pages)
	counts := Gather(t.RefCounts, InsertAxes(t.clip(pages), -1))
	held := LogicalAnd(exists, GreaterThan(counts, ScalarZero(pages.Graph(), dtypes.Int32)))
	return Table{RefCounts: t.add(t.RefCounts, pages, held)}, countTrue(LogicalAnd(isPage(pages), LogicalNot(held)))
}

// Release takes back a reference to each page of pages, int32 [M], as often as it is named; -1 is no page. No count falls below 0:
// releases beyond it are counted in doubleFree, and ids of pages that do not exist in invalid (int32 scalars).
func (t Table) Release(pages *Node) (after Table, doubleFree, invalid *Node) {
	exists := t.exists(pages)
	released := t.add(ZerosLike(t.RefCounts), pages, exists)
	zero := ZerosLike(t.RefCounts)
	after = Table{RefCounts: Max(Sub(t.RefCounts, released), zero)}
	doubleFree = ReduceAllSum(Max(Sub(released, t.RefCounts), zero))
	return after, doubleFree, countTrue(LogicalAnd(isPage(pages), LogicalNot(exists)))
}

// References returns how often each page is named in pages, int32 [M]: int32 [P]. Ids that are no pages of the table do not count.
func (t Table) References(pages *Node) *Node {
	return t.add(ZerosLike(t.RefCounts), pages, t.exists(pages))
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

// isPage is where an id is meant to be a page at all: anything but -1.
func isPage(pages *Node) *Node {
	return NotEqual(pages, Scalar(pages.Graph(), dtypes.Int32, -1))
}

func countTrue(mask *Node) *Node { return ReduceAllSum(ConvertDType(mask, dtypes.Int32)) }
