package device

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

func (gr *Graphs) newExtras(g *Graph) extras {
	return extras{gr.features().Begin(g), gr.speculation().newDrafting(g)}
}

func (gr *Graphs) newState(g *Graph) state {
	rows := gr.Rows()
	st := state{
		Pages:     gr.newPages(g),
		Sequences: seqtable.New(g, rows, gr.PagesPerSeq, gr.PageSize),
		Queue:     tokenqueue.New(g, gr.Slots),
		Rows:      gr.newRows(g),
		Turns:     zeros(g, dtypes.Int32, gr.Slots),
	}
	st.Caches = gr.network().newCaches(g)
	return st
}

// newPages makes the table of pages, all free. Without a prefix cache none is kept.
func (gr *Graphs) newPages(g *Graph) pagetable.Table {
	if gr.PrefixCache {
		return pagetable.NewKeeping(g, gr.Pages)
	}
	return pagetable.New(g, gr.Pages)
}

// pageFates returns the takers and holders of pages, i32[P]: see schedule.Sizes.PageFate.
func pageFates(t pagetable.Table) *Node {
	if !t.Keeps() {
		return Zeros(t.RefCounts.Graph(), shapes.Make(dtypes.Int32, 1))
	}
	held := ConvertDType(GreaterThan(t.RefCounts, ZerosLike(t.RefCounts)), dtypes.Int32)
	return Add(MulScalar(t.Takers, 2), held)
}

// newRows makes the parameters of all rows, all zero.
func (gr *Graphs) newRows(g *Graph) rowParams {
	rows := tree.Make[Rows](gr.Rows())
	rows.StopStates = gr.stopStates(rows.StopStates)
	if !gr.ShortRope {
		rows.Short = nil
	}
	if gr.Adapters == 0 {
		rows.Adapters = nil
	}
	return tree.Zeros[rowParams](g, tree.Arrays(&rows))
}

func (gr *Graphs) newOutput(g *Graph) output {
	s, columns := gr.Slots, gr.Columns()
	none := func(dims ...int) *Node { return FillScalar(g, shapes.Make(dtypes.Int32, dims...), -1) }
	i32 := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Int32, dims...)) }
	f32 := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Float32, dims...)) }
	out := output{Status: seqtable.NewStatus(g)}
	out.OutputOf = schedule.OutputOf[*Node, *Node, *Node]{
		Tokens: i32(columns, s), Logprobs: f32(columns, s), Processed: f32(columns, s), Owners: none(columns, s),
		Finish:  i32(columns, s),
		Columns: integer(g, 0), Placed: none(gr.WaitingLen()), Opened: i32(gr.AheadLen()),
		SeqLens:      i32(gr.Rows()),
		PrefillSteps: integer(g, 0), DecodeSteps: integer(g, 0), PrefillTokens: integer(g, 0),
		DecodeTokens: integer(g, 0),
		FreePages:    i32(columns), MinFree: integer(g, gr.Pages),
		EndFree: integer(g, 0), Short: integer(g, 0),
	}
	tops := gr.scores().NoTops(g, columns, s)
	out.TopIDs, out.TopLogprobs, out.Scores = tops.IDs, tops.Logprobs, gr.scores().NoPrompts(g)
	notes := gr.NoNotes(g, columns, s)
	out.Measures, out.Experts, out.Hidden = gr.scores().NoMeasures(g, columns, s), notes.Experts, notes.Hidden
	out.States = gr.NoStates(g)
	if (waiting{gr.Sizes}).any() {
		out.Waits = i32(2)
	}
	if gr.Drafts.On() {
		out.Drafts = i32(2)
	}
	out.Clock = newClock(g)
	if gr.Debug {
		out.Rules = Zeros(g, shapes.Make(dtypes.Int32, len(seqtable.Rules)))
	}
	return out
}
