package engine

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/control"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/llama"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// deviceState is all that stays on the device between calls. It is donated to every program and comes back updated in place.
//
// R rows are the slots, then the rows of prompts that wait for their clones. S is the slots.
type deviceState struct {
	Pages     pagetable.Table  // reference counts of the P pages
	Sequences seqtable.Table   // R rows
	Queue     tokenqueue.Queue // at most one token a slot: what to decode next
	Rows      rowParams
	Caches    []*Node // one a layer, see attention.Layout
}

// rowParams is what a row was admitted with.
type rowParams struct {
	Sampling   sampling.Params // of R rows
	PromptLens *Node           // i32[R]: the row samples from its token at PromptLens-1 on; 0 for prompts that only wait
	MaxLens    *Node           // i32[R]: prompt and completion together end here
	StopTokens *Node           // i32[R, maxStopTokens], padded with -1
}

// output is what one call tells the host.
type output struct {
	Tokens    *Node // i32[S, C]: the tokens drawn for a slot, in order
	Logprobs  *Node // f32[S, C]
	Processed *Node // f32[S, C]
	Counts    *Node // i32[S]: how many of the C are filled
	Finish    *Node // i32[S]: one of the finish codes
	Steps     *Node // i32[]: steps run
	Status    seqtable.Status
	FreePages *Node // i32[C]: free pages after each step
	MinFree   *Node // i32[]: the fewest free pages after any step
	EndFree   *Node // i32[]: free pages when the call ends
	Rules     *Node // i32[K]: violations of each rule, in debug mode; else nil
}

// Finish codes of a slot.
const (
	running = iota
	finishedStop
	finishedLength
	finishedNaN
)

// graphs builds the programs' graphs for one plan and model.
type graphs struct {
	plan      Plan
	model     models.Config
	arrays    []llama.Array
	zeroPages bool
	debug     bool
}

func (gr *graphs) newState(g *Graph) deviceState {
	rows := gr.plan.rows()
	i32 := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Int32, dims...)) }
	f32 := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Float32, dims...)) }
	st := deviceState{
		Pages:     pagetable.New(g, gr.plan.Pages),
		Sequences: seqtable.New(g, rows, gr.plan.PagesPerSeq, gr.plan.PageSize),
		Queue:     tokenqueue.New(g, gr.plan.slots),
		Rows: rowParams{
			Sampling: sampling.Params{Temperature: f32(rows), TopP: f32(rows), MinP: f32(rows), TopK: i32(rows),
				Key: Zeros(g, shapes.Make(dtypes.Uint32, rows, 2))},
			PromptLens: i32(rows), MaxLens: i32(rows), StopTokens: i32(rows, maxStopTokens),
		},
	}
	for range gr.model.NumLayers {
		st.Caches = append(st.Caches, Zeros(g, gr.plan.layout.Shape()))
	}
	return st
}

func (gr *graphs) newOutput(g *Graph, columns int) output {
	s := gr.plan.slots
	wide := func(d dtypes.DType) *Node { return Zeros(g, shapes.Make(d, s, columns)) }
	out := output{
		Tokens: wide(dtypes.Int32), Logprobs: wide(dtypes.Float32), Processed: wide(dtypes.Float32),
		Counts: Zeros(g, shapes.Make(dtypes.Int32, s)), Finish: Zeros(g, shapes.Make(dtypes.Int32, s)),
		Steps: integer(g, 0), Status: seqtable.NewStatus(g),
		FreePages: Zeros(g, shapes.Make(dtypes.Int32, columns)), MinFree: integer(g, gr.plan.Pages), EndFree: integer(g, 0),
	}
	if gr.debug {
		out.Rules = Zeros(g, shapes.Make(dtypes.Int32, len(seqtable.Rules)))
	}
	return out
}

// drawn are the tokens that one step samples, N rows; a row with slot -1 is none.
type drawn struct {
	Slots, Positions, Tokens, Logprobs, Processed *Node // i32[N] but for the f32 logprobs
}

