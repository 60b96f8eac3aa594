package device

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// prompts returns what remains of the rows' prompts: first the prompts of slots in the order in which they were
// admitted, then the prompts of the other rows.
func (l loop) prompts(in input) tokenqueue.Prompts {
	s := l.State.Sequences
	lens := Where(s.Used, l.State.Rows.PromptLens, ZerosLike(s.SeqLens))
	others := s.NumSlots() - l.State.Turns.Shape().Size()
	last := FillScalar(lens.Graph(), shapes.Make(dtypes.Int32, others), math.MaxInt32)
	return tokenqueue.Prompts{Tokens: in.Tokens, Starts: l.Starts, Done: s.SeqLens, Lens: lens,
		Turns: Concatenate([]*Node{l.State.Turns, last}, 0)}
}

// admitted gives slots that are admitted now, bool[S], a turn after all slots whose prompts still run. If none does,
// turns start at 0 again, so that they stay small.
func (l loop) admitted(in input, slots *Node) *Node {
	turns := l.State.Turns
	remaining := SliceAxis(l.prompts(in).Remaining(), 0, AxisRangeFromStart(turns.Shape().Size()))
	pending := GreaterThan(remaining, ZerosLike(remaining))
	behind := AddScalar(ReduceAllMax(Where(pending, turns, FillScalar(turns.Graph(), turns.Shape(), -1))), 1)
	return Where(slots, BroadcastToShape(behind, turns.Shape()), turns)
}

// stepTokens are the tokens of a step.
type stepTokens struct {
	tokenqueue.Packed
	Decodes *Node // i32[]: how many of them are tokens that slots sampled last
	// The drafts that follow these tokens, of R rows, and their number, i32[]; nil unless tokens are drafted.
	Drafts  drafts
	Drafted *Node
}

// pack packs the tokens of a step. A decode step has the token that each slot sampled last, and drafts after it. A
// prompt step has the next prompt tokens; if steps are mixed and there are pages for it, it also has the tokens that
// slots sampled last.
func (gr *Graphs) pack(l *loop, weights weights, in input, prefill *Node) (p stepTokens) {
	g, w := prefill.Graph(), waiting{gr.Sizes}
	takes := LogicalNot(prefill)
	if gr.Mixed {
		takes = LogicalOr(takes, Equal(gr.short(l.State), integer(g, 0)))
	}
	next := l.State.Queue.Next(gr.Rows())
	var after tokenqueue.Queue
	if w.any() {
		next, after = w.holdBack(l, next, takes)
	}
	next = Where(takes, next, FillScalar(g, next.Shape(), -1))
	room := Where(prefill, integer(g, gr.PrefillTokens), integer(g, 0))
	if gr.Drafts.On() {
		p.Drafts = gr.speculation().draft(l, weights, in, next, prefill)
		p.Drafted = ReduceAllSum(p.Drafts.Counts)
		p.Packed = l.prompts(in).PackDrafts(next, &p.Drafts.Drafts, room, gr.StepTokens())
	} else {
		p.Packed = l.prompts(in).PackNext(next, room, gr.StepTokens())
	}
	if !w.any() {
		after = tokenqueue.New(g, gr.Slots)
	}
	l.State.Queue = tree.Rebuild(l.State.Queue, choices(takes, tree.Leaves(after), tree.Leaves(l.State.Queue)))
	p.Decodes = scan.Count(GreaterOrEqual(next, ZerosLike(next)))
	return p
}

