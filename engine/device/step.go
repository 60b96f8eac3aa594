package device

import (
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/scan"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
	"github.com/quire/quire/tree"
)

// prompts is what the rows have yet to run of their prompts: those of slots in the order in which they were admitted,
// then those of the other rows.
func (l loop) prompts(in input) tokenqueue.Prompts {
	s := l.State.Sequences
	lens := Where(s.Used, l.State.Rows.PromptLens, ZerosLike(s.SeqLens))
	others := s.NumSlots() - l.State.Turns.Shape().Size()
	last := FillScalar(lens.Graph(), shapes.Make(dtypes.Int32, others), math.MaxInt32)
	return tokenqueue.Prompts{Tokens: in.Tokens, Starts: l.Starts, Done: s.SeqLens, Lens: lens,
		Turns: Concatenate([]*Node{l.State.Turns, last}, 0)}
}

// admitted gives slots that are admitted now, bool[S], a turn behind all whose prompts still run. Turns begin at 0
// where none does, so that they stay small.
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
	Decodes *Node // i32[]: how many of them slots drew last
	// Of the tokens that may be drawn behind these, where tokens are drafted: what they are, of R rows, and how many of
	// them, i32[].
	Drafts  drafts
	Drafted *Node
}

// pack takes the tokens of a step: to decode, the one that each slot drew last, and drafts behind it; else the next
// prompt tokens, and where steps are mixed and there are pages for it also
// the ones that slots drew last.
func (gr *Graphs) pack(l *loop, w weights, in input, prefill *Node) (p stepTokens) {
	g := prefill.Graph()
	takes := LogicalNot(prefill)
	if gr.Mixed {
		takes = LogicalOr(takes, Equal(gr.short(l.State), integer(g, 0)))
	}
	next := l.State.Queue.Next(gr.Rows())
	var after tokenqueue.Queue
	if gr.waitsForHost() {
		next, after = gr.holdBack(l, next, takes)
	}
	next = Where(takes, next, FillScalar(g, next.Shape(), -1))
	room := Where(prefill, integer(g, gr.PrefillTokens), integer(g, 0))
	if gr.Drafts.On() {
		p.Drafts = gr.draft(l, w, in, next, prefill)
		p.Drafted = ReduceAllSum(p.Drafts.Counts)
		p.Packed = l.prompts(in).PackDrafts(next, &p.Drafts.Drafts, room, gr.StepTokens())
	} else {
		p.Packed = l.prompts(in).PackNext(next, room, gr.StepTokens())
	}
	if !gr.waitsForHost() {
		after = tokenqueue.New(g, gr.Slots)
	}
	l.State.Queue = tree.Rebuild(l.State.Queue, choices(takes, tree.Leaves(after), tree.Leaves(l.State.Queue)))
	p.Decodes = scan.Count(GreaterOrEqual(next, ZerosLike(next)))
	return p
}

// step runs tokens through the model and draws where a sequence's last one is among them: see pack. prefill is bool[].
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
	l.State.Caches = gr.zeroTaken(l.State.Caches, before, l.State.Pages)
	l.State.Extras.Drafts = l.State.Extras.Drafts.note(packed.Packed, batch)
	ragged, newTokens := prefill, packed.Decodes
	if gr.Drafts.On() {
		ragged = LogicalOr(prefill, GreaterThan(packed.Drafted, integer(g, 0)))
		newTokens = Add(newTokens, packed.Drafted)
	}
	isSlot := LogicalAnd(GreaterOrEqual(packed.SlotIDs, integer(g, 0)), LessThan(packed.SlotIDs, integer(g, gr.Slots)))
	next := AddScalar(packed.PosIDs, 1)
	at, count := scan.Positions(LogicalAnd(isSlot, GreaterOrEqual(next, take(l.State.Rows.PromptLens, packed.SlotIDs))),
		draws)
	isRow := LessThan(Iota(g, at.Shape(), 0), BroadcastToDims(count, draws))
	at = Min(at, integer(g, t-1))

	wanted := at
	if gr.scores().OfPrompts() {
		wanted = nil
	}
	var hidden *Node
	l.State.Caches, hidden = gr.forward(l.State.Caches, w.Weights, packed.Packed, batch, ragged, wanted,
		l.State.Rows.Short)
	l.State.Caches = gr.follow(l.State.Caches, w, packed.Packed, batch, ragged)
	l.Out.Scores = gr.scores().Prompts(l.Out.Scores, l.State.Extras.State, l.State.table(), l.Starts, in.Tokens,
		packed.Packed, func(tokens, count *Node) *Node {
			return decoder.Logits(gr.Model, w.Weights, take(hidden, tokens), count)
		})
	if wanted == nil {
		hidden = take(hidden, at)
	}

	rows := samplers{Slots: Where(isRow, take(packed.SlotIDs, at), FillScalar(g, at.Shape(), -1)),
		Positions: take(next, at), Count: count}
	if gr.Drafts.On() {
		nth := Sub(take(packed.PosIDs, at), take(lens, rows.Slots))
		nth = Where(GreaterThan(take(packed.Drafts.Counts, rows.Slots), ZerosLike(nth)), nth, ZerosLike(nth))
		rows.Behind = packed.Drafts.at(l.State, gr, rows.Slots, nth)
	}
	// Most steps of a long prompt draw nothing.
	got := control.If(GreaterThan(count, integer(g, 0)),
		func() drawn { return gr.sample(l.State, w.Weights, hidden, rows) },
		func() drawn { return gr.noneDrawn(g) })
	one := ConvertDType(prefill, dtypes.Int32)
	l.Out.PrefillSteps, l.Out.PrefillTokens = Add(l.Out.PrefillSteps, one),
		Add(l.Out.PrefillTokens, Sub(packed.NumTokens, newTokens))
	l.Out.DecodeSteps, l.Out.DecodeTokens = Add(l.Out.DecodeSteps, Sub(integer(g, 1), one)),
		Add(l.Out.DecodeTokens, packed.Decodes)
	if gr.Drafts.On() {
		return gr.recordDrafts(l, in, packed, at, rows, got, allocated)
	}
	return gr.record(l, in, rows, got, allocated)
}