// step runs the packed tokens through the model: pages for them, keys and values into the cache, attention, logits for the rows that
// sample, and a token for each of these.
func (gr *graphs) step(st deviceState, w llama.Weights, packed tokenqueue.Packed, prefill bool) (deviceState, drawn, seqtable.Status) {
	g := packed.Tokens.Graph()
	maxSeqs := gr.plan.slots
	if prefill {
		maxSeqs = min(gr.plan.rows(), gr.plan.PrefillTokens)
	}
	var batch tokenqueue.PageBatchInfo
	var status seqtable.Status
	st.Sequences, st.Pages, batch, status = st.Sequences.Allocate(st.Pages, packed, maxSeqs)

	caches := append([]*Node(nil), st.Caches...)
	layout := gr.plan.layout
	hidden := llama.Hidden(gr.model, w, packed.Tokens, packed.PosIDs, packed.NumTokens, func(layer int, q, k, v *Node) *Node {
		caches[layer] = layout.Update(caches[layer], batch, k, v)
		return layout.RaggedPagedAttention(q, caches[layer], batch, gr.attention(layer, !prefill))
	})
	st.Caches = caches

	var slots, at *Node // the slot of each row that samples, and the packed token it samples from
	if prefill {
		slots, at = gr.promptEnds(st, packed, batch)
	} else {
		slots, at = packed.SlotIDs, Iota(g, packed.SlotIDs.Shape(), 0)
	}
	return st, gr.sample(st, w, hidden, packed, slots, at), status
}

func (gr *graphs) attention(layer int, oneToken bool) attention.Options {
	opts := attention.Options{Scale: 1 / math.Sqrt(float64(gr.model.HeadDim)), OneTokenPerSeq: oneToken}
	if layer < len(gr.model.SlidingWindow) {
		opts.Window = gr.model.SlidingWindow[layer]
	}
	return opts
}

// promptEnds finds, for each slot, the packed token that is the last of its prompt: slots i32[S] (-1: none) and the token's index.
func (gr *graphs) promptEnds(st deviceState, packed tokenqueue.Packed, batch tokenqueue.PageBatchInfo) (slots, at *Node) {
	g := packed.Tokens.Graph()
	s := gr.plan.slots
	index := Iota(g, packed.SlotIDs.Shape(), 0)
	ends := LogicalAnd(
		GreaterOrEqual(packed.SlotIDs, integer(g, 0)),
		Equal(AddScalar(packed.PosIDs, 1), take(st.Rows.PromptLens, packed.SlotIDs)))
	nowhere := FillScalar(g, index.Shape(), float64(s))
	at = control.ScatterSet(FillScalar(g, shapes.Make(dtypes.Int32, s), -1), Where(ends, packed.SlotIDs, nowhere), index)
	own := Iota(g, at.Shape(), 0)
	return Where(GreaterOrEqual(at, integer(g, 0)), own, FillScalar(g, own.Shape(), -1)), at
}

// sample draws a token for each row of slots from the hidden state of packed token at. Where no row samples, nothing is computed.
func (gr *graphs) sample(st deviceState, w llama.Weights, hidden *Node, packed tokenqueue.Packed, slots, at *Node) drawn {
	g := hidden.Graph()
	p := st.Rows.Sampling
	// Rows that sample may stand anywhere among the slots.
	count := integer(g, slots.Shape().Dimensions[0])
	positions := AddScalar(take(packed.PosIDs, at), 1)
	type picked struct{ Tokens, Logprobs, Processed *Node }
	got := control.If(GreaterOrEqual(ReduceAllMax(slots), integer(g, 0)),
		func() picked {
			logits := llama.Logits(gr.model, w, take(hidden, at), count)
			tokens, logprobs, processed := sampling.Sample(logits, sampling.Params{
				Temperature: take(p.Temperature, slots), TopP: take(p.TopP, slots), MinP: take(p.MinP, slots),
				TopK: take(p.TopK, slots), Key: take(p.Key, slots),
			}, positions, count)
			return picked{tokens, logprobs, processed}
		},
		func() picked {
			none := shapes.Make(dtypes.Float32, slots.Shape().Dimensions[0])
			return picked{ZerosLike(slots), Zeros(g, none), Ones(g, none)}
		})
	return drawn{Slots: slots, Positions: positions, Tokens: got.Tokens, Logprobs: got.Logprobs, Processed: got.Processed}
}

