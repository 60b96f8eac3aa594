package device

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
)

// transfers move a row's pages to the host and back.
type transfers struct{ network }

// programs are the programs that move a row's pages to the host and back.
func (t transfers) programs() []Program {
	loads, saves := tree.Arrays(t.NewLoad()), tree.Arrays(NewSave())
	var layers []Leaf
	for i, layout := range t.Layouts {
		pages := layout.Shape()
		pages.Dimensions[0] = BlockPages
		layers = append(layers, Leaf{Name: fmt.Sprint("Layers.", i), Shape: pages, Own: true})
	}
	return []Program{
		{
			Name: Save, Reads: true, Later: true, Input: packed(saves),
			build: func(st state, _ weights, nodes []*Node) (state, any, []*Node) {
				out := t.save(st, tree.Of[saveInput](saves, nodes))
				return st, out, out.Layers
			},
		},
		{
			Name: Load, Later: true, Input: packed(loads), Own: layers, twin: twinOf[LoadOutput],
			build: func(st state, _ weights, nodes []*Node) (state, any, []*Node) {
				st, out := t.load(st, tree.Of[loadInput](loads, nodes[:len(loads)]), nodes[len(loads):])
				return st, out, nil
			},
		},
	}
}

// save reads K pages: the pages of a row, or named pages.
func (t transfers) save(st state, in saveInput) saveOutput {
	g := in.Row.Graph()
	ids := Add(Iota(g, shapes.Make(dtypes.Int32, BlockPages), 0), in.From)
	row := Reshape(take(st.Sequences.PageIndices, Reshape(in.Row, 1)), t.PagesPerSeq)
	ids = take(row, Min(ids, integer(g, t.PagesPerSeq-1)))
	ids = Where(GreaterOrEqual(in.Row, integer(g, 0)), ids, in.Pages)
	return saveOutput{Layers: t.readPages(st.Caches, ids)}
}

// load gives a row pages, and these their contents: layers, one a layer, are K pages [K, page_size, 2*KVH, D] in order
// of position. Those that the sequence has, and those beyond its length, are not read. Without a row it takes pages,
// and keeps them as if a row had released them.
func (t transfers) load(st state, in loadInput, layers []*Node) (state, loadOutput) {
	g := in.Row.Graph()
	rows := t.Rows()
	hasRow := GreaterOrEqual(in.Row, integer(g, 0))
	opens := LogicalAnd(hasRow, Equal(in.Open, integer(g, 1)))
	var invalid *Node
	st.Pages, invalid = hold(st.Pages, in.Named)
	isClone := LogicalAnd(opens, GreaterOrEqual(in.Source, integer(g, 0)))
	mask := LogicalAnd(Equal(Iota(g, shapes.Make(dtypes.Int32, rows), 0), in.Row),
		LogicalAnd(opens, LogicalNot(isClone)))
	var opened, cloned, grown seqtable.Status
	st.Sequences, opened = st.Sequences.Open(mask)
	// Whole pages: nothing is to be copied.
	st.Sequences, st.Pages, _, _, cloned = st.Sequences.Clone(st.Pages, Reshape(in.Source, 1),
		Reshape(Where(isClone, in.Row, integer(g, -1)), 1), Reshape(in.Held, 1))
	joined, kept := seqtable.InvalidPages(invalid, t.Pages), seqtable.NewStatus(g)
	if t.PrefixCache {
		ids := Iota(g, shapes.Make(dtypes.Int32, rows), 0)
		begins := LogicalAnd(Equal(ids, in.Row), LogicalAnd(opens, LogicalNot(isClone)))
		pages := Where(begins, BroadcastToDims(DivScalar(in.Held, float64(t.PageSize)), rows), ZerosLike(ids))
		var status seqtable.Status
		st.Sequences, st.Pages, status = st.Sequences.Join(st.Pages, in.Named, ZerosLike(ids), pages)
		joined = joined.Then(status)
	}
	has := pagesOf(Reshape(take(st.Sequences.SeqLens, Reshape(in.Row, 1))), t.PageSize)
	has = Where(hasRow, has, integer(g, 0))
	var fresh *Node
	st.Sequences, st.Pages, fresh, grown = st.Sequences.Grow(st.Pages, Max(in.Row, integer(g, 0)),
		Where(hasRow, in.Length, integer(g, 0)), BlockPages)
	grown = grown.When(hasRow)
	if t.PrefixCache {
		wanted := Where(hasRow, integer(g, 0), in.Length)
		var rest *Node
		st.Pages, rest, kept = t.takeKept(st.Pages, wanted, in.Place)
		fresh = Where(hasRow, fresh, rest)
	}
	st.Pages = unhold(st.Pages, in.Named)
	// The k-th fresh page is at place has + k of the sequence, the k-th of the input at place From + k.
	rank := Add(Iota(g, shapes.Make(dtypes.Int32, BlockPages), 0), Sub(in.From, has))
	pages := Where(GreaterOrEqual(rank, integer(g, 0)), take(fresh, rank), FillScalar(g, rank.Shape(), -1))
	set := func(x, value *Node) *Node {
		row := Where(hasRow, in.Row, integer(g, rows))
		return control.ScatterSet(x, Reshape(row, 1), Reshape(value, 1))
	}
	// The row runs nothing, and needs no more pages than those it gets.
	st.Rows.PromptLens, st.Rows.MaxPages = set(st.Rows.PromptLens, integer(g, 0)), set(st.Rows.MaxPages, integer(g, 0))
	st.Caches = t.writePages(st.Caches, pages, layers)
	return st, loadOutput{opened.Then(cloned).Then(joined).Then(grown).Then(kept), fresh}
}

// takeKept takes n pages, i32[], and releases them as pages of a sequence starting at place, i32[].
func (t transfers) takeKept(table pagetable.Table, n, place *Node) (pagetable.Table, *Node, seqtable.Status) {
	g := n.Graph()
	table, pages, have := table.Take(n, BlockPages)
	table = table.Mark(pages, ZerosLike(pages))
	ages := table.Age(Add(Iota(g, pages.Shape(), 0), place), t.PagesPerSeq)
	table, _, _ = table.ReleaseAll(table.NewTally().WithAges().AddOld(pages, ages))
	return table, pages, seqtable.OutOfPages(n, have)
}
