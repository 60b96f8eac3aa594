package feature

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/tokenqueue"
)

// Widths of the lists of the likeliest tokens.
const (
	NarrowTops = 20
	WideTops   = 256
)

// Scores compute the probabilities of tokens. Without the features they compute nothing.
type Scores struct{ Sizes }

// Width is W, the most of the likeliest tokens that are reported with one.
func (s Scores) Width() int {
	if s.Features.Has(WideLogprobs) {
		return min(WideTops, s.Vocabulary)
	}
	return min(NarrowTops, s.Vocabulary)
}

// places is K, the number of scores of prompts that a call has room for. A call ends when a step may not find enough
// room.
func (s Scores) places() int { return max(1024, 4*s.StepTokens()) }

// Tops are the likeliest tokens with each of several, i32[..., W] and f32[..., W]; nil without the feature.
type Tops struct{ IDs, Logprobs *Node }

// NoTops are zeros, for as many tokens as dims.
func (s Scores) NoTops(g *Graph, dims ...int) (t Tops) {
	if s.Features.Has(TopLogprobs) {
		dims = append(dims[:len(dims):len(dims)], s.Width())
		t = Tops{zeros(g, dtypes.Int32, dims...), zeros(g, dtypes.Float32, dims...)}
	}
	return t
}

// OfPrompts reports whether prompts are scored.
func (s Scores) OfPrompts() bool { return s.Features.Has(PromptLogprobs) }

// NoPrompts returns scores of prompts that are empty, with room for the scores of a call.
func (s Scores) NoPrompts(g *Graph) (out schedule.ScoresOf[*Node, *Node]) {
	if !s.OfPrompts() {
		return out
	}
	k, w := s.places(), s.Width()
	i32 := func(dims ...int) *Node { return zeros(g, dtypes.Int32, dims...) }
	f32 := func(dims ...int) *Node { return zeros(g, dtypes.Float32, dims...) }
	return schedule.ScoresOf[*Node, *Node]{Count: i32(1), Owners: i32(k), Positions: i32(k), Logprobs: f32(k),
		TopIDs: i32(k, w), TopLogprobs: f32(k, w)}
}

// Tops finds the likeliest tokens of rows that ask for them. Operations that change the logits in place must wait for
// it. The forbidden tokens that it returns do.
func (s Scores) Tops(st State, logits *Node, rows Samplers, bars *Node) (tops Tops, after *Node) {
	if !s.Features.Has(TopLogprobs) {
		return Tops{}, bars
	}
	g := logits.Graph()
	counts := take(st.Scoring.Tops, rows.Slots)
	counts = Where(GreaterOrEqual(rows.Slots, ZerosLike(counts)), counts, ZerosLike(counts))
	tops = control.If(anyTrue(GreaterThan(counts, ZerosLike(counts))),
		func() Tops {
			none := FillScalar(g, counts.Shape(), -1)
			_, ids, logprobs := sampling.Logprobs(logits, none, counts, rows.Count, s.Width())
			return Tops{ids, logprobs}
		},
		func() Tops { return s.NoTops(g, counts.Shape().Size()) })
	return tops, afterScores(bars, SliceAxis(tops.Logprobs, 1, AxisRange(0, 1)))
}

// isScored reports for which of the packed tokens the next token of a prompt is scored, bool[T]. The last token of a
// prompt that runs ahead is followed by the next token of the whole prompt.
func (s Scores) isScored(st State, t Table, packed tokenqueue.Packed) *Node {
	g := packed.SlotIDs.Graph()
	row := packed.SlotIDs
	wants := GreaterThan(take(st.Scoring.Prompts, row), ZerosLike(row))
	last := take(t.PromptLens, row) // the last position whose next token is there, and one
	last = Where(LessThan(row, integer(g, s.Slots)), SubScalar(last, 1), last)
	return LogicalAnd(LogicalAnd(GreaterOrEqual(row, integer(g, 0)), wants), LessThan(packed.PosIDs, last))
}

