package device

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/tokenqueue"
)

// drafts is the drafts of a step, which follow the tokens to decode.
type drafts struct {
	tokenqueue.Drafts
	// Behind holds the states of sequences after their k-th token, at place k * D + rank: N+1 states of each of D
	// sequences.
	Behind  feature.SlotStates
	Ranks   *Node // i32[S]: ranks of slots; nil if Behind is empty
	Classes *Node // i32[R]: the class of each row's drafts, -1 for none; nil unless drafts adapt
}

// noDrafts is none for each of R rows.
func (sp speculation) noDrafts(g *Graph) (d drafts) {
	d.Tokens, d.Counts = zeros(g, dtypes.Int32, sp.Rows(), sp.Drafts.Most), zeros(g, dtypes.Int32, sp.Rows())
	if sp.features().WalksDrafts() {
		d.Ranks = FillScalar(g, shapes.Make(dtypes.Int32, sp.Slots), -1)
	}
	if sp.Drafts.Adapts {
		d.Classes = FillScalar(g, shapes.Make(dtypes.Int32, sp.Rows()), -1)
	}
	d.Behind = sp.features().ZeroStates(g, (sp.Drafts.Most+1)*sp.Drafts.Rows())
	return d
}

// statesAfter returns the states of rows that sample after the nth, i32[n], token of slots, i32[n].
func (d drafts) statesAfter(st state, sp speculation, slots, nth *Node) *feature.SlotStates {
	if d.Ranks == nil {
		return nil
	}
	rank := take(d.Ranks, slots)
	isBehind := LogicalAnd(GreaterThan(nth, ZerosLike(nth)), GreaterOrEqual(rank, ZerosLike(rank)))
	place := Add(MulScalar(nth, float64(sp.Drafts.Rows())), rank)
	s := tree.Zip(sp.features().SlotStates(st.Extras.State, slots), d.Behind, func(now, behind *Node) *Node {
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
	Forced         *Node // i32[D]: the only token that may be sampled next, -1 if there are several
	Now, Behind    feature.SlotStates
}

// walkDrafts takes slots, i32[D], through the drafts that were found for them. It adds tokens that are the only ones
// allowed, up to limits, i32[D]. It drops forbidden tokens, and tokens after which the device does not know what is
// allowed.
func (sp speculation) walkDrafts(l loop, in input, slots *Node, found tokenqueue.Drafts,
	limits *Node) (tokenqueue.Drafts, feature.SlotStates) {
	g, features, st := slots.Graph(), sp.features(), l.State.Extras.State
	n, most := slots.Shape().Dimensions[0], sp.Drafts.Most
	w := walking{At: integer(g, 0), Tokens: found.Tokens, Counts: Min(found.Counts, limits),
		Now: features.SlotStates(st, slots), Behind: sp.noDrafts(g).Behind}
	w.Forced = features.OnlyToken(st, slots, w.Now)
	ids := Iota(g, slots.Shape(), 0)
	end := control.While(w,
		func(w walking) *Node {
			isForced := LogicalAnd(GreaterOrEqual(w.Forced, ZerosLike(w.Forced)), LessThan(w.Counts, limits))
			isForced = LogicalAnd(isForced, Equal(w.Counts, BroadcastToDims(w.At, n)))
			more := LogicalOr(isForced, GreaterThan(w.Counts, BroadcastToDims(w.At, n)))
			return LogicalAnd(LessThan(w.At, integer(g, most)), anyTrue(more))
		},
		func(w walking) walking {
			position := BroadcastToDims(w.At, n)
			place := Add(MulScalar(ids, float64(most)), position)
			tokens := take(Reshape(w.Tokens, n*most), place)
			isForced := LogicalAnd(LogicalAnd(GreaterOrEqual(w.Forced, ZerosLike(w.Forced)),
				LessThan(position, limits)), LessOrEqual(position, w.Counts))
			tokens = Where(isForced, w.Forced, tokens)
			isDraft := LogicalOr(GreaterThan(w.Counts, position), isForced)
			w.Counts = Where(LogicalAnd(isForced, Equal(w.Counts, position)), AddScalar(position, 1), w.Counts)
			var able *Node
			able, w.Now = features.WalkDrafts(st, forFeatures(in), slots, tokens, isDraft, w.Now)
			w.Counts = Where(LogicalAnd(isDraft, LogicalNot(able)), position, w.Counts)
			w.Tokens = Reshape(control.ScatterSet(Reshape(w.Tokens, n*most), place, tokens), n, most)
			to := Add(MulScalar(AddScalar(position, 1), float64(n)), ids)
			w.Behind = tree.Zip(w.Behind, w.Now, func(all, now *Node) *Node { return control.ScatterSet(all, to, now) })
			return walking{AddScalar(w.At, 1), w.Tokens, w.Counts, features.OnlyToken(st, slots, w.Now), w.Now,
				w.Behind}
		})
	return tokenqueue.Drafts{Tokens: end.Tokens, Counts: end.Counts}, end.Behind
}
