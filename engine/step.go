package engine

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/control"
	"github.com/quire/quire/models/llama"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/scan"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// prompts is what the rows have yet to run of their prompts.
func (l loop) prompts(in input) tokenqueue.Prompts {
	s := l.State.Sequences
	lens := Where(s.Used, l.State.Rows.PromptLens, ZerosLike(s.SeqLens))
	return tokenqueue.Prompts{Tokens: in.Tokens, Starts: l.Starts, Done: s.SeqLens, Lens: lens}
}

// prefillStep runs the next prompt tokens: those of slots, then those of holders.
func (gr *graphs) prefillStep(l loop, w llama.Weights, in input) loop {
	packed := l.prompts(in).PackNext(gr.plan.PrefillTokens)
	hidden, l, allocated := gr.forward(l, w, packed, min(gr.plan.rows(), gr.plan.PrefillTokens), false)

	// A slot whose prompt ends in this step samples from its last token; most steps of a long prompt end none.
	slotOf, promptLens := packed.SlotIDs, take(l.State.Rows.PromptLens, packed.SlotIDs)
	g := slotOf.Graph()
	isSlot := LogicalAnd(GreaterOrEqual(slotOf, integer(g, 0)), LessThan(slotOf, integer(g, gr.plan.slots)))
	at, count := scan.Positions(LogicalAnd(isSlot, Equal(AddScalar(packed.PosIDs, 1), promptLens)), gr.plan.slots)
	isRow := LessThan(Iota(g, at.Shape(), 0), BroadcastToDims(count, gr.plan.slots))
	at = Min(at, integer(g, gr.plan.PrefillTokens-1))
	rows := samplers{Slots: Where(isRow, take(slotOf, at), FillScalar(g, at.Shape(), -1)), Positions: AddScalar(take(packed.PosIDs, at), 1), Count: count}
	type tokens struct{ Tokens, Logprobs, Processed *Node }
	got := control.If(GreaterThan(count, integer(g, 0)),
		func() tokens { return tokens(gr.sample(l.State, w, take(hidden, at), rows)) },
		func() tokens {
			none := Zeros(g, shapes.Make(dtypes.Float32, gr.plan.slots))
			return tokens{ZerosLike(at), none, none}
		})
	l.Out.PrefillSteps, l.Out.PrefillTokens = AddScalar(l.Out.PrefillSteps, 1), Add(l.Out.PrefillTokens, packed.NumTokens)
	return gr.record(l, rows, drawn(got), allocated)
}

// decodeStep runs the token that each slot drew last.
func (gr *graphs) decodeStep(l loop, w llama.Weights) loop {
	var packed tokenqueue.Packed
	l.State.Queue, packed = l.State.Queue.PackNext(gr.plan.slots)
	hidden, l, allocated := gr.forward(l, w, packed, gr.plan.slots, true)
	rows := samplers{Slots: packed.SlotIDs, Positions: AddScalar(packed.PosIDs, 1), Count: packed.NumTokens}
	l.Out.DecodeSteps, l.Out.DecodeTokens = AddScalar(l.Out.DecodeSteps, 1), Add(l.Out.DecodeTokens, packed.NumTokens)
	return gr.record(l, rows, gr.sample(l.State, w, hidden, rows), allocated)
}

// forward runs the packed tokens through the model: pages for them, keys and values into the cache, attention. It returns the hidden
// states [T, hidden].
func (gr *graphs) forward(l loop, w llama.Weights, packed tokenqueue.Packed, maxSeqs int, oneToken bool) (*Node, loop, seqtable.Status) {
	st := l.State
	var batch tokenqueue.PageBatchInfo
	var status seqtable.Status
	st.Sequences, st.Pages, batch, status = st.Sequences.Allocate(st.Pages, packed, maxSeqs)
	caches := append([]*Node(nil), st.Caches...)
	layout := gr.plan.layout
	hidden := llama.Hidden(gr.model, w, packed.Tokens, packed.PosIDs, packed.NumTokens, func(layer int, q, k, v *Node) *Node {
		caches[layer] = layout.Update(caches[layer], batch, k, v)
		return layout.RaggedPagedAttention(q, caches[layer], batch, gr.attention(layer, oneToken))
	})
	st.Caches = caches
	l.State = st
	return hidden, l, status
}

func (gr *graphs) attention(layer int, oneToken bool) attention.Options {
	opts := attention.Options{Scale: 1 / math.Sqrt(float64(gr.model.HeadDim)), OneTokenPerSeq: oneToken}
	if layer < len(gr.model.SlidingWindow) {
		opts.Window = gr.model.SlidingWindow[layer]
	}
	return opts
}

// samplers are the rows of a step that draw a token: the first Count of S.
type samplers struct {
	Slots     *Node // i32[S]; -1 from Count on
	Positions *Node // i32[S]: of the token to be drawn
	Count     *Node // i32[]
}

// drawn is what they draw.
type drawn struct {
	Tokens, Logprobs, Processed *Node // i32[S], f32[S], f32[S]
}