// choices picks one of two lists of nodes by a condition, bool[].
func choices(condition *Node, then, otherwise []*Node) []*Node {
	picked := make([]*Node, len(then))
	for i := range then {
		picked[i] = Where(condition, then[i], otherwise[i])
	}
	return picked
}

// forward runs the packed tokens through the model, whose layers write keys and values into the caches and attend to
// them. It returns the hidden states [N, hidden] of tokens wanted i32[N], or [T, hidden] of all if that is nil. short
// i32[R] is that of rows, nil where none is.
func (gr *Graphs) forward(caches []*Node, w decoder.Weights, packed tokenqueue.Packed, batch tokenqueue.PageBatchInfo,
	prefill, wanted, short *Node) (after []*Node, hidden *Node) {
	g := prefill.Graph()
	t, slots := gr.StepTokens(), gr.Slots
	type model struct {
		Caches []*Node
		Hidden *Node // [N, hidden]
	}
	n := t
	if wanted != nil {
		n = wanted.Shape().Dimensions[0]
	}
	x := decoder.Embed(gr.Model, w, packed.Tokens, packed.NumTokens)
	if short != nil {
		x.Short = take(short, packed.SlotIDs)
	}
	m := model{Caches: caches, Hidden: Zeros(g, shapes.Make(gr.DType, n, gr.Model.HiddenSize))}
	done := func(caches []*Node, hidden *Node) model {
		if wanted != nil {
			hidden = take(hidden, wanted)
		}
		return model{caches, hidden}
	}
	m = control.Once(prefill, m, func(now control.Now, m model) model {
		return done(gr.layers(m.Caches, w, control.Hold(now, x), control.Hold(now, packed), batch, false))
	})
	first := func(x *Node, n int) *Node { return SliceAxis(x, 0, AxisRangeFromStart(n)) }
	m = control.Once(LogicalNot(prefill), m, func(now control.Now, m model) model {
		one := tokenqueue.Packed{Tokens: first(packed.Tokens, slots), SlotIDs: first(packed.SlotIDs, slots),
			PosIDs: first(packed.PosIDs, slots), NumTokens: packed.NumTokens}
		b := batch
		b.SlotIDs, b.PageIndices, b.SeqLens, b.CuQLens = first(b.SlotIDs, slots), first(b.PageIndices, slots),
			first(b.SeqLens, slots), first(b.CuQLens, slots+1)
		b.NewTokenDests, b.TokenSeqs, b.PosIDs = first(b.NewTokenDests, slots), first(b.TokenSeqs, slots),
			first(b.PosIDs, slots)
		x := tree.Map(x, func(x *Node) *Node { return first(x, slots) })
		caches, hidden := gr.layers(m.Caches, w, control.Hold(now, x), control.Hold(now, one), b, true)
		if wanted == nil && slots < t {
			hidden = Concatenate([]*Node{hidden, Zeros(g, shapes.Make(gr.DType, t-slots, gr.Model.HiddenSize))}, 0)
		}
		return done(caches, hidden)
	})
	return m.Caches, m.Hidden
}

