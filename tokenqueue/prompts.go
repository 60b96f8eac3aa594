package tokenqueue

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
)

// Prompts holds the prompts of R slots, as far as they are on the device. A [Queue] holds tokens one by one; here
// they are one array, and many slots may read the same part of it.
type Prompts struct {
	Tokens *Node // int32 [Q]: vocabulary ids.
	// Starts, int32 [R], is the index in Tokens of position 0 of each slot's prompt. It may lie outside the array:
	// positions below Done need not be there.
	Starts *Node
	Done   *Node // int32 [R]: how many positions of each prompt were run.
	Lens   *Node // int32 [R]: the length of each prompt. A slot without a prompt to run has Done >= Lens.
	// Turns, int32 [R], is the order in which prompts run: lower ones first, equal ones by slot. If it is nil, all
	// are equal.
	Turns *Node
}

// Remaining returns how many tokens of each slot's prompt have not been run, int32 [R].
func (p Prompts) Remaining() *Node { return Max(Sub(p.Lens, p.Done), ZerosLike(p.Lens)) }

// ahead returns how many prompt tokens run before each slot's own, int32 [R], given the remaining ones, int32 [R].
func (p Prompts) ahead(remaining *Node) *Node {
	if p.Turns == nil {
		return Sub(scan.Sum(remaining), remaining)
	}
	slots := remaining.Shape().Dimensions[0]
	pairs := shapes.Make(dtypes.Int32, slots, slots)
	ofPair := func(x *Node, axis int) *Node { return BroadcastToShape(InsertAxes(x, axis), pairs) }
	slot := iota32(remaining.Graph(), slots)
	theirs, mine := ofPair(p.Turns, 0), ofPair(p.Turns, 1)
	isAhead := LogicalOr(LessThan(theirs, mine),
		LogicalAnd(Equal(theirs, mine), LessThan(ofPair(slot, 0), ofPair(slot, 1))))
	left := ofPair(remaining, 0)
	return ReduceSum(Where(isAhead, left, ZerosLike(left)), 1)
}

// Drafts are tokens that are proposed to follow the tokens that wait in R slots, at most N per slot.
type Drafts struct {
	Tokens *Node // int32 [R, N].
	Counts *Node // int32 [R]: the number of drafts of each slot; 0 if no token waits.
}

// PackNext packs a step of at most limit tokens (T), sorted by slot: the token that waits in each slot that has one
// in next, int32 [R], see [Queue.Next], and then prompt tokens, as many as room, an int32 scalar, allows: the rest of
// the first prompt, then the next prompt, and so on, in the order of Turns. A slot with a token in next has no prompt
// left; the token's position is Done. The caller updates Done, since it knows which tokens it ran.
func (p Prompts) PackNext(next, room *Node, limit int) Packed {
	return p.PackDrafts(next, nil, room, limit)
}

// PackDrafts is PackNext with drafts after the waiting tokens; drafts may be nil.
func (p Prompts) PackDrafts(next *Node, drafts *Drafts, room *Node, limit int) Packed {
	g := p.Tokens.Graph()
	slots := p.Lens.Shape().Dimensions[0]
	remaining := p.Remaining()
	left := Sub(BroadcastToDims(room, slots), p.ahead(remaining))
	ofPrompts := Max(ZerosLike(remaining), Min(remaining, left))
	waits := OnesLike(next)
	if drafts != nil {
		waits = Add(waits, drafts.Counts)
	}
	counts := Where(GreaterOrEqual(next, ZerosLike(next)), waits, ofPrompts)
	ends := scan.Sum(counts)
	num := Min(Reshape(SliceAxis(ends, 0, AxisElem(slots-1))), Scalar(g, dtypes.Int32, limit))

	rank := iota32(g, limit)
	slot := scan.Owners(ends, limit)
	slotIndex := InsertAxes(clip(slot, slots), -1)
	pos := Add(Gather(Add(p.Done, Sub(counts, ends)), slotIndex), rank)
	place := InsertAxes(clip(Add(Gather(p.Starts, slotIndex), pos), p.Tokens.Shape().Dimensions[0]), -1)
	waiting := Gather(next, slotIndex)
	if drafts != nil {
		waiting = drafts.tokenAt(waiting, slot, Sub(pos, Gather(p.Done, slotIndex)))
	}
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

// tokenAt returns token number nth, int32 [T], of its slot in this step, int32 [T]: next, int32 [T], if nth is 0,
// otherwise a draft. It is -1 if no token waits in the slot.
func (d *Drafts) tokenAt(next, slot, nth *Node) *Node {
	rows, most := d.Tokens.Shape().Dimensions[0], d.Tokens.Shape().Dimensions[1]
	index := Add(MulScalar(clip(slot, rows), most), clip(SubScalar(nth, 1), most))
	draft := Gather(Reshape(d.Tokens, rows*most), InsertAxes(index, -1))
	zero := ZerosLike(next)
	return Where(LogicalAnd(GreaterOrEqual(next, zero), GreaterThan(nth, zero)), draft, next)
}

// Next returns the token that waits in each slot, int32 [slots]; -1 if there is none. At most one token per slot may
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
	Turn   int
	Next   []int32 // The waiting token, if there is one, and its drafts.
}

// PackPrompts is the plain-Go twin of [Prompts.PackDrafts].
func PackPrompts(prompts []HostPrompt, room, limit int) []Entry {
	order := make([]int, len(prompts))
	for slot := range order {
		order[slot] = slot
	}
	slices.SortStableFunc(order, func(a, b int) int { return prompts[a].Turn - prompts[b].Turn })
	counts := make([]int, len(prompts))
	for _, slot := range order {
		counts[slot] = min(room, max(0, len(prompts[slot].Tokens)-prompts[slot].Done))
		room -= counts[slot]
	}
	var packed []Entry
	for slot, p := range prompts {
		for i, token := range p.Next {
			packed = append(packed, Entry{Token: token, Slot: int32(slot), Pos: int32(p.Done + i)})
		}
		for pos := p.Done; pos < p.Done+counts[slot]; pos++ {
			packed = append(packed, Entry{Token: p.Tokens[pos], Slot: int32(slot), Pos: int32(pos)})
		}
	}
	return packed[:min(len(packed), limit)]
}
