package engine

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/control"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/tokenqueue"
)

// Values of Config.Layers.
const (
	// LayersUnrolled has each layer in the program, with a cache of its own.
	LayersUnrolled = "unrolled"
	// LayersLoop has one layer in the program, as the body of a loop. The weights of all layers are one array each,
	// [layers, ...], and so are the caches: page p of layer l is page l*P + p.
	LayersLoop = "loop"
)

// checkLayers refuses what has no loop of layers.
func (p Plan) checkLayers(model models.Config) error {
	switch {
	case p.Layers == LayersUnrolled:
		return nil
	case p.Layers != LayersLoop:
		return fmt.Errorf("layers is %q: unrolled or loop is needed", p.Layers)
	case p.KV != "paged":
		return fmt.Errorf("layers is loop, which kv %s has none of: use kv paged, or layers unrolled", p.KV)
	}
	if err := decoder.CheckLayerLoop(model); err != nil {
		return fmt.Errorf("layers is loop: %w: use layers unrolled", err)
	}
	return nil
}

// layerCaches is how the caches of a plan lie: in how many arrays, and the layout of each.
func (p Plan) layerCaches(layers int) (arrays int, layout attention.Layout) {
	layout = p.layout
	if p.Layers != LayersLoop {
		return layers, layout
	}
	layout.Pages *= layers
	return 1, layout
}

// copyPages copies pages from[i] to to[i], i32[C], of all layers; -1 in either copies nothing.
func (gr *graphs) copyPages(caches []*Node, from, to *Node) []*Node {
	_, layout := gr.plan.layerCaches(gr.model.NumLayers)
	if gr.plan.Layers != LayersLoop {
		changed := make([]*Node, len(caches))
		for i, cache := range caches {
			changed[i] = layout.CopyPages(cache, from, to)
		}
		return changed
	}
	type progress struct{ At, Cache *Node }
	end := control.While(progress{integer(from.Graph(), 0), caches[0]},
		func(p progress) *Node { return LessThan(p.At, integer(p.At.Graph(), gr.model.NumLayers)) },
		func(p progress) progress {
			layer := decoder.Layer{At: p.At}
			return progress{AddScalar(p.At, 1), layout.CopyPages(p.Cache, gr.pagesOfLayer(layer, from),
				gr.pagesOfLayer(layer, to))}
		})
	return []*Node{end.Cache}
}

// pagesOfLayer are ids of pages, i32[...], as they are in the array that has the layer; -1 and what is too large become
// -1.
func (gr *graphs) pagesOfLayer(layer decoder.Layer, ids *Node) *Node {
	if gr.plan.Layers != LayersLoop {
		return ids
	}
	at := layer.At
	if at == nil {
		at = integer(ids.Graph(), layer.Number)
	}
	return shifted(ids, gr.plan.Pages, at, -1)
}

// shifted adds at * size to numbers of [0, size), and makes others outside.
func shifted(x *Node, size int, at *Node, outside int) *Node {
	g := x.Graph()
	inside := LogicalAnd(GreaterOrEqual(x, integer(g, 0)), LessThan(x, integer(g, size)))
	return Where(inside, Add(x, Mul(at, integer(g, size))), FillScalar(g, x.Shape(), float64(outside)))
}

// attend is attention of a layer, with the batch's places as they are in the array that has the layer.
func (gr *graphs) attend(batch tokenqueue.PageBatchInfo, oneToken bool) decoder.AttentionFunc {
	_, layout := gr.plan.layerCaches(gr.model.NumLayers)
	return func(layer decoder.Layer, caches []*Node, q, k, v *Node) (*Node, []*Node) {
		b := batch
		at := layer.Number
		if layer.At != nil {
			at = 0
			b.PageIndices = gr.pagesOfLayer(layer, b.PageIndices)
			places := gr.plan.Pages * gr.plan.PageSize
			b.NewTokenDests = shifted(b.NewTokenDests, places, layer.At, places*gr.model.NumLayers)
		}
		after := append([]*Node(nil), caches...)
		var out *Node
		options := decoder.AttentionOptions(gr.model, layer.Number, oneToken)
		out, after[at] = layout.Attend(q, k, v, caches[at], b, options)
		return out, after
	}
}

// zero clears the pages where mask, bool[P], holds, in all layers.
func (gr *graphs) zero(caches []*Node, mask *Node) []*Node {
	n, layout := gr.plan.layerCaches(gr.model.NumLayers)
	if n < gr.model.NumLayers {
		mask = Reshape(BroadcastToDims(InsertAxes(mask, 0), gr.model.NumLayers, gr.plan.Pages), layout.Pages)
	}
	changed := make([]*Node, len(caches))
	for i, cache := range caches {
		changed[i] = layout.ZeroPages(cache, mask)
	}
	return changed
}

// readPages are the pages ids, i32[C], of each layer.
func (gr *graphs) readPages(caches []*Node, ids *Node) []*Node {
	_, layout := gr.plan.layerCaches(gr.model.NumLayers)
	var pages []*Node
	for i := range gr.model.NumLayers {
		pages = append(pages, layout.ReadPages(caches[min(i, len(caches)-1)],
			gr.pagesOfLayer(decoder.Layer{Number: i}, ids)))
	}
	return pages
}

// writePages replaces the pages ids, i32[C], of each layer; pages are one array a layer.
func (gr *graphs) writePages(caches []*Node, ids *Node, pages []*Node) []*Node {
	_, layout := gr.plan.layerCaches(gr.model.NumLayers)
	caches = append([]*Node(nil), caches...)
	for i, p := range pages {
		at := min(i, len(caches)-1)
		caches[at] = layout.WritePages(caches[at], gr.pagesOfLayer(decoder.Layer{Number: i}, ids), p)
	}
	return caches
}

// newCaches are empty.
func (gr *graphs) newCaches(g *Graph) []*Node {
	n, layout := gr.plan.layerCaches(gr.model.NumLayers)
	return layout.New(g, n)
}