// step runs tokens through the model and samples for each sequence whose last token is among them: see pack. prefill is
// bool[].
//
// The tables are the same work for both kinds; the model is there once for each, as a loop that runs no time or once. A
// step with drafts takes the form of prompts.
func (gr *Graphs) step(l loop, w weights, in input, prefill *Node) loop {
	g := prefill.Graph()
	t, draws := gr.StepTokens(), gr.Draws()
	packed := gr.pack(&l, w, in, prefill)

	var batch tokenqueue.PageBatchInfo
	var allocated seqtable.Status
	before, lens := l.State.Pages, l.State.Sequences.SeqLens
	l.State.Sequences, l.State.Pages, batch, allocated = l.State.Sequences.Allocate(l.State.Pages, packed.Packed,
		min(gr.Rows(), t))
	l.State.Caches = gr.network().zeroTaken(l.State.Caches, before, l.State.Pages)
	l.State.Extras.Drafts = l.State.Extras.Drafts.note(packed.Packed, batch)
	ragged, newTokens := prefill, packed.Decodes
	if gr.Drafts.On() {
		ragged = LogicalOr(prefill, GreaterThan(packed.Drafted, integer(g, 0)))
		newTokens = Add(newTokens, packed.Drafted)
	}
	isSlot := LogicalAnd(GreaterOrEqual(packed.SlotIDs, integer(g, 0)), LessThan(packed.SlotIDs, integer(g, gr.Slots)))
	next := AddScalar(packed.PosIDs, 1)
	indices, count := scan.Positions(LogicalAnd(isSlot,
		GreaterOrEqual(next, take(l.State.Rows.PromptLens, packed.SlotIDs))), draws)
	isRow := LessThan(Iota(g, indices.Shape(), 0), BroadcastToDims(count, draws))
	indices = Min(indices, integer(g, t-1))

	wanted := indices
	if gr.scores().OfPrompts() {
		wanted = nil
	}
	var hidden *Node
	var notes feature.Notes
	l.State.Caches, hidden, notes = gr.network().forward(l.State.Caches, w.Weights, packed.Packed, batch, ragged,
		wanted, l.State.Rows)
	l.State.Caches = gr.speculation().follow(l.State.Caches, w, packed.Packed, batch, ragged)
	l.Out.Scores = gr.scores().Prompts(l.Out.Scores, l.State.Extras.State, l.State.table(), l.Starts, in.Tokens,
		packed.Packed, func(tokens, count *Node, f feature.OfLogits) feature.Scored {
			adapted := w.Weights.Adapting(adaptersOf(l.State.Rows, take(packed.SlotIDs, tokens)))
			return decoder.ByRows(gr.Model, adapted, take(hidden, tokens), count, f)
		})
	if wanted == nil {
		hidden = take(hidden, indices)
		notes = tree.Map(notes, func(x *Node) *Node { return take(x, indices) })
	}

	rows := samplers{Slots: Where(isRow, take(packed.SlotIDs, indices), FillScalar(g, indices.Shape(), -1)),
		Positions: take(next, indices), Count: count}
	if gr.Drafts.On() {
		nth := Sub(take(packed.PosIDs, indices), take(lens, rows.Slots))
		nth = Where(GreaterThan(take(packed.Drafts.Counts, rows.Slots), ZerosLike(nth)), nth, ZerosLike(nth))
		rows.Behind = packed.Drafts.statesAfter(l.State, gr.speculation(), rows.Slots, nth)
	}
	// Most steps of a long prompt sample nothing.
	sampled := control.If(GreaterThan(count, integer(g, 0)),
		func() drawn { return gr.sample(l.State, w.Weights, hidden, rows) },
		func() drawn { return gr.noneDrawn(g) })
	sampled.Notes = notes
	l.Out.States = gr.AddStates(l.Out.States, l.State.table(), rows, hidden)
	one := ConvertDType(prefill, dtypes.Int32)
	l.Out.PrefillSteps, l.Out.PrefillTokens = Add(l.Out.PrefillSteps, one),
		Add(l.Out.PrefillTokens, Sub(packed.NumTokens, newTokens))
	l.Out.DecodeSteps, l.Out.DecodeTokens = Add(l.Out.DecodeSteps, Sub(integer(g, 1), one)),
		Add(l.Out.DecodeTokens, packed.Decodes)
	if gr.Drafts.On() {
		return gr.recorder().recordDrafts(l, in, packed, indices, rows, sampled, allocated)
	}
	return gr.recorder().record(l, in, rows, sampled, allocated)
}

// samplers are the rows of a step that sample a token: D rows, see Sizes.Draws.
type samplers = feature.Samplers

// drawn is the tokens that they sample.
type drawn struct {
	Tokens, Logprobs, Processed *Node // i32[D], f32[D], f32[D]
	Tops                        feature.Tops
	Measures                    feature.Measures
	Notes                       feature.Notes // of the rows' last tokens
}

// noneDrawn is the result if no row samples.
func (gr *Graphs) noneDrawn(g *Graph) drawn {
	none := zeros(g, dtypes.Float32, gr.Draws())
	return drawn{Tokens: zeros(g, dtypes.Int32, gr.Draws()), Logprobs: none, Processed: none,
		Tops: gr.scores().NoTops(g, gr.Draws()), Measures: gr.scores().NoMeasures(g, gr.Draws())}
}

// sample samples a token for each of rows from hidden states [D, hidden]. Each device of a group samples for its part
// of the rows.
func (gr *Graphs) sample(st state, w decoder.Weights, hidden *Node, rows samplers) drawn {
	w = w.Adapting(adaptersOf(st.Rows, rows.Slots))
	return decoder.ByRows(gr.Model, w, hidden, rows.Count, func(logits *Node, part decoder.Part) drawn {
		return gr.sampleFrom(st, logits, samplers{Slots: part.Of(rows.Slots), Positions: part.Of(rows.Positions),
			Count: part.Count, Behind: tree.Map(rows.Behind, part.Of)})
	})
}

// sampleFrom samples a token for each of rows from scores f32[D, vocab].
func (gr *Graphs) sampleFrom(st state, logits *Node, rows samplers) drawn {
	params := tree.Map(st.Rows.Sampling, func(x *Node) *Node { return take(x, rows.Slots) })
	by := gr.features().Process(st.Extras.State, st.table(), rows)
	tops, bars := gr.scores().Tops(st.Extras.State, logits, rows, barred(st, rows, by.Ends))
	measures, bars := gr.scores().Measures(logits, rows, bars)
	draw := func() (d drawn) {
		d.Tops, d.Measures = tops, measures
		d.Tokens, d.Logprobs, d.Processed = sampling.SampleBarred(logits, by.Masks, params, rows.Positions, rows.Count,
			bars)
		return d
	}
	changes := by.Changes()
	if changes == nil {
		return draw()
	}
	changes = LogicalAnd(changes, GreaterOrEqual(rows.Slots, ZerosLike(rows.Slots)))
	return control.If(anyTrue(changes), func() (d drawn) {
		// Within the branch, which alone takes parts of large arrays.
		by := gr.features().Process(st.Extras.State, st.table(), rows)
		d.Tops, d.Measures = tops, measures
		d.Tokens, d.Logprobs, d.Processed = sampling.SampleProcessed(logits, by.Processors, params, rows.Positions,
			rows.Count, bars)
		return d
	}, draw)
}
