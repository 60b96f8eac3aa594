package device

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/pagetable"
)

// loop is how layers are run, if that is a loop: else it has none.
func (n network) loop() decoder.Loop {
	if !n.LayerLoop {
		return decoder.Loop{First: n.Model.NumLayers}
	}
	l, err := decoder.LoopOf(n.Model)
	if err != nil {
		panic(err)
	}
	return l
}

// cacheLayouts returns the layouts of the arrays that hold the caches: one for all iterations of a layer in the loop of
// layers. The drafter's layouts come last.
func (n network) cacheLayouts() []attention.Layout {
	if n.DrafterLayouts != nil { // then there is no loop of layers
		return slices.Concat(n.Layouts, n.DrafterLayouts)
	}
	if !n.LayerLoop {
		return n.Layouts
	}
	loop := n.loop()
	layouts := make([]attention.Layout, loop.Bodies(len(n.Layouts)))
	for i, layout := range n.Layouts {
		index, _, looped := loop.Body(i)
		if looped {
			layout.Pages *= loop.Turns
		}
		layouts[index] = layout
	}
	return layouts
}

// copyPages copies pages from[i] to to[i], i32[C], of all layers; -1 in either copies nothing.
func (n network) copyPages(caches []*Node, from, to *Node) []*Node {
	arrays := n.cacheLayouts()
	changed := make([]*Node, len(caches))
	for i, layout := range arrays {
		if i > 0 {
			from = control.After(from, changed[i-1])
		}
		if turns := n.turnsOf(layout); turns > 1 {
			changed[i] = n.copyOfTurns(layout, turns, caches[i], from, to)
		} else {
			changed[i] = layout.CopyPages(caches[i], from, to)
		}
	}
	return changed
}

// turnsOf is how many turns have their caches in an array.
func (n network) turnsOf(array attention.Layout) int { return array.Pages / n.Layouts[0].Pages }

// copyOfTurns copies the pages of all turns.
func (n network) copyOfTurns(layout attention.Layout, turns int, cache, from, to *Node) *Node {
	type progress struct{ Turn, Cache *Node }
	end := control.While(progress{integer(from.Graph(), 0), cache},
		func(p progress) *Node { return LessThan(p.Turn, integer(p.Turn.Graph(), turns)) },
		func(p progress) progress {
			return progress{AddScalar(p.Turn, 1), layout.CopyPages(p.Cache, shifted(from, n.Pages, p.Turn, -1),
				shifted(to, n.Pages, p.Turn, -1))}
		})
	return end.Cache
}

// zero clears the pages whose mask, bool[P], is set, in all layers.
func (n network) zero(caches []*Node, mask *Node) []*Node {
	changed := make([]*Node, len(caches))
	for i, layout := range n.cacheLayouts() {
		layoutMask := mask
		if turns := n.turnsOf(layout); turns > 1 {
			layoutMask = Reshape(BroadcastToDims(InsertAxes(mask, 0), turns, n.Pages), layout.Pages)
		}
		changed[i] = layout.ZeroPages(caches[i], layoutMask)
	}
	return changed
}

// pagesOf are the array that has a layer's cache, and ids of pages, i32[...], as they are there.
func (n network) pagesOf(layer int, ids *Node) (array int, there *Node) {
	array, turn, looped := n.loop().Body(layer)
	if looped {
		ids = shifted(ids, n.Pages, integer(ids.Graph(), turn), -1)
	}
	return array, ids
}

// readPages are the pages ids, i32[C], of each layer that has a cache.
func (n network) readPages(caches []*Node, ids *Node) []*Node {
	layouts := n.cacheLayouts()
	var pages []*Node
	for i := range n.Layouts {
		index, there := n.pagesOf(i, ids)
		pages = append(pages, layouts[index].ReadPages(caches[index], there))
	}
	return pages
}

// writePages replaces the pages ids, i32[C], of each layer that has a cache; pages are one array a layer.
func (n network) writePages(caches []*Node, ids *Node, pages []*Node) []*Node {
	layouts := n.cacheLayouts()
	caches = append([]*Node(nil), caches...)
	for i, p := range pages {
		index, there := n.pagesOf(i, ids)
		caches[index] = layouts[index].WritePages(caches[index], there, p)
	}
	return caches
}

// zeroFreed clears the pages that became free, if pages are cleared. Kept pages are cleared when they are taken.
func (n network) zeroFreed(caches []*Node, before, after pagetable.Table) []*Node {
	if !n.ZeroPages {
		return caches
	}
	g := before.RefCounts.Graph()
	freed := LogicalAnd(GreaterThan(before.RefCounts, integer(g, 0)), Equal(after.RefCounts, integer(g, 0)))
	if after.Keeps() {
		freed = LogicalAnd(freed, Equal(after.Ages, integer(g, 0)))
	}
	return n.zero(caches, freed)
}

// zeroTaken clears the pages that were kept and have been taken, if pages are cleared.
func (n network) zeroTaken(caches []*Node, before, after pagetable.Table) []*Node {
	if !n.ZeroPages || !after.Keeps() {
		return caches
	}
	g := before.RefCounts.Graph()
	return n.zero(caches, LogicalAnd(Equal(before.RefCounts, integer(g, 0)),
		GreaterThan(after.RefCounts, integer(g, 0))))
}

// newCaches are empty.
func (n network) newCaches(g *Graph) []*Node {
	layouts := n.cacheLayouts()
	places := map[attention.Layout][]int{}
	for i, layout := range layouts {
		places[layout] = append(places[layout], i)
	}
	caches := make([]*Node, len(layouts))
	for i, layout := range layouts {
		if places[layout][0] != i {
			continue
		}
		for k, cache := range layout.New(g, len(places[layout])) {
			caches[places[layout][k]] = cache
		}
	}
	return caches
}
