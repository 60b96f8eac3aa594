package device

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
)

// Program is a compiled computation: its name, and what it does with the state, the weights and the host's input.
type Program struct {
	Name string
	// Input packs the host's twin of the input into few arrays; nil for the program that makes the state. Own are the
	// arrays after it that differ from device to device of a group.
	Input *tree.Packing
	Own   []Leaf
	// build takes the nodes of the input, leaf by leaf. It returns the state, the output as a tree, and the leaves of
	// the output that differ from device to device. It is nil for the program that makes the state.
	build func(st state, w weights, in []*Node) (_ state, out any, own []*Node)
	// twin makes the host twin of the output, and views of its arrays; nil if the arrays are read as they are. An
	// output with a twin is packed.
	twin func(output []Leaf) (any, []tree.Array, error)
	// Weights reports that the program takes the weights, Drafts that the drafter's weights follow them, and
	// Adapters that the arrays of adapters follow these.
	Weights, Drafts, Adapters bool
	// Resident is arrays that the host gives too, but that stay on the device until it gives others: they follow the
	// weights, and the nodes of the input.
	Resident []Leaf
	// hasExtras reports that the state has extras: see package feature.
	hasExtras bool
	// Reads reports that the program does not change the state: it is not donated, and not returned.
	Reads bool
	// Later reports that a job may not need the program: it is compiled once it may be needed.
	Later bool
}

// Programs lists every program that the engine runs.
func (gr *Graphs) Programs() []Program {
	arrays := tree.Arrays(gr.NewInput())
	all := []Program{{Name: Init}, {
		Name: Run, Weights: true, Drafts: gr.Drafter != nil, Adapters: gr.AdapterArrays != nil,
		Input: packed(arrays), twin: twinOf[Output], hasExtras: true,
		Resident: append(stops{gr.Sizes}.leaves(), waiting{gr.Sizes}.texts()...),
		build: func(st state, w weights, nodes []*Node) (state, any, []*Node) {
			in := tree.Of[input](arrays, nodes[:len(arrays)])
			resident, numStops := nodes[len(arrays):], len(stops{gr.Sizes}.leaves())
			in.Stops = stopTables(resident[:numStops])
			if texts := resident[numStops:]; len(texts) > 0 {
				in.MaskTexts = stopping.Tables{Bytes: texts[0], Starts: texts[1]}
			}
			st, out := gr.run(st, w, in, gr.newOutput(nodes[0].Graph()))
			return st, out, []*Node{out.Clock}
		},
	}}
	if gr.Transfers {
		all = append(all, transfers{gr.network()}.programs()...)
	}
	if gr.Contexts > 0 {
		all = append(all, contexts{gr.recorder()}.programs()...)
	}
	return all
}

// stepsPerColumn bounds the steps of a call in which many steps sample nothing.
const stepsPerColumn = 4

// The kinds of rounds.
const (
	look = iota - 1 // for what to do
	stop
	admit
	prefill
	decode
)

// run frees the rows that the host names. Then it admits, runs prompts and decodes, and admits again when sequences
// end, until there is nothing to do, the output is full, or slots are free that only the host can fill.
//
// Loops that run at most once take the place of branches, because they update the state in place.
func (gr *Graphs) run(st state, w weights, in input, out output) (state, output) {
	g := in.Columns.Graph()
	st.Pages = st.Pages.Begin()
	st.Extras.State = gr.features().Sync(st.Extras.State, forFeatures(in))
	st.Sequences.Owners = AddScalar(Iota(g, in.Starts.Shape(), 0), float64(gr.WaitingLen())) // see output.Owners
	st, released := gr.recorder().release(st, in.Release)
	var invalid *Node
	st.Pages, invalid = hold(st.Pages, in.Named)
	released = released.Then(seqtable.InvalidPages(invalid, gr.Pages))
	l := loop{
		State: st, Starts: in.Starts,
		Out:  out,
		Todo: integer(g, look), Admit: noAdmission(in),
	}
	if gr.Drafts.On() {
		l.Rounds = integer(g, 0)
	}
	l.Out.Status = out.Status.Then(released)
	does := func(what int) func(l loop) *Node {
		return func(l loop) *Node { return Equal(l.Todo, integer(g, what)) }
	}
	if gr.Debug && st.Pages.Keeps() {
		l.Pins = st.Pages.NewTally().Add(in.Named).Counts
	}
	done := func(l loop) loop {
		l.Todo = integer(g, stop)
		return l
	}
	end := control.While(l,
		func(l loop) *Node { return NotEqual(l.Todo, integer(g, stop)) },
		func(l loop) loop {
			l.Out.Clock, l.Todo = tick(l.Out.Clock, l.Todo)
			isPrefill := Equal(l.Todo, integer(g, prefill))
			l = control.While(l, does(admit), func(l loop) loop { return done(admitter{gr.network()}.admit(l, in)) })
			l = control.While(l, func(l loop) *Node { return GreaterOrEqual(l.Todo, integer(g, prefill)) },
				func(l loop) loop { return done(gr.step(l, w, in, isPrefill)) })
			return gr.decide(l, in)
		})
	out, st = end.Out, end.State
	st.Pages = unhold(st.Pages, in.Named)
	out.Clock, _ = tick(out.Clock, end.Todo)
	out.StopStates = st.Rows.StopStates
	out.SeqLens, out.EndFree, out.Short = st.Sequences.SeqLens, st.Pages.NumFree(), gr.short(st)
	out.Pages = pageFates(st.Pages)
	if w := (waiting{gr.Sizes}); w.any() {
		out.Waits = Add(out.Waits, Concatenate([]*Node{Reshape(w.count(st), 1), zeros(g, dtypes.Int32, 1)}, 0))
	}
	return st, out
}

