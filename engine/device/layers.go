package device

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/control"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/recurrence"
	"github.com/quire/quire/tokenqueue"
)

// loop is how layers are run, if that is a loop: else it has none.
func (gr *Graphs) loop() decoder.Loop {
	if !gr.LayerLoop {
		return decoder.Loop{First: gr.Model.NumLayers}
	}
	l, err := decoder.LoopOf(gr.Model)
	if err != nil {
		panic(err)
	}
	return l
}

// cacheLayouts are those of the arrays that have the caches: one for all turns of a layer in the loop of layers. Those
// of the drafter come last.
func (gr *Graphs) cacheLayouts() []attention.Layout {
	if gr.Drafter != nil { // then there is no loop of layers
		return slices.Concat(gr.Layouts, gr.Drafter.Layouts)
	}
	if !gr.LayerLoop {
		return gr.Layouts
	}
	loop := gr.loop()
	layouts := make([]attention.Layout, loop.Bodies(len(gr.Layouts)))
	for i, layout := range gr.Layouts {
		at, _, looped := loop.Body(i)
		if looped {
			layout.Pages *= loop.Turns
		}
		layouts[at] = layout
	}
	return layouts
}

// copyPages copies pages from[i] to to[i], i32[C], of all layers; -1 in either copies nothing.
func (gr *Graphs) copyPages(caches []*Node, from, to *Node) []*Node {
	arrays := gr.cacheLayouts()
	changed := make([]*Node, len(caches))
	for i, layout := range arrays {
		if i > 0 {
			from = control.After(from, changed[i-1])
		}
		if turns := gr.turnsOf(layout); turns > 1 {
			changed[i] = gr.copyOfTurns(layout, turns, caches[i], from, to)
		} else {
			changed[i] = layout.CopyPages(caches[i], from, to)
		}
	}
	return changed
}

// turnsOf is how many turns have their caches in an array.
func (gr *Graphs) turnsOf(array attention.Layout) int { return array.Pages / gr.Layouts[0].Pages }

// copyOfTurns copies the pages of all turns.
func (gr *Graphs) copyOfTurns(layout attention.Layout, turns int, cache, from, to *Node) *Node {
	type progress struct{ Turn, Cache *Node }
	end := control.While(progress{integer(from.Graph(), 0), cache},
		func(p progress) *Node { return LessThan(p.Turn, integer(p.Turn.Graph(), turns)) },
		func(p progress) progress {
			return progress{AddScalar(p.Turn, 1), layout.CopyPages(p.Cache, shifted(from, gr.Pages, p.Turn, -1),
				shifted(to, gr.Pages, p.Turn, -1))}
		})
	return end.Cache
}

// shifted adds at * size to numbers of [0, size), and makes others outside.
func shifted(x *Node, size int, at *Node, outside int) *Node {
	g := x.Graph()
	inside := LogicalAnd(GreaterOrEqual(x, integer(g, 0)), LessThan(x, integer(g, size)))
	return Where(inside, Add(x, Mul(at, integer(g, size))), FillScalar(g, x.Shape(), float64(outside)))
}

// attend is attention of a layer, with the batch's places as they are in the array that has the layer.
func (gr *Graphs) attend(batch tokenqueue.PageBatchInfo, oneToken bool) decoder.AttentionFunc {
	layouts, loop := gr.cacheLayouts(), gr.loop()
	return func(layer decoder.Layer, caches []*Node, q, k, v *Node) (*Node, []*Node) {
		b := batch
		at, _, _ := loop.Body(gr.Model.Layers[layer.Number].KVFrom)
		if layer.Turn != nil {
			b.PageIndices = shifted(b.PageIndices, gr.Pages, layer.Turn, -1)
			places := gr.Pages * gr.PageSize
			b.NewTokenDests = shifted(b.NewTokenDests, places, layer.Turn, places*loop.Turns)
		}
		after := append([]*Node(nil), caches...)
		var out *Node
		options := decoder.AttentionOptions(gr.Model, layer, oneToken)
		out, after[at] = layouts[at].Attend(q, k, v, caches[at], b, options)
		return out, after
	}
}

// states says where layers have the states of the batch's sequences.
func (gr *Graphs) states(batch tokenqueue.PageBatchInfo) decoder.StatesFunc {
	if !gr.Model.HasStates() {
		return nil
	}
	all, loop := recurrence.RowsOf(batch), gr.loop()
	return func(layer decoder.Layer) (array int, rows recurrence.Rows) {
		array, _, _ = loop.Body(layer.Number)
		if rows = all; layer.Turn != nil {
			rows.From = shifted(rows.From, gr.Pages, layer.Turn, -1)
			rows.To = shifted(rows.To, gr.Pages, layer.Turn, gr.Pages*loop.Turns)
		}
		return array, rows
	}
}

// zero clears the pages where mask, bool[P], holds, in all layers.
func (gr *Graphs) zero(caches []*Node, mask *Node) []*Node {
	changed := make([]*Node, len(caches))
	for i, layout := range gr.cacheLayouts() {
		of := mask
		if turns := gr.turnsOf(layout); turns > 1 {
			of = Reshape(BroadcastToDims(InsertAxes(mask, 0), turns, gr.Pages), layout.Pages)
		}
		changed[i] = layout.ZeroPages(caches[i], of)
	}
	return changed
}

// pagesOf are the array that has a layer's cache, and ids of pages, i32[...], as they are there.
func (gr *Graphs) pagesOf(layer int, ids *Node) (array int, there *Node) {
	array, turn, looped := gr.loop().Body(layer)
	if looped {
		ids = shifted(ids, gr.Pages, integer(ids.Graph(), turn), -1)
	}
	return array, ids
}

// readPages are the pages ids, i32[C], of each layer that has a cache.
func (gr *Graphs) readPages(caches []*Node, ids *Node) []*Node {
	layouts := gr.cacheLayouts()
	var pages []*Node
	for i := range gr.Layouts {
		at, there := gr.pagesOf(i, ids)
		pages = append(pages, layouts[at].ReadPages(caches[at], there))
	}
	return pages
}

// writePages replaces the pages ids, i32[C], of each layer that has a cache; pages are one array a layer.
func (gr *Graphs) writePages(caches []*Node, ids *Node, pages []*Node) []*Node {
	layouts := gr.cacheLayouts()
	caches = append([]*Node(nil), caches...)
	for i, p := range pages {
		at, there := gr.pagesOf(i, ids)
		caches[at] = layouts[at].WritePages(caches[at], there, p)
	}
	return caches
}

// newCaches are empty.
func (gr *Graphs) newCaches(g *Graph) []*Node {
	layouts := gr.cacheLayouts()
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
