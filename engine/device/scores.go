package device

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/scan"
	"github.com/quire/quire/tokenqueue"
)

// Widths of the lists of the likeliest tokens.
const (
	NarrowTops = 20
	WideTops   = 256
)

// TopsWidth is W, the most of the likeliest tokens that are told with one.
func (p Sizes) TopsWidth() int {
	if p.Features.Has(WideLogprobs) {
		return min(WideTops, p.Vocabulary)
	}
	return min(NarrowTops, p.Vocabulary)
}

// scorePlaces is K, for how many scores of prompts a call has places. It ends where another step may find none.
func (p Sizes) scorePlaces() int { return max(1024, 4*p.StepTokens()) }

// scoring says what rows want to know of likely tokens.
type scoring struct {
	Tops    *Node // i32[S]: how many of the likeliest tokens with each that is drawn
	Prompts *Node // i32[R]: how many with each of the prompt, and one; 0: the prompt is not scored
}

// scoringOf is what the host gives of it.
type scoringOf[Ints any] struct {
	Tops    Ints // i32[A]
	Prompts Ints // i32[A]
	Ahead   Ints // i32[H]: Prompts of those that run ahead
}

func (gr *Graphs) newScoring(g *Graph) (s scoring) {
	if gr.Features.Has(TopLogprobs) {
		s.Tops = zeros(g, dtypes.Int32, gr.Slots)
	}
	if gr.Features.Has(PromptLogprobs) {
		s.Prompts = zeros(g, dtypes.Int32, gr.Rows())
	}
	return s
}

func (p Sizes) scoringBytes() (n int64) {
	if p.Features.Has(TopLogprobs) {
		n += 4 * int64(p.Slots)
	}
	if p.Features.Has(PromptLogprobs) {
		n += 4 * int64(p.Rows())
	}
	return n
}

func (p Sizes) newAskedScoring() (in scoringOf[[]int32]) {
	if p.Features.Has(TopLogprobs) {
		in.Tops = make([]int32, p.WaitingLen())
	}
	if p.Features.Has(PromptLogprobs) {
		in.Prompts, in.Ahead = make([]int32, p.WaitingLen()), make([]int32, p.AheadLen())
	}
	return in
}

// setScoring fills in what entry i wants to know.
func setScoring(in *scoringOf[[]int32], i int, e schedule.Entry) {
	if in.Tops != nil {
		in.Tops[i] = int32(e.Request.Tops)
	}
	if in.Prompts != nil {
		in.Prompts[i] = int32(e.Request.Score)
	}
}

// admitScoring notes what rows want to know that are given to entries and prompts.
func (gr *Graphs) admitScoring(s scoring, in input, a admission) scoring {
	asked := in.Asked.Scoring
	to := func(rows, given *Node, n int) *Node {
		return Where(given, rows, FillScalar(rows.Graph(), rows.Shape(), float64(n)))
	}
	if s.Tops != nil {
		s.Tops = control.ScatterSet(s.Tops, to(a.Rows, a.Entries, gr.Slots), asked.Tops)
	}
	if s.Prompts != nil {
		s.Prompts = control.ScatterSet(s.Prompts, to(a.Rows, a.Entries, gr.Rows()), asked.Prompts)
		s.Prompts = control.ScatterSet(s.Prompts, to(in.Ahead.Rows, a.Ahead, gr.Rows()), asked.Ahead)
	}
	return s
}

// newScores makes what a call tells of likely tokens: nothing, without the features.
func (gr *Graphs) newScores(g *Graph, out *output) {
	w := gr.TopsWidth()
	i32 := func(dims ...int) *Node { return zeros(g, dtypes.Int32, dims...) }
	f32 := func(dims ...int) *Node { return zeros(g, dtypes.Float32, dims...) }
	if gr.Features.Has(TopLogprobs) {
		out.TopIDs, out.TopLogprobs = i32(gr.Columns(), gr.Slots, w), f32(gr.Columns(), gr.Slots, w)
	}
	if k := gr.scorePlaces(); gr.Features.Has(PromptLogprobs) {
		out.Scores = schedule.ScoresOf[*Node, *Node]{Count: i32(1), Owners: i32(k), Positions: i32(k), Logprobs: f32(k),
			TopIDs: i32(k, w), TopLogprobs: f32(k, w)}
	}
}

