package engine

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/models/llama"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
	"github.com/quire/quire/tree"
)

// program is one jitted computation: what it is called, what it takes beside the state and the weights, and what it does.
type program struct {
	name string
	// inputs are the host's arrays for a call, by name, in order.
	inputs []input
	// columns is how many tokens a slot may draw in a call; 0 for the program that makes the state.
	columns int
	build   func(st deviceState, w llama.Weights, in map[string]*Node, out output) (deviceState, output)
}

type input struct {
	name  string
	shape shapes.Shape
}

// programs lists every program that the engine runs.
func (gr *graphs) programs() []program {
	rows, queue := gr.plan.rows(), gr.plan.promptQueue()
	i32 := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Int32, dims...) }
	f32 := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }
	return []program{
		{name: "init"},
		{name: "prefill", columns: 1, build: gr.prefill, inputs: []input{
			{"release", shapes.Make(dtypes.Bool, rows)},
			{"open", shapes.Make(dtypes.Bool, rows)}, {"source", i32(rows)}, {"source_len", i32(rows)},
			{"temperature", f32(rows)}, {"top_p", f32(rows)}, {"min_p", f32(rows)}, {"top_k", i32(rows)}, {"key", shapes.Make(dtypes.Uint32, rows, 2)},
			{"prompt_len", i32(rows)}, {"max_len", i32(rows)}, {"stop_tokens", i32(rows, maxStopTokens)},
			{"tokens", i32(queue)}, {"slots", i32(queue)}, {"positions", i32(queue)}, {"num_tokens", i32()},
		}},
		{name: "decode", columns: gr.plan.MaxRounds, build: gr.decode, inputs: []input{
			{"release", shapes.Make(dtypes.Bool, rows)}, {"enough_finished", i32()},
		}},
	}
}

// promptQueue is how many prompt tokens one call of the prefill program takes.
func (p Plan) promptQueue() int { return 4 * p.PrefillTokens }

// loop is the state of a program's loop.
type loop struct {
	State  deviceState
	Prompt tokenqueue.Queue
	Out    output
}

// prefill admits rows, clones those that share a prompt, and runs all prompt tokens it is given, a fixed number a step.
func (gr *graphs) prefill(st deviceState, w llama.Weights, in map[string]*Node, out output) (deviceState, output) {
	g := out.Steps.Graph()
	st, released := gr.release(st, in["release"])
	out.Status = out.Status.Then(released)
	st, admitted := gr.admit(st, in)
	out.Status = out.Status.Then(admitted)
	end := control.While(
		loop{State: st, Prompt: tokenqueue.Queue{Tokens: in["tokens"], SlotIDs: in["slots"], PosIDs: in["positions"], NumQueued: in["num_tokens"]}, Out: out},
		func(l loop) *Node {
			return LogicalAnd(GreaterThan(l.Prompt.NumQueued, integer(g, 0)), LogicalNot(l.Out.Status.Failed()))
		},
		func(l loop) loop {
			var packed tokenqueue.Packed
			l.Prompt, packed = l.Prompt.PackNext(gr.plan.PrefillTokens)
			st, drawn, allocated := gr.step(l.State, w, packed, true)
			st, out, released := gr.record(st, l.Out, drawn)
			return loop{State: st, Prompt: l.Prompt, Out: gr.observe(st, out, allocated, released)}
		})
	return end.State, end.Out
}

// admit opens the rows of in["open"]: empty ones, or clones of in["source"] where that is not negative.
func (gr *graphs) admit(st deviceState, in map[string]*Node) (deviceState, seqtable.Status) {
	open, source := in["open"], in["source"]
	g := open.Graph()
	isClone := LogicalAnd(open, GreaterOrEqual(source, integer(g, 0)))
	pick := func(new, old *Node) *Node {
		mask := open
		for mask.Rank() < new.Rank() {
			mask = InsertAxes(mask, -1)
		}
		return Where(BroadcastToDims(mask, new.Shape().Dimensions...), new, old)
	}
	r := st.Rows
	st.Rows = rowParams{
		Sampling: sampling.Params{
			Temperature: pick(in["temperature"], r.Sampling.Temperature), TopP: pick(in["top_p"], r.Sampling.TopP),
			MinP: pick(in["min_p"], r.Sampling.MinP), TopK: pick(in["top_k"], r.Sampling.TopK), Key: pick(in["key"], r.Sampling.Key),
		},
		PromptLens: pick(in["prompt_len"], r.PromptLens), MaxLens: pick(in["max_len"], r.MaxLens), StopTokens: pick(in["stop_tokens"], r.StopTokens),
	}
	var opened seqtable.Status
	st.Sequences, opened = st.Sequences.Open(LogicalAnd(open, LogicalNot(isClone)))
	if !gr.plan.layout.Paged {
		return st, opened
	}
	none := FillScalar(g, source.Shape(), -1)
	self := Iota(g, source.Shape(), 0)
	var from, to *Node
	var status seqtable.Status
	st.Sequences, st.Pages, from, to, status = st.Sequences.Clone(st.Pages, Where(isClone, source, none), Where(isClone, self, none), in["source_len"])
	st.Caches = append([]*Node(nil), st.Caches...)
	for i, cache := range st.Caches {
		st.Caches[i] = gr.plan.layout.CopyPages(cache, from, to)
	}
	return st, opened.Then(status)
}

