package engine

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/control"
	"github.com/quire/quire/models/llama"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tree"
)

// transferPages is how many pages one call of the transfer programs moves.
const transferPages = 16

// loadInput is what the load program takes.
type loadInput struct {
	Row    *Node   // i32[]: the row that gets the pages
	Open   *Node   // i32[]: 1 to begin an empty sequence there
	Length *Node   // i32[]: the tokens of the sequence with these pages
	Layers []*Node // one a layer: K pages [K, page_size, 2*KVH, D], in order of position; those beyond Length are not read
}

// loadOutput is what it returns.
type loadOutput struct {
	Status seqtable.Status
}

// saveInput is what the save program takes.
type saveInput struct {
	Row  *Node // i32[]
	From *Node // i32[]: the first page of the row to read
}

// saveOutput is what it returns.
type saveOutput struct {
	Layers []*Node // one a layer: K pages; those that the row does not have are arbitrary
}

// transfers are the programs that move a row's pages to the host and back.
func (gr *graphs) transfers() []program {
	layout := gr.plan.layout
	pages := shapes.Make(layout.DType, transferPages, layout.PageSize, 2*layout.KVHeads, layout.HeadDim)
	scalar := func(g *Graph) *Node { return integer(g, 0) }
	newLoad := func(g *Graph) loadInput {
		in := loadInput{Row: scalar(g), Open: scalar(g), Length: scalar(g)}
		for range gr.model.NumLayers {
			in.Layers = append(in.Layers, Zeros(g, pages))
		}
		return in
	}
	newSave := func(g *Graph) saveInput { return saveInput{Row: scalar(g), From: scalar(g)} }
	return []program{
		{
			name: "save", reads: true, input: func(g *Graph) any { return newSave(g) },
			build: func(st deviceState, _ llama.Weights, nodes []*Node) (deviceState, any) {
				return st, gr.save(st, tree.Rebuild(newSave(nodes[0].Graph()), nodes))
			},
		},
		{
			name: "load", input: func(g *Graph) any { return newLoad(g) },
			build: func(st deviceState, _ llama.Weights, nodes []*Node) (deviceState, any) {
				return gr.load(st, tree.Rebuild(newLoad(nodes[0].Graph()), nodes))
			},
		},
	}
}

// save reads K pages of a row.
func (gr *graphs) save(st deviceState, in saveInput) saveOutput {
	g := in.Row.Graph()
	ids := Add(Iota(g, shapes.Make(dtypes.Int32, transferPages), 0), in.From)
	row := Reshape(take(st.Sequences.PageIndices, Reshape(in.Row, 1)), gr.plan.PagesPerSeq)
	ids = take(row, Min(ids, integer(g, gr.plan.PagesPerSeq-1)))
	var out saveOutput
	for _, cache := range st.Caches {
		out.Layers = append(out.Layers, take(cache, ids))
	}
	return out
}

// load gives a row pages, and these their contents.
func (gr *graphs) load(st deviceState, in loadInput) (deviceState, loadOutput) {
	g := in.Row.Graph()
	rows := gr.plan.rows()
	mask := LogicalAnd(Equal(Iota(g, shapes.Make(dtypes.Int32, rows), 0), in.Row), Equal(in.Open, integer(g, 1)))
	var opened, grown seqtable.Status
	st.Sequences, opened = st.Sequences.Open(mask)
	var pages *Node
	st.Sequences, st.Pages, pages, grown = st.Sequences.Grow(st.Pages, in.Row, in.Length, transferPages)
	set := func(x, value *Node) *Node {
		return control.ScatterSet(x, Reshape(in.Row, 1), Reshape(value, 1))
	}
	// The row runs nothing, and needs no more pages than those it gets.
	st.Rows.PromptLens, st.Rows.MaxPages = set(st.Rows.PromptLens, integer(g, 0)), set(st.Rows.MaxPages, integer(g, 0))
	st.Caches = append([]*Node(nil), st.Caches...)
	for i, cache := range st.Caches {
		st.Caches[i] = control.ScatterSet(cache, pages, in.Layers[i])
	}
	return st, loadOutput{opened.Then(grown)}
}

// pagesOnHost is the keys and values of the first tokens of a sequence, moved off the device.
type pagesOnHost struct {
	length int
	// blocks are the arrays of one transfer each, by layer, flat slices of the cache's dtype.
	blocks [][]any
}

// bytes is the memory that the pages take on the host.
func (e *Engine) bytesOnHost(length int) int64 {
	blocks := ceilDiv(ceilDiv(length, e.plan.PageSize), transferPages)
	return int64(blocks) * transferPages * int64(e.plan.PageSize) * e.plan.KVBytesPerToken
}

// save copies the first length tokens of a row to the host. The row stays as it is.
func (e *Engine) save(row, length int) (*pagesOnHost, error) {
	p := e.programs["save"]
	out := &pagesOnHost{length: length}
	for from := 0; from*e.plan.PageSize < length; from += transferPages {
		got, err := e.execute(p, hostInput{"Row": []int32{int32(row)}, "From": []int32{int32(from)}})
		if err != nil {
			return nil, err
		}
		block := make([]any, e.graphs.model.NumLayers)
		for i := range block {
			block[i] = got[fmt.Sprintf("Layers.%d", i)]
		}
		out.blocks = append(out.blocks, block)
	}
	return out, nil
}

// load begins a sequence in an unused row with what was saved, bit for bit.
func (e *Engine) load(row int, pages *pagesOnHost) error {
	p := e.programs["load"]
	for i, block := range pages.blocks {
		length := min(pages.length, (i+1)*transferPages*e.plan.PageSize)
		in := hostInput{"Row": []int32{int32(row)}, "Open": []int32{0}, "Length": []int32{int32(length)}}
		if i == 0 {
			in["Open"] = []int32{1}
		}
		for j, layer := range block {
			in[fmt.Sprintf("Layers.%d", j)] = layer
		}
		got, err := e.execute(p, in)
		if err != nil {
			return err
		}
		if err := got.check(); err != nil {
			return fmt.Errorf("program %s: %w", p.name, err)
		}
	}
	return nil
}
