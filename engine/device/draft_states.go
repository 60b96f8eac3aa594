package device

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/stopping"
	"github.com/quire/quire/tokenqueue"
	"github.com/quire/quire/tree"
)

// standing is where n rows stand with what they draw from that the tokens before decide: of features that the program
// lacks it is nil.
type standing struct {
	Masks      *Node // i32[n, stopping.Lanes]: see masks
	Left, Open *Node // i32[n]: see thinkingOf
}

// standingOf is that of slots, i32[n].
func (gr *Graphs) standingOf(st state, slots *Node) (s standing) {
	if gr.Features.Has(MaskedTokens) {
		s.Masks = take(st.Extras.Masks.States, slots)
	}
	if gr.Features.Has(Thinking) {
		s.Left, s.Open = take(st.Extras.Thinking.Left, slots), take(st.Extras.Thinking.Open, slots)
	}
	return s
}

// drafts is what may be drawn in a step behind the tokens that wait.
type drafts struct {
	tokenqueue.Drafts
	// Behind is where sequences stand behind the k-th token of theirs, at place k * D + their rank: N+1 of each of D.
	Behind  standing
	Ranks   *Node // i32[S]: of slots; nil where Behind is nothing
	Classes *Node // i32[R]: where those of each row were found, -1 for nowhere; where drafts adapt
}

// walksDrafts says that drafts are walked through what rows draw from.
func (gr *Graphs) walksDrafts() bool {
	return gr.Features.Has(MaskedTokens) || gr.Features.Has(Thinking)
}

// noDrafts is none for each of R rows.
func (gr *Graphs) noDrafts(g *Graph) (d drafts) {
	d.Tokens, d.Counts = zeros(g, dtypes.Int32, gr.Rows(), gr.Drafts.Most), zeros(g, dtypes.Int32, gr.Rows())
	if gr.walksDrafts() {
		d.Ranks = FillScalar(g, shapes.Make(dtypes.Int32, gr.Slots), -1)
	}
	if gr.Drafts.Adapts {
		d.Classes = FillScalar(g, shapes.Make(dtypes.Int32, gr.Rows()), -1)
	}
	places := (gr.Drafts.Most + 1) * gr.Drafts.Rows()
	if gr.Features.Has(MaskedTokens) {
		d.Behind.Masks = zeros(g, dtypes.Int32, places, stopping.Lanes)
	}
	if gr.Features.Has(Thinking) {
		d.Behind.Left, d.Behind.Open = zeros(g, dtypes.Int32, places), zeros(g, dtypes.Int32, places)
	}
	return d
}

// at is where the rows that draw stand, that are nth, i32[n], of the tokens of slots, i32[n].
func (d drafts) at(st state, gr *Graphs, slots, nth *Node) *standing {
	if d.Ranks == nil {
		return nil
	}
	rank := take(d.Ranks, slots)
	isBehind := LogicalAnd(GreaterThan(nth, ZerosLike(nth)), GreaterOrEqual(rank, ZerosLike(rank)))
	place := Add(MulScalar(nth, float64(gr.Drafts.Rows())), rank)
	s := tree.Zip(gr.standingOf(st, slots), d.Behind, func(now, behind *Node) *Node {
		mask := isBehind
		if now.Rank() > 1 {
			mask = BroadcastToDims(InsertAxes(mask, -1), now.Shape().Dimensions...)
		}
		return Where(mask, take(behind, place), now)
	})
	return &s
}

// walking is the state of a loop over the drafts of D slots.
type walking struct {
	At             *Node // i32[]
	Tokens, Counts *Node // i32[D, N], i32[D]
	Forced         *Node // i32[D]: what must be drawn next, -1 where there is no such token
	Now, Behind    standing
}