// tops finds the likeliest tokens of rows that want to know them: i32[D, W], f32[D, W], nil without the feature. What
// changes the logits in place must wait for it: the barred tokens that it returns do.
func (gr *Graphs) tops(st state, logits *Node, rows samplers, bars *Node) (ids, logprobs, after *Node) {
	if !gr.Features.Has(TopLogprobs) {
		return nil, nil, bars
	}
	g := logits.Graph()
	counts := take(st.Extras.Scoring.Tops, rows.Slots)
	counts = Where(GreaterOrEqual(rows.Slots, ZerosLike(counts)), counts, ZerosLike(counts))
	type likeliest struct{ IDs, Logprobs *Node }
	got := control.If(anyTrue(GreaterThan(counts, ZerosLike(counts))),
		func() likeliest {
			none := FillScalar(g, counts.Shape(), -1)
			_, ids, logprobs := sampling.Logprobs(logits, none, counts, rows.Count, gr.TopsWidth())
			return likeliest{ids, logprobs}
		},
		func() likeliest {
			return likeliest{zeros(g, dtypes.Int32, gr.Draws(), gr.TopsWidth()),
				zeros(g, dtypes.Float32, gr.Draws(), gr.TopsWidth())}
		})
	first := SliceAxis(got.Logprobs, 1, AxisRange(0, 1))
	never := ConvertDType(GreaterThan(first, FillScalar(g, first.Shape(), math.Inf(1))), dtypes.Int32)
	return got.IDs, got.Logprobs, Add(bars, BroadcastToDims(never, bars.Shape().Dimensions...))
}

// isScored says which of the packed tokens the next token of a prompt is scored from, bool[T]. Behind those that a row
// runs ahead lies the next of the prompt that it is of.
func (gr *Graphs) isScored(l loop, packed tokenqueue.Packed) *Node {
	g := packed.SlotIDs.Graph()
	row := packed.SlotIDs
	wants := GreaterThan(take(l.State.Extras.Scoring.Prompts, row), ZerosLike(row))
	last := take(l.State.Rows.PromptLens, row) // the last position whose next token is there, and one
	last = Where(LessThan(row, integer(g, gr.Slots)), SubScalar(last, 1), last)
	return LogicalAnd(LogicalAnd(GreaterOrEqual(row, integer(g, 0)), wants), LessThan(packed.PosIDs, last))
}

// scorePrompts notes how likely the tokens of prompts are behind the packed tokens, from hidden states [T, hidden]. The
// logits are those of S tokens at a time: those of all may be as large as the caches.
func (gr *Graphs) scorePrompts(l loop, w decoder.Weights, in input, packed tokenqueue.Packed, hidden *Node) loop {
	if !gr.Features.Has(PromptLogprobs) {
		return l
	}
	g := hidden.Graph()
	t, slots, places, width := gr.StepTokens(), gr.Slots, gr.scorePlaces(), gr.TopsWidth()
	which, count := scan.Positions(gr.isScored(l, packed), t)
	type scores = schedule.ScoresOf[*Node, *Node]
	type scored struct {
		At  *Node
		Out scores
	}
	base := Reshape(l.Out.Scores.Count)
	end := control.While(scored{integer(g, 0), l.Out.Scores},
		func(s scored) *Node { return LessThan(s.At, count) },
		func(s scored) scored {
			nth := Add(Iota(g, shapes.Make(dtypes.Int32, slots), 0), s.At)
			left := Min(Sub(count, s.At), integer(g, slots))
			at := Min(take(which, Min(nth, integer(g, t-1))), integer(g, t-1))
			row, position := take(packed.SlotIDs, at), take(packed.PosIDs, at)
			tokens := take(in.Tokens, AddScalar(Add(take(l.Starts, row), position), 1))
			counts := SubScalar(take(l.State.Extras.Scoring.Prompts, row), 1)
			logits := decoder.Logits(gr.Model, w, take(hidden, at), left)
			logprobs, ids, tops := sampling.Logprobs(logits, tokens, counts, left, width)
			to := Where(LessThan(nth, count), Add(nth, base), FillScalar(g, nth.Shape(), float64(places)))
			put := func(all, some *Node) *Node { return control.ScatterSet(all, to, some) }
			o := s.Out
			o.Owners, o.Positions = put(o.Owners, take(l.State.Sequences.Owners, row)), put(o.Positions, position)
			o.Logprobs = put(o.Logprobs, logprobs)
			o.TopIDs, o.TopLogprobs = put(o.TopIDs, ids), put(o.TopLogprobs, tops)
			return scored{AddScalar(s.At, float64(slots)), o}
		})
	l.Out.Scores = end.Out
	l.Out.Scores.Count = Reshape(Add(base, count), 1)
	return l
}

// roomToScore says that there are places for the scores of another step, bool[]; nil without the feature.
func (gr *Graphs) roomToScore(l loop) *Node {
	if !gr.Features.Has(PromptLogprobs) {
		return nil
	}
	used := Reshape(l.Out.Scores.Count)
	return LessOrEqual(AddScalar(used, float64(gr.StepTokens())), integer(used.Graph(), gr.scorePlaces()))
}
