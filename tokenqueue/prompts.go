package tokenqueue

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/scan"
)

// Prompts is the prompts of R slots, as far as they lie on the device: where a [Queue] holds tokens one by one, they
// are one array here, of which many slots may read the same part.
type Prompts struct {
	Tokens *Node // int32 [Q]: vocabulary ids.
	// Starts, int32 [R], is where position 0 of each slot's prompt is in Tokens, or would be: positions below Done need
	// not be there.
	Starts *Node
	Done   *Node // int32 [R]: positions of each prompt that were run.
	Lens   *Node // int32 [R]: where each prompt ends. A slot without one has Done >= Lens.
}

// Remaining is how many tokens of each slot's prompt have not been run, int32 [R].
func (p Prompts) Remaining() *Node { return Max(Sub(p.Lens, p.Done), ZerosLike(p.Lens)) }

// PackNext packs a step of at most limit tokens (T), sorted by slot: the token that waits in each slot that has one in
// next, int32 [R], see [Queue.Next], and prompt tokens as far as room, an int32 scalar, goes: the rest of the first
// slot's prompt, then the next slot's, and so on. A slot in next has no prompt left; its token is at position Done. It
// leaves Done to the caller, who knows which of them it ran.
func (p Prompts) PackNext(next, room *Node, limit int) Packed {
	g := p.Tokens.Graph()
	slots := p.Lens.Shape().Dimensions[0]
	remaining := p.Remaining()
	before := Sub(scan.Sum(remaining), remaining)
	ofPrompts := Max(ZerosLike(remaining), Min(remaining, Sub(BroadcastToDims(room, slots), before)))
	counts := Where(GreaterOrEqual(next, ZerosLike(next)), OnesLike(next), ofPrompts)
	ends := scan.Sum(counts)
	num := Min(Reshape(SliceAxis(ends, 0, AxisElem(slots-1))), Scalar(g, dtypes.Int32, limit))

	// The slot of the k-th token is the first whose tokens reach past k.
	rank := iota32(g, limit)
	pairs := shapes.Make(dtypes.Int32, limit, slots)
	isBefore := LessOrEqual(BroadcastToShape(InsertAxes(ends, 0), pairs), BroadcastToShape(InsertAxes(rank, 1), pairs))
	slot := ReduceSum(ConvertDType(isBefore, dtypes.Int32), 1)
	at := InsertAxes(clip(slot, slots), -1)
	pos := Add(Gather(Add(p.Done, Sub(counts, ends)), at), rank)
	place := InsertAxes(clip(Add(Gather(p.Starts, at), pos), p.Tokens.Shape().Dimensions[0]), -1)
	waiting := Gather(next, at)
	token := Where(GreaterOrEqual(waiting, ZerosLike(waiting)), waiting, Gather(p.Tokens, place))
	isToken := LessThan(rank, BroadcastToDims(num, limit))
	padding := fill(g, limit, -1)
	return Packed{
		Tokens:    Where(isToken, token, padding),
		SlotIDs:   Where(isToken, slot, padding),
		PosIDs:    Where(isToken, pos, padding),
		NumTokens: num,
	}
}

// Next is the token that waits in each of a number of slots, int32 [slots], -1 for none. At most one token a slot may
// be queued.
func (q Queue) Next(slots int) *Node {
	g := q.Tokens.Graph()
	nowhere := fill(g, q.Capacity(), int32(slots))
	to := Where(GreaterOrEqual(q.SlotIDs, ZerosLike(q.SlotIDs)), q.SlotIDs, nowhere)
	return control.ScatterSet(fill(g, slots, -1), to, q.Tokens)
}

// HostPrompt is one slot of [Prompts] in plain Go.
type HostPrompt struct {
	Tokens []int32 // All of the prompt.
	Done   int
	Next   []int32 // The token that waits, if there is one.
}

// PackPrompts is the plain-Go twin of [Prompts.PackNext].
func PackPrompts(prompts []HostPrompt, room, limit int) []Entry {
	var packed []Entry
	for slot, p := range prompts {
		for _, token := range p.Next {
			packed = append(packed, Entry{Token: token, Slot: int32(slot), Pos: int32(p.Done)})
		}
		for pos := p.Done; pos < len(p.Tokens) && room > 0; pos++ {
			packed = append(packed, Entry{Token: p.Tokens[pos], Slot: int32(slot), Pos: int32(pos)})
			room--
		}
	}
	return packed[:min(len(packed), limit)]
}