// record writes the drawn tokens to the output, ends the sequences that are finished, frees their rows and pages, and queues the
// tokens of the others.
func (gr *graphs) record(st deviceState, out output, d drawn) (deviceState, output, seqtable.Status) {
	g := d.Slots.Graph()
	s, columns := gr.plan.slots, out.Tokens.Shape().Dimensions[1]
	valid := GreaterOrEqual(d.Slots, integer(g, 0))
	nowhere := FillScalar(g, d.Slots.Shape(), float64(s*columns))
	place := Where(valid, Add(MulScalar(d.Slots, float64(columns)), take(out.Counts, d.Slots)), nowhere)
	put := func(to, values *Node) *Node {
		return Reshape(control.ScatterSet(Reshape(to, s*columns), place, values), s, columns)
	}
	out.Tokens, out.Logprobs, out.Processed = put(out.Tokens, d.Tokens), put(out.Logprobs, d.Logprobs), put(out.Processed, d.Processed)

	slot := Where(valid, d.Slots, FillScalar(g, d.Slots.Shape(), float64(s)))
	out.Counts = control.ScatterSet(out.Counts, slot, AddScalar(take(out.Counts, d.Slots), 1))
	stops := take(st.Rows.StopTokens, d.Slots)
	isStop := ReduceLogicalOr(Equal(stops, BroadcastToDims(InsertAxes(d.Tokens, 1), stops.Shape().Dimensions...)), 1)
	isFull := GreaterOrEqual(AddScalar(d.Positions, 1), take(st.Rows.MaxLens, d.Slots))
	code := func(c int) *Node { return FillScalar(g, d.Slots.Shape(), float64(c)) }
	finish := Where(LessThan(d.Tokens, integer(g, 0)), code(finishedNaN),
		Where(isStop, code(finishedStop), Where(isFull, code(finishedLength), code(running))))
	out.Finish = control.ScatterSet(out.Finish, slot, finish)
	done := LogicalAnd(valid, GreaterThan(finish, integer(g, running)))
	// A slot has at most one token queued, so that the queue of S never runs full.
	st.Queue, _ = st.Queue.Enqueue(d.Tokens, d.Slots, d.Positions, LogicalAnd(valid, LogicalNot(done)))

	rows := gr.plan.rows()
	ended := control.ScatterSet(Zeros(g, shapes.Make(dtypes.Int32, rows)), Where(done, d.Slots, FillScalar(g, d.Slots.Shape(), float64(rows))), OnesLike(d.Slots))
	var status seqtable.Status
	st, status = gr.release(st, Equal(ended, integer(g, 1)))
	return st, out, status
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

// observe notes a step's free pages, its status and, in debug mode, the rules that its state breaks.
func (gr *graphs) observe(st deviceState, out output, statuses ...seqtable.Status) output {
	g := out.Steps.Graph()
	free := st.Pages.NumFree()
	columns := out.FreePages.Shape().Dimensions[0]
	out.FreePages = control.ScatterSet(out.FreePages, Reshape(Min(out.Steps, integer(g, columns-1)), 1), Reshape(free, 1))
	out.MinFree = Min(out.MinFree, free)
	out.Steps = AddScalar(out.Steps, 1)
	for _, s := range statuses {
		out.Status = out.Status.Then(s)
	}
	if gr.debug {
		out.Rules = Add(out.Rules, st.Sequences.Check(seqtable.CheckInput{Pages: st.Pages, Queue: st.Queue}))
	}
	return out
}

// take returns rows of x by int32 indices; negative ones read row 0.
func take(x, indices *Node) *Node {
	return Gather(x, InsertAxes(Max(indices, ZerosLike(indices)), -1))
}

func integer(g *Graph, value int) *Node { return Scalar(g, dtypes.Int32, float64(value)) }