// hidden is one form of forward: that of prompts, or that of one token a sequence.
func (gr *Graphs) hidden(caches []*Node, w decoder.Weights, packed tokenqueue.Packed, batch tokenqueue.PageBatchInfo,
	oneToken bool) ([]*Node, *Node) {
	x := decoder.Embed(gr.Model, w, packed.Tokens, packed.NumTokens)
	return gr.layers(caches, w, x, packed, batch, oneToken)
}

// layers is hidden of the packed tokens, embedded as x.
func (gr *Graphs) layers(caches []*Node, w decoder.Weights, x decoder.Embedded, packed tokenqueue.Packed,
	batch tokenqueue.PageBatchInfo, oneToken bool) ([]*Node, *Node) {
	hidden, caches := decoder.Hidden(gr.Model, w, x, packed.PosIDs, packed.NumTokens, caches,
		gr.attend(batch, oneToken), gr.states(batch))
	return caches, hidden
}

// samplers are the rows of a step that draw a token: D of them, see Sizes.Draws.
type samplers = feature.Samplers

// drawn is what they draw.
type drawn struct {
	Tokens, Logprobs, Processed *Node // i32[D], f32[D], f32[D]
	Tops                        feature.Tops
}

// noneDrawn stands for what no row draws.
func (gr *Graphs) noneDrawn(g *Graph) drawn {
	none := zeros(g, dtypes.Float32, gr.Draws())
	return drawn{Tokens: zeros(g, dtypes.Int32, gr.Draws()), Logprobs: none, Processed: none,
		Tops: gr.scores().NoTops(g, gr.Draws())}
}

// sample draws a token for each of rows from hidden states [D, hidden].
func (gr *Graphs) sample(st state, w decoder.Weights, hidden *Node, rows samplers) drawn {
	logits := decoder.Logits(gr.Model, w, hidden, rows.Count)
	params := tree.Map(st.Rows.Sampling, func(of *Node) *Node { return take(of, rows.Slots) })
	by := gr.features().Processors(st.Extras.State, st.table(), rows)
	tops, bars := gr.scores().Tops(st.Extras.State, logits, rows, barred(st, rows, by.Ends))
	draw := func() (d drawn) {
		d.Tops = tops
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
		by := gr.features().Processors(st.Extras.State, st.table(), rows)
		d.Tops = tops
		d.Tokens, d.Logprobs, d.Processed = sampling.SampleProcessed(logits, by.Processors, params, rows.Positions,
			rows.Count, bars)
		return d
	}, draw)
}

// record writes a column of output, ends the sequences that are finished, frees their rows and pages, and queues the
// tokens of the others.
func (gr *Graphs) record(l loop, in input, rows samplers, d drawn, allocated seqtable.Status) loop {
	g := rows.Slots.Graph()
	l, finish := gr.note(l, in, rows, d)
	valid := GreaterOrEqual(rows.Slots, integer(g, 0))
	l.Out.Status = l.Out.Status.Then(allocated)
	l = gr.goOn(l, rows, d.Tokens, LogicalAnd(valid, GreaterThan(finish, integer(g, int(schedule.Running)))))
	free := l.State.Pages.NumFree()
	drew := GreaterThan(rows.Count, integer(g, 0))
	l.Out.FreePages = control.ScatterSet(l.Out.FreePages, Reshape(l.Out.Columns, 1), Reshape(free, 1))
	l.Out.MinFree = Min(l.Out.MinFree, free)
	l.Out.Columns = Add(l.Out.Columns, ConvertDType(drew, dtypes.Int32))
	return gr.checked(l)
}

// note writes a column of output, and says how the sequences stand behind the tokens that they drew, i32[D].
func (gr *Graphs) note(l loop, in input, rows samplers, d drawn) (after loop, finish *Node) {
	g := rows.Slots.Graph()
	s, columns := gr.Slots, gr.Columns()
	valid := GreaterOrEqual(rows.Slots, integer(g, 0))
	nowhere := FillScalar(g, rows.Slots.Shape(), float64(s*columns))
	place := Where(valid, Add(rows.Slots, MulScalar(l.Out.Columns, float64(s))), nowhere)
	put := func(to, values *Node) *Node {
		if to == nil {
			return nil
		}
		dims := to.Shape().Dimensions
		flat := Reshape(to, slices.Concat([]int{s * columns}, dims[2:])...)
		return Reshape(control.ScatterSet(flat, place, values), dims...)
	}
	l.State, finish = gr.finish(l.State, in.Stops, rows, d.Tokens)
	l.State.Extras.State = gr.features().Drew(l.State.Extras.State, forFeatures(in), rows, d.Tokens)
	l.State.Extras.Drafts.Log = l.State.Extras.Drafts.Log.push(gr, l.State, rows, d.Tokens)
	l.Out.Tokens, l.Out.Logprobs, l.Out.Processed = put(l.Out.Tokens, d.Tokens), put(l.Out.Logprobs, d.Logprobs),
		put(l.Out.Processed, d.Processed)
	l.Out.TopIDs, l.Out.TopLogprobs = put(l.Out.TopIDs, d.Tops.IDs), put(l.Out.TopLogprobs, d.Tops.Logprobs)
	l.Out.Owners = put(l.Out.Owners, take(l.State.Sequences.Owners, rows.Slots))
	l.Out.Finish = put(l.Out.Finish, finish)
	return l, finish
}

