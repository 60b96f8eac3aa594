// Package tokenqueue holds the tokens that wait to be run through the model, and packs the next step from them.
//
// A token is identified by its slot (the sequence it belongs to) and its position in that sequence. Generated tokens
// wait in a [Queue], prompt tokens in [Prompts]. [Prompts.PackNext] takes tokens from both, sorted so that the tokens
// of one sequence are adjacent. Package seqtable then assigns their pages and makes the [PageBatchInfo] that
// attention reads. [Host] is the plain-Go twin.
package tokenqueue

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
)

// Queue is a FIFO of capacity Q. The first NumQueued elements of the arrays are the tokens, oldest first; the others
// are -1.
type Queue struct {
	Tokens    *Node // int32 [Q]: vocabulary ids.
	SlotIDs   *Node // int32 [Q]: the sequence each token belongs to.
	PosIDs    *Node // int32 [Q]: its position in the sequence, from 0.
	NumQueued *Node // int32 scalar.
}

// Packed is the tokens of one step, sorted by slot and then by position. The first NumTokens elements are the tokens;
// the others are -1.
type Packed struct {
	Tokens    *Node // int32 [T].
	SlotIDs   *Node // int32 [T].
	PosIDs    *Node // int32 [T].
	NumTokens *Node // int32 scalar.
}

// PageBatchInfo describes the tokens of one step for the model and its attention. The sequences that have tokens in
// the step are rows 0 to NumSeqs-1, in order of slot; the rows after them are padding.
//
// The layout follows JAX's ragged paged attention (kv_lens, page_indices, cu_q_lens, num_seqs).
type PageBatchInfo struct {
	SlotIDs     *Node // int32 [B]: the slot of each row, -1 = padding.
	PageIndices *Node // int32 [B, PP]: the row's pages in order, -1 = none.
	SeqLens     *Node // int32 [B]: the row's length in tokens, including this step's; 0 = padding.
	CuQLens     *Node // int32 [B+1]: row b's tokens are CuQLens[b] up to, but not including, CuQLens[b+1].
	NumSeqs     *Node // int32 scalar.
	// int32 [T]: where each token's KV is written, page*PageSize + place in page; P*PageSize = nowhere.
	NewTokenDests *Node
	TokenSeqs     *Node // int32 [T]: the row of each token, -1 = padding, or a token that cannot be run.
	PosIDs        *Node // int32 [T]: the position of each token in its sequence, -1 = padding.
	PageSize      int   // Tokens per page.
}

// New returns an empty queue.
func New(g *Graph, capacity int) Queue {
	none := fill(g, capacity, -1)
	return Queue{Tokens: none, SlotIDs: none, PosIDs: none, NumQueued: ScalarZero(g, dtypes.Int32)}
}

// Capacity returns Q.
func (q Queue) Capacity() int { return q.Tokens.Shape().Dimensions[0] }

// Enqueue appends, in order, the tokens for which valid, bool [N], holds. tokens, slots and pos are int32 [N]. Tokens
// for which there is no room are dropped. This cannot happen if a queue with a capacity of S holds at most one token
// for each of S slots.
func (q Queue) Enqueue(tokens, slots, pos, valid *Node) Queue {
	g := tokens.Graph()
	capacity, n := q.Capacity(), tokens.Shape().Dimensions[0]
	from, count := scan.Positions(valid, n)
	added := Min(count, subFrom(capacity, q.NumQueued))

	place := iota32(g, capacity)
	rank := Sub(place, q.NumQueued)
	isNew := LogicalAnd(GreaterOrEqual(rank, ScalarZero(g, dtypes.Int32)), LessThan(rank, added))
	source := InsertAxes(clip(Gather(from, InsertAxes(clip(rank, n), -1)), n), -1)
	insert := func(old, new *Node) *Node { return Where(isNew, Gather(new, source), old) }
	return Queue{
		Tokens:    insert(q.Tokens, tokens),
		SlotIDs:   insert(q.SlotIDs, slots),
		PosIDs:    insert(q.PosIDs, pos),
		NumQueued: Add(q.NumQueued, added),
	}
}

// PurgeSlots removes the tokens of the slots whose mask, bool [S], is set. The other tokens keep their order.
func (q Queue) PurgeSlots(mask *Node) Queue {
	g := mask.Graph()
	capacity, slots := q.Capacity(), mask.Shape().Dimensions[0]
	marks := ConvertDType(mask, dtypes.Int32)
	place := iota32(g, capacity)
	// split is called again inside Once: if kept were shared, the compiler would compute it even when nothing is
	// purged.
	split := func(q Queue) (purged, kept *Node) {
		queued := LessThan(place, BroadcastToDims(q.NumQueued, capacity))
		inTable := LogicalAnd(GreaterOrEqual(q.SlotIDs, ZerosLike(q.SlotIDs)),
			LessThan(q.SlotIDs, fill(g, capacity, int32(slots))))
		marked := GreaterThan(Gather(marks, InsertAxes(clip(q.SlotIDs, slots), -1)), ZerosLike(q.SlotIDs))
		purged = LogicalAnd(queued, LogicalAnd(inTable, marked))
		return purged, LogicalAnd(queued, LogicalNot(purged))
	}
	purged, _ := split(q)
	// Once, because most steps purge nothing.
	return control.Once(ReduceLogicalOr(purged), q, func(_ control.Now, q Queue) Queue {
		_, kept := split(q)
		from, count := scan.Positions(kept, capacity)
		source := InsertAxes(clip(from, capacity), -1)
		stays := LessThan(place, BroadcastToDims(count, capacity))
		compact := func(x *Node) *Node { return Where(stays, Gather(x, source), fill(g, capacity, -1)) }
		return Queue{Tokens: compact(q.Tokens), SlotIDs: compact(q.SlotIDs), PosIDs: compact(q.PosIDs),
			NumQueued: count}
	})
}

func iota32(g *Graph, n int) *Node { return Iota(g, shapes.Make(dtypes.Int32, n), 0) }

// subFrom returns the constant minus x.
func subFrom(constant int, x *Node) *Node { return Sub(Scalar(x.Graph(), x.DType(), constant), x) }

// clip makes indices safe for an axis of n: backends differ on indices out of range.
func clip(indices *Node, n int) *Node { return MinScalar(MaxScalar(indices, 0), n-1) }

func fill(g *Graph, n int, value int32) *Node {
	return BroadcastToDims(Scalar(g, dtypes.Int32, value), n)
}
