package engine

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/collective"
	"github.com/quire/quire/control"
	"github.com/quire/quire/models/llama"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tree"
)

// transferPages is how many pages one call of the transfer programs moves.
const transferPages = 16

// loadInput is what the load program takes.
type loadInput struct {
	Row    *Node // i32[]: the row that gets the pages
	Open   *Node // i32[]: 1 to begin a sequence there
	Source *Node // i32[]: the row whose first pages it shares; -1 = it begins empty
	Held   *Node // i32[]: tokens that it has of there, whole pages
	From   *Node // i32[]: the place of the first page of Layers in the sequence
	Length *Node // i32[]: the tokens of the sequence with these pages
	// Layers, one a layer, are K pages [K, page_size, 2*KVH, D] in order of position. Those that the sequence has, and
	// those beyond Length, are not read.
	Layers []*Node
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
	pages := gr.plan.layout.Shape()
	pages.Dimensions[0] = transferPages
	scalar := func(g *Graph) *Node { return integer(g, 0) }
	newLoad := func(g *Graph) loadInput {
		in := loadInput{Row: scalar(g), Open: scalar(g), Source: scalar(g), Held: scalar(g), From: scalar(g),
			Length: scalar(g)}
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
	return saveOutput{Layers: gr.readPages(st.Caches, ids)}
}

// load gives a row pages, and these their contents.
func (gr *graphs) load(st deviceState, in loadInput) (deviceState, loadOutput) {
	g := in.Row.Graph()
	rows := gr.plan.rows()
	opens := Equal(in.Open, integer(g, 1))
	isClone := LogicalAnd(opens, GreaterOrEqual(in.Source, integer(g, 0)))
	mask := LogicalAnd(Equal(Iota(g, shapes.Make(dtypes.Int32, rows), 0), in.Row),
		LogicalAnd(opens, LogicalNot(isClone)))
	var opened, cloned, grown seqtable.Status
	st.Sequences, opened = st.Sequences.Open(mask)
	// Whole pages: nothing is to be copied.
	st.Sequences, st.Pages, _, _, cloned = st.Sequences.Clone(st.Pages, Reshape(in.Source, 1),
		Reshape(Where(isClone, in.Row, integer(g, -1)), 1), Reshape(in.Held, 1))
	has := pagesOf(Reshape(take(st.Sequences.SeqLens, Reshape(in.Row, 1))), gr.plan.PageSize)
	var fresh *Node
	st.Sequences, st.Pages, fresh, grown = st.Sequences.Grow(st.Pages, in.Row, in.Length, transferPages)
	// The k-th fresh page is at place has + k of the sequence, the k-th of the input at place From + k.
	rank := Add(Iota(g, shapes.Make(dtypes.Int32, transferPages), 0), Sub(in.From, has))
	pages := Where(GreaterOrEqual(rank, integer(g, 0)), take(fresh, rank), FillScalar(g, rank.Shape(), -1))
	set := func(x, value *Node) *Node {
		return control.ScatterSet(x, Reshape(in.Row, 1), Reshape(value, 1))
	}
	// The row runs nothing, and needs no more pages than those it gets.
	st.Rows.PromptLens, st.Rows.MaxPages = set(st.Rows.PromptLens, integer(g, 0)), set(st.Rows.MaxPages, integer(g, 0))
	st.Caches = gr.writePages(st.Caches, pages, in.Layers)
	return st, loadOutput{opened.Then(cloned).Then(grown)}
}

// bytesOnHost is the memory that the pages of length tokens, of all devices of this process, take on the host.
func (e *Engine) bytesOnHost(length int) int64 {
	blocks := ceilDiv(ceilDiv(length, e.plan.PageSize), transferPages)
	return int64(blocks) * transferPages * int64(e.plan.PageSize) * e.plan.KVBytesPerToken * int64(
		len(collective.Places(e.cfg.Backend)))
}