// walkDrafts takes slots, i32[D], through the drafts that were found for them. It adds tokens that they must draw, up
// to limits, i32[D], and drops those that they can't draw, or behind which the device does not know what they may.
func (gr *Graphs) walkDrafts(l loop, in input, slots *Node, found tokenqueue.Drafts, limits *Node) (tokenqueue.Drafts,
	standing) {
	g := slots.Graph()
	n, most := slots.Shape().Dimensions[0], gr.Drafts.Most
	w := walking{At: integer(g, 0), Tokens: found.Tokens, Counts: Min(found.Counts, limits),
		Now: gr.standingOf(l.State, slots), Behind: gr.noDrafts(g).Behind}
	w.Forced = gr.mustDraw(l.State, slots, w.Now)
	ids := Iota(g, slots.Shape(), 0)
	end := control.While(w,
		func(w walking) *Node {
			isForced := LogicalAnd(GreaterOrEqual(w.Forced, ZerosLike(w.Forced)), LessThan(w.Counts, limits))
			isForced = LogicalAnd(isForced, Equal(w.Counts, BroadcastToDims(w.At, n)))
			more := LogicalOr(isForced, GreaterThan(w.Counts, BroadcastToDims(w.At, n)))
			return LogicalAnd(LessThan(w.At, integer(g, most)), anyTrue(more))
		},
		func(w walking) walking {
			at := BroadcastToDims(w.At, n)
			place := Add(MulScalar(ids, float64(most)), at)
			tokens := take(Reshape(w.Tokens, n*most), place)
			isForced := LogicalAnd(LogicalAnd(GreaterOrEqual(w.Forced, ZerosLike(w.Forced)), LessThan(at, limits)),
				LessOrEqual(at, w.Counts))
			tokens = Where(isForced, w.Forced, tokens)
			isDraft := LogicalOr(GreaterThan(w.Counts, at), isForced)
			w.Counts = Where(LogicalAnd(isForced, Equal(w.Counts, at)), AddScalar(at, 1), w.Counts)
			able := isDraft
			if gr.Features.Has(MaskedTokens) {
				m := l.State.Extras.Masks.Tables
				able = LogicalAnd(able, m.Allow(w.Now.Masks, tokens))
				w.Now.Masks = m.Walk(in.MaskTexts, w.Now.Masks, Where(able, tokens, FillScalar(g, tokens.Shape(), -1)))
				able = LogicalAnd(able, m.Known(w.Now.Masks))
			}
			if gr.Features.Has(Thinking) {
				t := tree.Map(l.State.Extras.Thinking, func(of *Node) *Node { return take(of, slots) })
				t.Left, t.Open = w.Now.Left, w.Now.Open
				w.Now.Left, w.Now.Open = thinkOn(t, tokens)
			}
			w.Counts = Where(LogicalAnd(isDraft, LogicalNot(able)), at, w.Counts)
			w.Tokens = Reshape(control.ScatterSet(Reshape(w.Tokens, n*most), place, tokens), n, most)
			to := Add(MulScalar(AddScalar(at, 1), float64(n)), ids)
			w.Behind = tree.Zip(w.Behind, w.Now, func(all, now *Node) *Node { return control.ScatterSet(all, to, now) })
			return walking{AddScalar(w.At, 1), w.Tokens, w.Counts, gr.mustDraw(l.State, slots, w.Now), w.Now, w.Behind}
		})
	return tokenqueue.Drafts{Tokens: end.Tokens, Counts: end.Counts}, end.Behind
}

// mustDraw is the one token that slots, i32[D], may draw where they stand, i32[D]; -1 where there are several.
func (gr *Graphs) mustDraw(st state, slots *Node, s standing) (token *Node) {
	if gr.Features.Has(MaskedTokens) {
		token = st.Extras.Masks.Tables.Only(s.Masks)
	}
	if gr.Features.Has(Thinking) {
		t := tree.Map(st.Extras.Thinking, func(of *Node) *Node { return take(of, slots) })
		t.Left, t.Open = s.Left, s.Open
		if end := forcedBy(t); token == nil {
			token = end
		} else {
			token = Where(GreaterOrEqual(end, ZerosLike(end)), end, token)
		}
	}
	return token
}
