package device

import (
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// state is all that stays on the device between calls. It is donated to the program and comes back updated in
// place.
//
// R rows are the slots, then the prefix rows, then the contexts. S is the slots.
type state struct {
	Pages     pagetable.Table  // reference counts and ages of the P pages
	Sequences seqtable.Table   // R rows
	Queue     tokenqueue.Queue // at most one token per slot: what to decode next
	Rows      rowParams
	Turns     *Node   // i32[S]: of the slots' prompts, see tokenqueue.Prompts; used until they have run
	Caches    []*Node // one for each layer that has a cache, see attention.Layout; then the drafter's
	Extras    extras  // of program run alone: see package feature
}

// extras are what features keep on the device, and what is known of sequences to find drafts.
type extras struct {
	feature.State
	Drafts drafting
}

// ExtraBytes is the memory that the extras take.
func (p Sizes) ExtraBytes() int64 { return p.features().Bytes() + p.draftingBytes() }

// LaterExtraBytes is the memory that the extras of other features take. The programs get them when the first row asks
// for one.
func (p Sizes) LaterExtraBytes() int64 {
	all := p
	all.Features = ^feature.Set(0)
	return all.ExtraBytes() - p.ExtraBytes()
}

// table is what features see of the tables.
func (st state) table() feature.Table {
	return feature.Table{Used: st.Sequences.Used, Owners: st.Sequences.Owners, PromptLens: st.Rows.PromptLens,
		MinLens: st.Rows.MinLens}
}

// InTables reports whether a leaf of the state belongs to the tables, which is everything except the caches.
func (l Leaf) InTables() bool { return !strings.HasPrefix(l.Name, "Caches") }

// unreserved is how many free pages no row has a right to, i32[].
func (st state) unreserved(pageSize int) *Node {
	held := pagesOf(st.Sequences.SeqLens, pageSize)
	reserved := Where(st.Sequences.Used, Max(Sub(st.Rows.MaxPages, held), ZerosLike(held)), ZerosLike(held))
	return Sub(st.Pages.NumFree(), ReduceAllSum(reserved))
}

// short returns how many pages are missing for the next step of all sequences that decode, i32[]: none if every row's
// pages are reserved.
func (z Sizes) short(st state) *Node {
	lens := st.Sequences.SeqLens
	g := lens.Graph()
	held := pagesOf(lens, z.PageSize)
	full := Equal(MulScalar(held, float64(z.PageSize)), lens)
	decodes := LogicalAnd(LessThan(Iota(g, lens.Shape(), 0), integer(g, z.Slots)),
		GreaterOrEqual(lens, st.Rows.PromptLens))
	needs := LogicalAnd(LogicalAnd(st.Sequences.Used, decodes),
		LogicalAnd(full, GreaterOrEqual(held, st.Rows.MaxPages)))
	return Max(Sub(scan.Count(needs), st.unreserved(z.PageSize)), integer(g, 0))
}

// weights are the model's weights, and the drafter's if there is one.
type weights struct {
	decoder.Weights
	Drafter decoder.Weights
}

// loop is the state of the program's loop.
type loop struct {
	State  state
	Starts *Node // i32[R]: of the rows' prompts among the tokens of the input
	Out    output
	Todo   *Node // i32[]: the kind of the next round
	Rounds *Node // i32[]: steps that sampled, if tokens are drafted; else nil, because each step has a column
	Pins   *Node // i32[P]: references that the call itself holds, in debug mode; else nil
	Admit  admission
}
