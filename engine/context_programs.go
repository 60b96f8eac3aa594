package engine

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/models/llama"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
	"github.com/quire/quire/tree"
)

// contextInput is what the context program takes: verbs of the tables, for all rows at once, in this order.
type contextInput struct {
	Release *Node // bool[R]
	Open    *Node // bool[R]: to begin an empty sequence
	// Sources and Held, i32[R]: the row begins with the first Held tokens of another; -1 = it does not. Lazy, bool[R]:
	// it shares the partial page too.
	Sources, Held, Lazy *Node
	Lens                *Node // i32[R]: to cut the sequence to; -1 = as it is
	Own                 *Node // bool[R]: to have its partial page alone, so that it can be written to
	// Twins, i32[R], is the row whose pages at places TwinFrom to TwinTo-1 it takes over instead of its own, which are
	// equal; -1 = none.
	Twins, TwinFrom, TwinTo *Node
	// PromptLens and MaxPages, i32[R], are set as in rowParams; -1 = as they are.
	PromptLens, MaxPages *Node
}

// contextOutput is what it returns.
type contextOutput struct {
	Status  seqtable.Status
	EndFree *Node // i32[]: free pages
	Rules   *Node // as in output
}

// scoreInput is what the score program takes: the next tokens of a row, T places.
type scoreInput struct {
	Row    *Node // i32[]
	From   *Node // i32[]: the position of the first
	Count  *Node // i32[]: how many of the T there are
	Tokens *Node // i32[T]
	Next   *Node // i32[T]: the token behind each
}

// scoreOutput is what it returns.
type scoreOutput struct {
	Status   seqtable.Status
	Logprobs *Node // f32[T]: log softmax(logits)[Next] at each
	EndFree  *Node // i32[]
}

// contextPrograms are those of contexts.
func (gr *graphs) contextPrograms() []program {
	rows, t := gr.plan.rows(), gr.plan.stepTokens()
	newVerbs := func(g *Graph) contextInput {
		i32 := func() *Node { return Zeros(g, shapes.Make(dtypes.Int32, rows)) }
		mask := func() *Node { return Zeros(g, shapes.Make(dtypes.Bool, rows)) }
		return contextInput{Release: mask(), Open: mask(), Sources: i32(), Held: i32(), Lazy: mask(), Lens: i32(),
			Own: mask(), Twins: i32(), TwinFrom: i32(), TwinTo: i32(), PromptLens: i32(), MaxPages: i32()}
	}
	newScore := func(g *Graph) scoreInput {
		i32 := func() *Node { return Zeros(g, shapes.Make(dtypes.Int32, t)) }
		return scoreInput{Row: integer(g, 0), From: integer(g, 0), Count: integer(g, 0), Tokens: i32(), Next: i32()}
	}
	return []program{
		{
			name: "context", input: func(g *Graph) any { return newVerbs(g) },
			build: func(st deviceState, _ llama.Weights, nodes []*Node) (deviceState, any) {
				return gr.contextVerbs(st, tree.Rebuild(newVerbs(nodes[0].Graph()), nodes))
			},
		},
		{
			name: "score", weights: true, input: func(g *Graph) any { return newScore(g) },
			build: func(st deviceState, w llama.Weights, nodes []*Node) (deviceState, any) {
				return gr.score(st, w, tree.Rebuild(newScore(nodes[0].Graph()), nodes))
			},
		},
	}
}