// Scored are scores of tokens.
type Scored struct {
	Logprob *Node // f32[S]
	Tops    Tops
}

// OfLogits computes scores of a part of some tokens from logits.
type OfLogits = func(logits *Node, part decoder.Part) Scored

// Prompts adds the log probabilities of the prompt tokens that follow the packed tokens. It computes the logits of S
// tokens at a time, because the logits of all tokens may be as large as the caches: score computes scores from the
// logits after the packed tokens i32[S], of which only the first count, i32[], are computed. starts i32[R] are the
// rows' prompts in tokens i32[Q].
func (s Scores) Prompts(out schedule.ScoresOf[*Node, *Node], st State, t Table, starts, tokens *Node,
	packed tokenqueue.Packed, score func(tokens, count *Node, f OfLogits) Scored) schedule.ScoresOf[*Node, *Node] {
	if !s.OfPrompts() {
		return out
	}
	g := tokens.Graph()
	most, slots, places := s.StepTokens(), s.Slots, s.places()
	which, count := scan.Positions(s.isScored(st, t, packed), most)
	type scored struct {
		At  *Node
		Out schedule.ScoresOf[*Node, *Node]
	}
	base := Reshape(out.Count)
	end := control.While(scored{integer(g, 0), out},
		func(now scored) *Node { return LessThan(now.At, count) },
		func(now scored) scored {
			nth := Add(Iota(g, shapes.Make(dtypes.Int32, slots), 0), now.At)
			left := Min(Sub(count, now.At), integer(g, slots))
			index := Min(take(which, Min(nth, integer(g, most-1))), integer(g, most-1))
			row, position := take(packed.SlotIDs, index), take(packed.PosIDs, index)
			next := take(tokens, AddScalar(Add(take(starts, row), position), 1))
			counts := SubScalar(take(st.Scoring.Prompts, row), 1)
			scores := score(index, left, func(logits *Node, part decoder.Part) Scored {
				logprobs, ids, tops := sampling.Logprobs(logits, part.Of(next), part.Of(counts), part.Count, s.Width())
				return Scored{logprobs, Tops{ids, tops}}
			})
			to := Where(LessThan(nth, count), Add(nth, base), FillScalar(g, nth.Shape(), float64(places)))
			put := func(all, some *Node) *Node { return control.ScatterSet(all, to, some) }
			o := now.Out
			o.Owners, o.Positions = put(o.Owners, take(t.Owners, row)), put(o.Positions, position)
			o.Logprobs = put(o.Logprobs, scores.Logprob)
			o.TopIDs, o.TopLogprobs = put(o.TopIDs, scores.Tops.IDs), put(o.TopLogprobs, scores.Tops.Logprobs)
			return scored{AddScalar(now.At, float64(slots)), o}
		})
	end.Out.Count = Reshape(Add(base, count), 1)
	return end.Out
}

// Room reports whether there is room for the scores of another step, bool[]; nil without the feature.
func (s Scores) Room(out schedule.ScoresOf[*Node, *Node]) *Node {
	if !s.OfPrompts() {
		return nil
	}
	used := Reshape(out.Count)
	return LessOrEqual(AddScalar(used, float64(s.StepTokens())), integer(used.Graph(), s.places()))
}

func anyTrue(mask *Node) *Node {
	return GreaterThan(scan.Count(mask), integer(mask.Graph(), 0))
}

// afterScores returns forbidden tokens, i32[D, ...], that are known once scores, f32[D] or f32[D, 1], are.
func afterScores(forbidden, scores *Node) *Node {
	never := ConvertDType(GreaterThan(scores, FillScalar(scores.Graph(), scores.Shape(), math.Inf(1))), dtypes.Int32)
	for never.Rank() < forbidden.Rank() {
		never = InsertAxes(never, -1)
	}
	return Add(forbidden, BroadcastToDims(never, forbidden.Shape().Dimensions...))
}