// sample draws a token for each of rows from hidden states [S, hidden].
func (gr *graphs) sample(st deviceState, w llama.Weights, hidden *Node, rows samplers) drawn {
	p := st.Rows.Sampling
	logits := llama.Logits(gr.model, w, hidden, rows.Count)
	tokens, logprobs, processed := sampling.Sample(logits, sampling.Params{
		Temperature: take(p.Temperature, rows.Slots), TopP: take(p.TopP, rows.Slots), MinP: take(p.MinP, rows.Slots),
		TopK: take(p.TopK, rows.Slots), Key: take(p.Key, rows.Slots),
	}, rows.Positions, rows.Count)
	return drawn{tokens, logprobs, processed}
}

// record writes a column of output, ends the sequences that are finished, frees their rows and pages, and queues the tokens of the others.
func (gr *graphs) record(l loop, rows samplers, d drawn, allocated seqtable.Status) loop {
	st := l.State
	g := rows.Slots.Graph()
	s, columns := gr.plan.slots, gr.plan.MaxRounds
	valid := GreaterOrEqual(rows.Slots, integer(g, 0))
	nowhere := FillScalar(g, rows.Slots.Shape(), float64(s*columns))
	place := Where(valid, Add(rows.Slots, MulScalar(l.Out.Columns, float64(s))), nowhere)
	put := func(to, values *Node) *Node {
		return Reshape(control.ScatterSet(Reshape(to, s*columns), place, values), columns, s)
	}
	stops := take(st.Rows.StopTokens, rows.Slots)
	isStop := ReduceLogicalOr(Equal(stops, BroadcastToDims(InsertAxes(d.Tokens, 1), stops.Shape().Dimensions...)), 1)
	isFull := GreaterOrEqual(AddScalar(rows.Positions, 1), take(st.Rows.MaxLens, rows.Slots))
	code := func(c int) *Node { return FillScalar(g, rows.Slots.Shape(), float64(c)) }
	finish := Where(LessThan(d.Tokens, integer(g, 0)), code(finishedNaN),
		Where(isStop, code(finishedStop), Where(isFull, code(finishedLength), code(running))))
	l.Out.Tokens, l.Out.Logprobs, l.Out.Processed = put(l.Out.Tokens, d.Tokens), put(l.Out.Logprobs, d.Logprobs), put(l.Out.Processed, d.Processed)
	l.Out.Owners, l.Out.Finish = put(l.Out.Owners, take(l.Owners, rows.Slots)), put(l.Out.Finish, finish)

	done := LogicalAnd(valid, GreaterThan(finish, integer(g, running)))
	// A slot has at most one token queued, so that the queue of S never runs full.
	st.Queue, _ = st.Queue.Enqueue(d.Tokens, rows.Slots, rows.Positions, LogicalAnd(valid, LogicalNot(done)))
	ended := control.ScatterSet(Zeros(g, shapes.Make(dtypes.Int32, gr.plan.rows())),
		Where(done, rows.Slots, FillScalar(g, rows.Slots.Shape(), float64(gr.plan.rows()))), OnesLike(rows.Slots))
	var released seqtable.Status
	st, released = gr.release(st, Equal(ended, integer(g, 1)))
	l.State = st
	l.Out.Status = l.Out.Status.Then(allocated).Then(released)

	free := st.Pages.NumFree()
	drew := GreaterThan(rows.Count, integer(g, 0))
	l.Out.FreePages = control.ScatterSet(l.Out.FreePages, Reshape(l.Out.Columns, 1), Reshape(free, 1))
	l.Out.MinFree = Min(l.Out.MinFree, free)
	l.Out.Columns = Add(l.Out.Columns, ConvertDType(drew, dtypes.Int32))
	if gr.debug {
		l.Out.Rules = Add(l.Out.Rules, st.Sequences.Check(seqtable.CheckInput{Pages: st.Pages, Queue: st.Queue}))
	}
	return l
}

// release frees the rows where mask, bool[R], holds: their pages lose a reference, and nothing of them stays queued.
func (gr *graphs) release(st deviceState, mask *Node) (deviceState, seqtable.Status) {
	before := st.Pages
	var status seqtable.Status
	st.Queue = st.Queue.PurgeSlots(mask)
	st.Sequences, st.Pages, status = st.Sequences.Release(st.Pages, mask)
	if gr.zeroPages {
		g := mask.Graph()
		freed := LogicalAnd(GreaterThan(before.RefCounts, integer(g, 0)), Equal(st.Pages.RefCounts, integer(g, 0)))
		st.Caches = append([]*Node(nil), st.Caches...)
		for i, cache := range st.Caches {
			st.Caches[i] = gr.plan.layout.ZeroPages(cache, freed)
		}
	}
	return st, status
}

// take returns rows of x by int32 indices; negative ones read row 0.
func take(x, indices *Node) *Node {
	return Gather(x, InsertAxes(Max(indices, ZerosLike(indices)), -1))
}

func integer(g *Graph, value int) *Node { return Scalar(g, dtypes.Int32, float64(value)) }