func (gr *graphs) contextVerbs(st deviceState, in contextInput) (deviceState, contextOutput) {
	g := in.Lens.Graph()
	st, status := gr.release(st, in.Release)
	before := st.Pages.RefCounts
	then := func(next seqtable.Status) { status = status.Then(next) }
	copyPages := func(from, to *Node) {
		st.Caches = gr.copyPages(st.Caches, from, to)
	}
	var from, to *Node
	var done seqtable.Status
	st.Sequences, st.Pages, done = st.Sequences.Truncate(st.Pages, in.Lens)
	then(done)
	st.Sequences, st.Pages, from, to, done = st.Sequences.Own(st.Pages, in.Own)
	then(done)
	copyPages(from, to)
	st.Sequences, done = st.Sequences.Open(in.Open)
	then(done)
	isClone := GreaterOrEqual(in.Sources, integer(g, 0))
	ids := Iota(g, in.Sources.Shape(), 0)
	none := FillScalar(g, in.Sources.Shape(), -1)
	st.Sequences, st.Pages, from, to, done = st.Sequences.Fork(st.Pages, in.Sources, Where(isClone, ids, none),
		Where(isClone, in.Held, ZerosLike(ids)), in.Lazy)
	then(done)
	copyPages(from, to)
	st.Sequences, st.Pages, done = st.Sequences.Adopt(st.Pages, in.Twins, in.TwinFrom, in.TwinTo)
	then(done)
	if gr.zeroPages {
		st.Caches = gr.zero(st.Caches, LogicalAnd(GreaterThan(before, integer(g, 0)),
			Equal(st.Pages.RefCounts, integer(g, 0))))
	}
	set := func(old, new *Node) *Node { return Where(GreaterOrEqual(new, integer(g, 0)), new, old) }
	st.Rows.PromptLens, st.Rows.MaxPages = set(st.Rows.PromptLens, in.PromptLens), set(st.Rows.MaxPages, in.MaxPages)
	out := contextOutput{Status: status, EndFree: st.Pages.NumFree()}
	if gr.debug {
		out.Rules = st.Sequences.Check(gr.checkInput(st))
	}
	return st, out
}

// score runs tokens of one row through the model, and returns how likely the ones behind them are.
func (gr *graphs) score(st deviceState, w llama.Weights, in scoreInput) (deviceState, scoreOutput) {
	g := in.Row.Graph()
	t, slots := gr.plan.stepTokens(), gr.plan.slots
	place := Iota(g, shapes.Make(dtypes.Int32, t), 0)
	isToken := LessThan(place, BroadcastToDims(in.Count, t))
	padding := FillScalar(g, place.Shape(), -1)
	packed := tokenqueue.Packed{
		Tokens: Where(isToken, in.Tokens, padding), SlotIDs: Where(isToken, BroadcastToDims(in.Row, t), padding),
		PosIDs: Where(isToken, Add(place, in.From), padding), NumTokens: in.Count,
	}
	var batch tokenqueue.PageBatchInfo
	var status seqtable.Status
	st.Sequences, st.Pages, batch, status = st.Sequences.Allocate(st.Pages, packed, min(gr.plan.rows(), t))
	var hidden *Node
	st.Caches, hidden = gr.hidden(st.Caches, w, packed, batch, false)

	// The scores of a few tokens at a time: those of all of them may be as large as the caches.
	type scored struct{ At, Logprobs *Node }
	end := control.While(scored{integer(g, 0), Zeros(g, shapes.Make(dtypes.Float32, t))},
		func(s scored) *Node { return LessThan(s.At, in.Count) },
		func(s scored) scored {
			at := Add(Iota(g, shapes.Make(dtypes.Int32, slots), 0), s.At)
			left := Min(Sub(in.Count, s.At), integer(g, slots))
			within := Min(at, integer(g, t-1))
			logits := llama.Logits(gr.model, w, take(hidden, within), left)
			centred := Sub(logits, ReduceAndKeep(logits, ReduceMax, 1))
			next := BroadcastToDims(InsertAxes(take(in.Next, within), 1), logits.Shape().Dimensions...)
			isNext := Equal(Iota(g, shapes.Make(dtypes.Int32, logits.Shape().Dimensions...), 1), next)
			of := ReduceSum(Where(isNext, centred, ZerosLike(centred)), 1)
			logprobs := Sub(of, Log(ReduceSum(Exp(centred), 1)))
			to := Where(LessThan(at, in.Count), at, FillScalar(g, at.Shape(), float64(t)))
			return scored{AddScalar(s.At, float64(slots)), control.ScatterSet(s.Logprobs, to, logprobs)}
		})
	return st, scoreOutput{Status: status, Logprobs: end.Logprobs, EndFree: st.Pages.NumFree()}
}