// decode runs steps of one token a sequence until the queue is empty, MaxRounds steps are done, or in["enough_finished"] sequences
// have ended, so that the host can admit others.
func (gr *graphs) decode(st deviceState, w llama.Weights, in map[string]*Node, out output) (deviceState, output) {
	g := out.Steps.Graph()
	st, released := gr.release(st, in["release"])
	out.Status = out.Status.Then(released)
	type decodeLoop struct {
		State deviceState
		Out   output
	}
	end := control.While(decodeLoop{st, out},
		func(l decodeLoop) *Node {
			finished := ReduceAllSum(ConvertDType(GreaterThan(l.Out.Finish, integer(g, running)), dtypes.Int32))
			more := LogicalAnd(GreaterThan(l.State.Queue.NumQueued, integer(g, 0)), LessThan(l.Out.Steps, integer(g, gr.plan.MaxRounds)))
			return LogicalAnd(LogicalAnd(more, LessThan(finished, in["enough_finished"])), LogicalNot(l.Out.Status.Failed()))
		},
		func(l decodeLoop) decodeLoop {
			var packed tokenqueue.Packed
			st := l.State
			st.Queue, packed = st.Queue.PackNext(gr.plan.slots)
			st, drawn, allocated := gr.step(st, w, packed, false)
			st, out, released := gr.record(st, l.Out, drawn)
			return decodeLoop{st, gr.observe(st, out, allocated, released)}
		})
	return end.State, end.Out
}

// compiled is a program ready to run.
type compiled struct {
	program
	executable compute.Executable
	numState   int
	output     []leaf
}

// donor is a backend that updates arguments in place: parameter name to the index of the result that takes its memory.
type donor interface {
	Donating(alias map[string]int) compute.Backend
}

// compile builds and compiles a program. Panics of graph building become errors here.
func (gr *graphs) compile(backend compute.Backend, dtype dtypes.DType, p program) (c *compiled, err error) {
	defer func() {
		if r := recover(); r != nil {
			cause, ok := r.(error)
			if !ok {
				cause = fmt.Errorf("%v", r)
			}
			err = fmt.Errorf("building program %s: %w", p.name, cause)
		}
	}()
	scratch := NewGraph(backend, p.name+" state")
	like := gr.newState(scratch)
	names, leaves := tree.Names(like), tree.Leaves(like)
	if p.build == nil {
		if err := scratch.Compile(leaves...); err != nil {
			return nil, fmt.Errorf("compiling program %s: %w", p.name, err)
		}
		return &compiled{program: p, executable: scratch.Executable(), numState: len(leaves)}, nil
	}
	if d, ok := backend.(donor); ok {
		alias := make(map[string]int, len(names))
		for i, name := range names {
			alias[parameterName(name)] = i
		}
		backend = d.Donating(alias)
	}
	g := NewGraph(backend, p.name)
	nodes := make([]*Node, len(leaves))
	for i, leaf := range leaves {
		nodes[i] = Parameter(g, parameterName(names[i]), leaf.Shape())
	}
	st := tree.Rebuild(like, nodes)
	in := make(map[string]*Node, len(p.inputs))
	for _, i := range p.inputs {
		in[i.name] = Parameter(g, "in_"+i.name, i.shape)
	}
	weights := make([]*Node, len(gr.arrays))
	for i, param := range gr.arrays {
		weights[i] = Parameter(g, "w_"+strings.ReplaceAll(param.Name, ".", "_"), shapes.Make(dtype, param.Shape...))
	}
	st, out := p.build(st, llama.NewWeights(gr.arrays, weights), in, gr.newOutput(g, p.columns))
	out.EndFree = st.Pages.NumFree()
	if err := g.Compile(append(tree.Leaves(st), tree.Leaves(out)...)...); err != nil {
		return nil, fmt.Errorf("compiling program %s: %w", p.name, err)
	}
	return &compiled{program: p, executable: g.Executable(), numState: len(leaves), output: outputLeaves(out)}, nil
}

func parameterName(leaf string) string { return "st_" + strings.ReplaceAll(leaf, ".", "_") }