// goOn queues the tokens that rows drew, and ends the sequences of those that are done, bool[D].
func (gr *Graphs) goOn(l loop, rows samplers, tokens, done *Node) loop {
	st := l.State
	g := rows.Slots.Graph()
	valid := GreaterOrEqual(rows.Slots, integer(g, 0))
	// A slot has at most one token queued, so that the queue of S never runs full.
	st.Queue = st.Queue.Enqueue(tokens, rows.Slots, rows.Positions, LogicalAnd(valid, LogicalNot(done)))
	ended := control.ScatterSet(Zeros(g, shapes.Make(dtypes.Int32, gr.Rows())),
		Where(done, rows.Slots, FillScalar(g, rows.Slots.Shape(), float64(gr.Rows()))), OnesLike(rows.Slots))
	var released seqtable.Status
	st, released = gr.release(st, Equal(ended, integer(g, 1)))
	l.State = st
	l.Out.Status = l.Out.Status.Then(released)
	return l
}

// checked counts the violations of rules, in debug mode.
func (gr *Graphs) checked(l loop) loop {
	if gr.Debug {
		l.Out.Rules = Add(l.Out.Rules, l.State.Sequences.Check(gr.checkInput(l.State, l.Pins)))
	}
	return l
}

// checkInput is what the rules are checked with: contexts may share partial pages. pins are references that no row has.
func (gr *Graphs) checkInput(st state, pins *Node) seqtable.CheckInput {
	rows := Iota(st.Sequences.SeqLens.Graph(), st.Sequences.SeqLens.Shape(), 0)
	return seqtable.CheckInput{Pages: st.Pages, Queue: st.Queue, Pins: pins,
		Lazy: GreaterOrEqual(rows, FillScalar(rows.Graph(), rows.Shape(), float64(gr.FirstContext())))}
}

// release frees the rows where mask, bool[R], holds: their pages lose a reference, and nothing of them stays queued.
func (gr *Graphs) release(st state, mask *Node) (state, seqtable.Status) {
	before := st.Pages
	var status seqtable.Status
	st.Queue = st.Queue.PurgeSlots(mask)
	keep := st.Rows.PromptLens
	if gr.NameDrawn {
		keep = Where(Equal(st.Rows.Leaves, OnesLike(st.Rows.Leaves)), keep, st.Sequences.SeqLens)
	}
	st.Sequences, st.Pages, status = st.Sequences.Release(st.Pages, mask, keep)
	st.Caches = gr.zeroFreed(st.Caches, before, st.Pages)
	return st, status
}

// zeroFreed clears the pages that became free, if pages are cleared: those that are kept when they are taken.
func (gr *Graphs) zeroFreed(caches []*Node, before, after pagetable.Table) []*Node {
	if !gr.ZeroPages {
		return caches
	}
	g := before.RefCounts.Graph()
	freed := LogicalAnd(GreaterThan(before.RefCounts, integer(g, 0)), Equal(after.RefCounts, integer(g, 0)))
	if after.Keeps() {
		freed = LogicalAnd(freed, Equal(after.Ages, integer(g, 0)))
	}
	return gr.zero(caches, freed)
}

// zeroTaken clears the pages that were kept and have been taken, if pages are cleared.
func (gr *Graphs) zeroTaken(caches []*Node, before, after pagetable.Table) []*Node {
	if !gr.ZeroPages || !after.Keeps() {
		return caches
	}
	g := before.RefCounts.Graph()
	return gr.zero(caches, LogicalAnd(Equal(before.RefCounts, integer(g, 0)),
		GreaterThan(after.RefCounts, integer(g, 0))))
}

// take returns rows of x by int32 indices; negative ones read row 0.
func take(x, indices *Node) *Node {
	return Gather(x, InsertAxes(Max(indices, ZerosLike(indices)), -1))
}

func integer(g *Graph, value int) *Node { return Scalar(g, dtypes.Int32, float64(value)) }

func zeros(g *Graph, dtype dtypes.DType, dims ...int) *Node {
	return Zeros(g, shapes.Make(dtype, dims...))
}
