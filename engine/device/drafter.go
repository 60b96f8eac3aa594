package device

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// split splits the caches into the model's and the drafter's.
func (sp speculation) split(caches []*Node) (own, drafters []*Node) {
	n := len(caches)
	if sp.Drafter != nil {
		n -= len(sp.Drafter.Layouts)
	}
	return caches[:n:n], caches[n:]
}

// follow also runs the packed tokens of a step through the drafter, so that it has keys and values for the same tokens
// as the model.
func (sp speculation) follow(caches []*Node, w weights, packed tokenqueue.Packed, batch tokenqueue.PageBatchInfo,
	prefill *Node) []*Node {
	if sp.Drafter == nil {
		return caches
	}
	own, drafters := sp.split(caches)
	none := zeros(prefill.Graph(), dtypes.Int32, 1) // hidden states are not used
	drafters, _, _ = sp.Drafter.forward(drafters, w.Drafter, packed, batch, prefill, none, rowParams{})
	return slices.Concat(own, drafters)
}

// guessing is the state of a loop that samples drafts, one token of each row per round.
type guessing struct {
	At *Node // i32[]
	// The tables as they would be with the tokens so far. They are dropped: the step makes room for what it takes.
	Sequences seqtable.Table
	Pages     pagetable.Table
	Next      *Node   // i32[R]: the token that follows those in the cache
	Tokens    *Node   // i32[R, N]: the drafts
	Caches    []*Node // of the drafter
}

// guess has the drafter continue after the tokens to decode, next i32[R]. rows, i32[D], get as many drafts as counts,
// i32[D], says. It samples with the parameters and the random numbers that the model will use. Keys and values go to
// pages that no other row has reserved, and are overwritten when the drafts are run.
func (sp speculation) guess(l loop, w decoder.Weights, in input, next, rows, counts *Node,
	caches []*Node) (tokenqueue.Drafts, []*Node) {
	g := next.Graph()
	all, most := sp.Rows(), sp.Drafts.Most
	none := FillScalar(g, next.Shape(), -1)
	wanted := control.ScatterSet(ZerosLike(next), rows, counts)
	rounds := ReduceAllMax(counts)
	end := control.While(guessing{integer(g, 0), l.State.Sequences, l.State.Pages, next,
		zeros(g, dtypes.Int32, all, most), caches},
		func(s guessing) *Node { return LessThan(s.At, rounds) },
		func(s guessing) guessing {
			waits := Where(GreaterThan(wanted, BroadcastToDims(s.At, all)), s.Next, none)
			now := l
			now.State.Sequences = s.Sequences
			packed := now.prompts(in).PackNext(waits, integer(g, 0), sp.Slots)
			var batch tokenqueue.PageBatchInfo
			s.Sequences, s.Pages, batch, _ = s.Sequences.Allocate(s.Pages, packed, min(all, sp.Slots))
			var hidden *Node
			s.Caches, hidden = sp.Drafter.hidden(s.Caches, w, packed, batch, true)
			tokens := decoder.ByRows(sp.Drafter.Model, w, hidden, packed.NumTokens,
				func(logits *Node, part decoder.Part) *Node {
					slots, positions := part.Of(packed.SlotIDs), AddScalar(part.Of(packed.PosIDs), 1)
					params := tree.Map(l.State.Rows.Sampling, func(x *Node) *Node { return take(x, slots) })
					tokens, _, _ := sampling.Sample(logits, params, positions, part.Count)
					return tokens
				})
			// The drafter's vocabulary may have room for more tokens, and a row may have no distribution.
			isToken := LogicalAnd(GreaterOrEqual(tokens, ZerosLike(tokens)),
				LessThan(tokens, FillScalar(g, tokens.Shape(), float64(sp.Vocabulary))))
			tokens = Where(isToken, tokens, ZerosLike(tokens))

			isRow := GreaterOrEqual(packed.SlotIDs, ZerosLike(tokens))
			place := Add(MulScalar(packed.SlotIDs, float64(most)), BroadcastToDims(s.At, sp.Slots))
			nowhere := func(n int) *Node { return FillScalar(g, tokens.Shape(), float64(n)) }
			s.Next = control.ScatterSet(none, Where(isRow, packed.SlotIDs, nowhere(all)), tokens)
			s.Tokens = Reshape(control.ScatterSet(Reshape(s.Tokens, all*most),
				Where(isRow, place, nowhere(all*most)), tokens), all, most)
			s.At = AddScalar(s.At, 1)
			return s
		})
	end.Caches = sp.Drafter.zeroFreed(end.Caches, end.Pages, l.State.Pages)
	return tokenqueue.Drafts{Tokens: take(end.Tokens, Min(rows, integer(g, all-1))), Counts: counts}, end.Caches
}
