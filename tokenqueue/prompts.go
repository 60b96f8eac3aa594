package tokenqueue

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

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

// PackNext packs the next limit tokens (T), or all if there are fewer: the rest of the first slot's prompt, then the
// next slot's, and so on. It leaves Done to the caller, who knows which of them it ran.
func (p Prompts) PackNext(limit int) Packed {
	g := p.Tokens.Graph()
	slots := p.Lens.Shape().Dimensions[0]
	remaining := p.Remaining()
	ends := scan.Sum(remaining)
	total := Reshape(SliceAxis(ends, 0, AxisElem(slots-1)))
	num := Min(total, Scalar(g, dtypes.Int32, limit))

	// The slot of the k-th token is the first whose tokens reach past k.
	rank := iota32(g, limit)
	pairs := shapes.Make(dtypes.Int32, limit, slots)
	before := LessOrEqual(BroadcastToShape(InsertAxes(ends, 0), pairs), BroadcastToShape(InsertAxes(rank, 1), pairs))
	slot := ReduceSum(ConvertDType(before, dtypes.Int32), 1)
	at := InsertAxes(clip(slot, slots), -1)
	pos := Add(Gather(Add(p.Done, Sub(remaining, ends)), at), rank)
	place := InsertAxes(clip(Add(Gather(p.Starts, at), pos), p.Tokens.Shape().Dimensions[0]), -1)
	isToken := LessThan(rank, BroadcastToDims(num, limit))
	padding := fill(g, limit, -1)
	return Packed{
		Tokens:    Where(isToken, Gather(p.Tokens, place), padding),
		SlotIDs:   Where(isToken, slot, padding),
		PosIDs:    Where(isToken, pos, padding),
		NumTokens: num,
	}
}

// HostPrompt is one slot of [Prompts] in plain Go.
type HostPrompt struct {
	Tokens []int32 // All of the prompt.
	Done   int
}

// PackPrompts is the plain-Go twin of [Prompts.PackNext].
func PackPrompts(prompts []HostPrompt, limit int) []Entry {
	var packed []Entry
	for slot, p := range prompts {
		for pos := p.Done; pos < len(p.Tokens) && len(packed) < limit; pos++ {
			packed = append(packed, Entry{Token: p.Tokens[pos], Slot: int32(slot), Pos: int32(pos)})
		}
	}
	return packed
}
