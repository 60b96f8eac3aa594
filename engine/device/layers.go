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

// cacheLayouts are those of the arrays that have the caches: one for all of them in the loop of layers. Those of the
// drafter come last.
func (gr *Graphs) cacheLayouts() []attention.Layout {
	if gr.Drafter != nil { // then there is no loop of layers
		return slices.Concat(gr.Layouts, gr.Drafter.Layouts)
	}
	if !gr.LayerLoop {
		return gr.Layouts
	}
	layout := gr.Layouts[0]
	layout.Pages *= len(gr.Layouts)
	return []attention.Layout{layout}
}

// copyPages copies pages from[i] to to[i], i32[C], of all layers; -1 in either copies nothing.
func (gr *Graphs) copyPages(caches []*Node, from, to *Node) []*Node {
	arrays := gr.cacheLayouts()
	if !gr.LayerLoop {
		changed := make([]*Node, len(caches))
		for i, layout := range arrays {
			changed[i] = layout.CopyPages(caches[i], from, to)
		}
		return changed
	}
	type progress struct{ At, Cache *Node }
	end := control.While(progress{integer(from.Graph(), 0), caches[0]},
		func(p progress) *Node { return LessThan(p.At, integer(p.At.Graph(), len(gr.Layouts))) },
		func(p progress) progress {
			layer := decoder.Layer{At: p.At}
			return progress{AddScalar(p.At, 1), arrays[0].CopyPages(p.Cache, gr.pagesOfLayer(layer, from),
				gr.pagesOfLayer(layer, to))}
		})
	return []*Node{end.Cache}
}

// pagesOfLayer are ids of pages, i32[...], as they are in the array that has the layer; -1 and what is too large become
// -1.
func (gr *Graphs) pagesOfLayer(layer decoder.Layer, ids *Node) *Node {
	if !gr.LayerLoop {
		return ids
	}
	at := layer.At
	if at == nil {
		at = integer(ids.Graph(), layer.Number)
	}
	return shifted(ids, gr.Pages, at, -1)
}

// shifted adds at * size to numbers of [0, size), and makes others outside.
func shifted(x *Node, size int, at *Node, outside int) *Node {
	g := x.Graph()
	inside := LogicalAnd(GreaterOrEqual(x, integer(g, 0)), LessThan(x, integer(g, size)))
	return Where(inside, Add(x, Mul(at, integer(g, size))), FillScalar(g, x.Shape(), float64(outside)))
}

// attend is attention of a layer, with the batch's places as they are in the array that has the layer.
func (gr *Graphs) attend(batch tokenqueue.PageBatchInfo, oneToken bool) decoder.AttentionFunc {
	layouts := gr.cacheLayouts()
	return func(layer decoder.Layer, caches []*Node, q, k, v *Node) (*Node, []*Node) {
		b := batch
		at := gr.Model.Layers[layer.Number].KVFrom
		if layer.At != nil {
			at = 0
			b.PageIndices = gr.pagesOfLayer(layer, b.PageIndices)
			places := gr.Pages * gr.PageSize
			b.NewTokenDests = shifted(b.NewTokenDests, places, layer.At, places*len(gr.Layouts))
		}
		after := append([]*Node(nil), caches...)
		var out *Node
		options := decoder.AttentionOptions(gr.Model, layer, oneToken)
		out, after[at] = layouts[at].Attend(q, k, v, caches[at], b, options)
		return out, after
	}
}

// zero clears the pages where mask, bool[P], holds, in all layers.
func (gr *Graphs) zero(caches []*Node, mask *Node) []*Node {
	arrays := gr.cacheLayouts()
	if gr.LayerLoop {
		mask = Reshape(BroadcastToDims(InsertAxes(mask, 0), len(gr.Layouts), gr.Pages), arrays[0].Pages)
	}
	changed := make([]*Node, len(caches))
	for i, layout := range arrays {
		changed[i] = layout.ZeroPages(caches[i], mask)
	}
	return changed
}

// readPages are the pages ids, i32[C], of each layer that has a cache.
func (gr *Graphs) readPages(caches []*Node, ids *Node) []*Node {
	layouts := gr.cacheLayouts()
	var pages []*Node
	for i := range gr.Layouts {
		at := min(i, len(caches)-1)
		pages = append(pages, layouts[at].ReadPages(caches[at], gr.pagesOfLayer(decoder.Layer{Number: i}, ids)))
	}
	return pages
}

// writePages replaces the pages ids, i32[C], of each layer that has a cache; pages are one array a layer.
func (gr *Graphs) writePages(caches []*Node, ids *Node, pages []*Node) []*Node {
	layouts := gr.cacheLayouts()
	caches = append([]*Node(nil), caches...)
	for i, p := range pages {
		at := min(i, len(caches)-1)
		caches[at] = layouts[at].WritePages(caches[at], gr.pagesOfLayer(decoder.Layer{Number: i}, ids), p)
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

// sequences says whose the tokens of a step are to layers that keep states, where there are any.
func (gr *Graphs) sequences(batch tokenqueue.PageBatchInfo) (rows recurrence.Rows) {
	if gr.Model.HasStates() {
		rows = recurrence.RowsOf(batch)
	}
	return rows
}
