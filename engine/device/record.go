package device

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/seqtable"
)

// recorder records the tokens that a step sampled: in the output, and in the state of the rows, of which some end.
type recorder struct {
	speculation
	Debug bool // checks the rules of the state after each step
}

// record writes a column of output, ends the sequences that are finished, frees their rows and pages, and queues the
// tokens of the others.
func (r recorder) record(l loop, in input, rows samplers, d drawn, allocated seqtable.Status) loop {
	g := rows.Slots.Graph()
	l, finish := r.note(l, in, rows, d)
	valid := GreaterOrEqual(rows.Slots, integer(g, 0))
	l.Out.Status = l.Out.Status.Then(allocated)
	l = r.advance(l, rows, d.Tokens, LogicalAnd(valid, GreaterThan(finish, integer(g, int(schedule.Running)))))
	free := l.State.Pages.NumFree()
	drew := GreaterThan(rows.Count, integer(g, 0))
	l.Out.FreePages = control.ScatterSet(l.Out.FreePages, Reshape(l.Out.Columns, 1), Reshape(free, 1))
	l.Out.MinFree = Min(l.Out.MinFree, free)
	l.Out.Columns = Add(l.Out.Columns, ConvertDType(drew, dtypes.Int32))
	return r.checked(l)
}

// note writes a column of output, and returns the states of the sequences after the tokens that they sampled, i32[D].
func (r recorder) note(l loop, in input, rows samplers, d drawn) (after loop, finish *Node) {
	g := rows.Slots.Graph()
	s, columns := r.Slots, r.Columns()
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
	l.State, finish = stops{r.Sizes}.finish(l.State, in.Stops, rows, d.Tokens)
	l.State.Extras.State = r.features().Drew(l.State.Extras.State, forFeatures(in), rows, d.Tokens)
	l.State.Extras.Drafts.Log = l.State.Extras.Drafts.Log.push(r.speculation, l.State, rows, d.Tokens)
	l.Out.Tokens, l.Out.Logprobs, l.Out.Processed = put(l.Out.Tokens, d.Tokens), put(l.Out.Logprobs, d.Logprobs),
		put(l.Out.Processed, d.Processed)
	l.Out.TopIDs, l.Out.TopLogprobs = put(l.Out.TopIDs, d.Tops.IDs), put(l.Out.TopLogprobs, d.Tops.Logprobs)
	l.Out.Experts, l.Out.Hidden = put(l.Out.Experts, d.Notes.Experts), put(l.Out.Hidden, d.Notes.Hidden)
	for m, values := range d.Measures {
		l.Out.Measures[m] = put(l.Out.Measures[m], values)
	}
	l.Out.Owners = put(l.Out.Owners, take(l.State.Sequences.Owners, rows.Slots))
	l.Out.Finish = put(l.Out.Finish, finish)
	return l, finish
}

// advance queues the tokens that rows sampled, and ends the sequences that are done, bool[D].
func (r recorder) advance(l loop, rows samplers, tokens, done *Node) loop {
	st := l.State
	g := rows.Slots.Graph()
	valid := GreaterOrEqual(rows.Slots, integer(g, 0))
	// A slot has at most one token queued, so that the queue of S never runs full.
	st.Queue = st.Queue.Enqueue(tokens, rows.Slots, rows.Positions, LogicalAnd(valid, LogicalNot(done)))
	ended := control.ScatterSet(Zeros(g, shapes.Make(dtypes.Int32, r.Rows())),
		Where(done, rows.Slots, FillScalar(g, rows.Slots.Shape(), float64(r.Rows()))), OnesLike(rows.Slots))
	var released seqtable.Status
	st, released = r.release(st, Equal(ended, integer(g, 1)))
	l.State = st
	l.Out.Status = l.Out.Status.Then(released)
	return l
}

// checked counts the violations of rules, in debug mode.
func (r recorder) checked(l loop) loop {
	if r.Debug {
		l.Out.Rules = Add(l.Out.Rules, l.State.Sequences.Check(r.checkInput(l.State, l.Pins)))
	}
	return l
}

// checkInput is what the rules are checked with: contexts may share partial pages. pins are references that no row has.
func (r recorder) checkInput(st state, pins *Node) seqtable.CheckInput {
	rows := Iota(st.Sequences.SeqLens.Graph(), st.Sequences.SeqLens.Shape(), 0)
	return seqtable.CheckInput{Pages: st.Pages, Queue: st.Queue, Pins: pins,
		Lazy: GreaterOrEqual(rows, FillScalar(rows.Graph(), rows.Shape(), float64(r.FirstContext())))}
}

// release frees the rows whose mask, bool[R], is set: their pages lose a reference, and their tokens leave the queue.
func (r recorder) release(st state, mask *Node) (state, seqtable.Status) {
	before := st.Pages
	var status seqtable.Status
	st.Queue = st.Queue.PurgeSlots(mask)
	keep := st.Rows.PromptLens
	if r.NameDrawn {
		keep = Where(Equal(st.Rows.Leaves, OnesLike(st.Rows.Leaves)), keep, st.Sequences.SeqLens)
	}
	st.Sequences, st.Pages, status = st.Sequences.Release(st.Pages, mask, keep)
	st.Caches = r.zeroFreed(st.Caches, before, st.Pages)
	return st, status
}