// hold keeps pages from being taken until unhold.
func hold(t pagetable.Table, pages *Node) (after pagetable.Table, invalid *Node) {
	if !t.Keeps() {
		return t, integer(pages.Graph(), 0)
	}
	return t.Pin(pages)
}

func unhold(t pagetable.Table, pages *Node) pagetable.Table {
	if t.Keeps() {
		t, _, _ = t.Release(pages)
	}
	return t
}

// decide sets what the next round does: it admits what it can, then runs prompts, then decodes.
func (gr *Graphs) decide(l loop, in input) loop {
	g := l.Todo.Graph()
	l.Admit = admitter{gr.network()}.admissible(l, in)
	todo := Where(l.Admit.Any, integer(g, admit), Where(gr.wantsPrefill(l, in), integer(g, prefill),
		Where(gr.wantsDecode(l, in), integer(g, decode), integer(g, stop))))
	l.Todo = Where(gr.continues(l, in), todo, integer(g, stop))
	return l
}

// continues reports whether the call continues: there is room for another step's output, rows have not waited for too
// long, and there was no fault.
func (gr *Graphs) continues(l loop, in input) *Node {
	steps := Add(l.Out.PrefillSteps, l.Out.DecodeSteps)
	columns := in.Columns
	if gr.Drafts.On() { // a step may fill several
		columns = integer(steps.Graph(), gr.Columns())
	}
	continues := LogicalAnd(LogicalNot(l.Out.Status.Failed()), LogicalAnd(LessThan(l.Out.Columns, columns),
		LessThan(steps, MulScalar(in.Columns, stepsPerColumn))))
	if gr.Drafts.On() {
		continues = LogicalAnd(continues, LessThan(l.Rounds, in.Columns))
	}
	if w := (waiting{gr.Sizes}); w.any() {
		continues = LogicalAnd(continues, w.may(l))
	}
	for _, room := range []*Node{gr.scores().Room(l.Out.Scores), gr.StatesRoom(l.Out.States)} {
		if room != nil {
			continues = LogicalAnd(continues, room)
		}
	}
	return continues
}

// wantsPrefill reports whether prompts run before decoding: they do if the prompt of a slot or a context is unfinished.
// Prompts that run ahead of their clones wait until slots are free for the clones, or until they fill a step.
func (gr *Graphs) wantsPrefill(l loop, in input) *Node {
	g := l.Out.Columns.Graph()
	slots := gr.Slots
	remaining := l.prompts(in).Remaining()
	ofSlots := ReduceAllSum(SliceAxis(remaining, 0, AxisRangeFromStart(slots)))
	if gr.Contexts > 0 {
		ofSlots = Add(ofSlots, ReduceAllSum(SliceAxis(remaining, 0, AxisRangeToEnd(gr.FirstContext()))))
	}
	all := ReduceAllSum(remaining)
	return LogicalOr(GreaterThan(ofSlots, integer(g, 0)),
		LogicalAnd(GreaterThan(all, integer(g, 0)),
			LogicalOr(GreaterOrEqual(gr.numFreeSlots(l), admitter{gr.network()}.fillAt(l, in)),
				GreaterOrEqual(all, integer(g, gr.PrefillTokens)))))
}

// wantsDecode reports whether to decode: sequences run and have pages for the next step, and after the call's first
// step there are not so many free slots that the host should fill them.
func (gr *Graphs) wantsDecode(l loop, in input) *Node {
	g := l.Out.Columns.Graph()
	placed := scan.Count(GreaterOrEqual(l.Out.Placed, integer(g, 0)))
	opened := ReduceAllSum(l.Out.Opened)
	waits := LogicalOr(LessThan(placed, in.Waiting.Count), LessThan(opened, in.Ahead.Count))
	enough := GreaterOrEqual(gr.numFreeSlots(l), in.EnoughFree)
	early := LogicalAnd(LogicalAnd(enough, LogicalNot(waits)), GreaterThan(l.Out.Columns, integer(g, 0)))
	able := Equal(gr.short(l.State), integer(g, 0))
	queued := l.State.Queue.NumQueued
	if w := (waiting{gr.Sizes}); w.any() {
		queued = Sub(queued, w.count(l.State))
	}
	return LogicalAnd(LogicalAnd(GreaterThan(queued, integer(g, 0)), able), LogicalNot(early))
}

func (gr *Graphs) numFreeSlots(l loop) *Node {
	g := l.Out.Columns.Graph()
	used := scan.Count(SliceAxis(l.State.Sequences.Used, 0, AxisRangeFromStart(gr.Slots)))
	return Sub(integer(g, gr.MaxSeqs), used)
}
