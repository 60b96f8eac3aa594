package device

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/ops/tree"
)

// The input of a call is declared here once, for the device and for the host: see package tree on host twins. In the
// comments i32[A] is an array of A numbers, i32[] a single one.

// rowsOf is what rows are admitted with, of n rows. A parameter of a row is a field here, or in [sampling.ParamsOf],
// and a line in Row.set.
type rowsOf[Ints, Sampling, Stops, States any] struct {
	Sampling   Sampling
	PromptLens Ints // i32[n]: prompt tokens to run in this row; a slot samples from the last of them on
	MinLens    Ints // i32[n]: at lower positions no stop ends a completion, and no stop token is sampled
	MaxLens    Ints // i32[n]: prompt and completion together end here
	// i32[n]: the pages guaranteed to the row; those that it does not hold yet are reserved for it
	MaxPages   Ints
	Leaves     Ints  // i32[n]: 1 if only full pages of the prompt are kept when the row ends
	Short      Ints  // i32[n]: 1 if schedule.Request.Short; absent if no row can be short
	Adapters   Ints  // i32[n]: schedule.Adapter.Slot, 0 for none; absent if no row can have an adapter
	StopTokens Stops // i32[n, MaxStopTokens], padded with -1; see BarredOnly
	// i32[n, stopping.Lanes]: the states of its automata, see stopping.Walk; absent without automata
	StopStates States
}

type (
	rowParams = rowsOf[*Node, sampling.Params, *Node, *Node]
	Rows      = rowsOf[[]int32, sampling.Rows, [][MaxStopTokens]int32, [][stopping.Lanes]int32]
)

// Row is what rows are admitted with, in addition to what the scheduler's entry has. It is made when the request is
// admitted, but for the stop states.
type Row struct {
	feature.Row
	ID         string  // of the request
	StopTokens []int32 // MaxStopTokens at most
	StopStates [stopping.Lanes]int32
}

// BarredOnly encodes a stop token, for a row's stop tokens, that does not end a completion but is forbidden before
// MinLen.
func BarredOnly(token int32) int32 { return -2 - token }

// set fills in row i for an entry.
func (r Row) set(rows Rows, i int, e schedule.Entry) {
	sampling.SetRow(rows.Sampling, i, r.Sampling, r.ID, e.Generation)
	rows.MinLens[i] = int32(len(e.Request.Tokens) + e.Request.MinTokens)
	rows.MaxLens[i] = int32(e.Request.MaxLen)
	rows.PromptLens[i], rows.MaxPages[i] = int32(e.PromptLen), int32(e.MaxPages)
	rows.Leaves[i] = number(e.Request.Leaf)
	if rows.Short != nil {
		rows.Short[i] = number(e.Request.Short)
	}
	if rows.Adapters != nil {
		rows.Adapters[i] = e.Request.Adapter.InSlot()
	}
	stops := &rows.StopTokens[i]
	for k := range stops {
		stops[k] = schedule.None
	}
	copy(stops[:], r.StopTokens)
	if rows.StopStates != nil {
		rows.StopStates[i] = r.StopStates
	}
}

// inputOf is the input of the run program. The tokens of prompts lie in one array, and several entries may read the
// same part of it. A prompt's start is the index at which position 0 is or would be: the array holds only positions
// that have not run yet.
type inputOf[Mask, Int, Ints, Rows, Asked, Masks any] struct {
	Release Mask // bool[R]: rows to free first
	Tokens  Ints `tree:"apart"` // i32[Q]: tokens of the prompts; nil on the host: as in the last call
	Named   Ints // i32[N]: pages that what waits begins with, held until the call ends; -1 = none
	Starts  Ints // i32[R]: starts of the prompts of admitted rows that have tokens left
	Waiting waitingOf[Int, Ints, Rows]
	Ahead   aheadOf[Int, Ints]
	Columns Int // i32[]: after how many columns of output to return
	// EnoughFree is at how many free slots to return once no completion waits, i32[].
	EnoughFree Int
	Asked      Asked                   // by the entries that wait
	Masks      Masks                   // nil without masks
	Stops      stopping.TablesOf[Ints] // nil on the host: see Program.Resident
	MaskTexts  stopping.TablesOf[Ints] // likewise
}

// waitingOf is the completions that wait for a slot: A entries, first come, first served.
type waitingOf[Int, Ints, Rows any] struct {
	Count   Int  // i32[]: how many of the A there are
	Rows    Rows // of A entries
	Starts  Ints // i32[A]: of the prompt
	Sources Ints // i32[A]: the row that it is a clone of; -1 = none
	Named   Ints // i32[A]: the place in the call's Named of the pages that it begins with, if it is no clone
	Held    Ints // i32[A]: tokens that it takes over
	First   Ints // i32[A]: 1 if its pages are reserved together with the row that it is a clone of
	// Resume, i32[A], is 1 if the sequence continues after it was swapped out. Its source holds all of it except the
	// token sampled last, which is at place Held and is decoded as it would have been.
	Resume Ints
}

// aheadOf is the prompts, or prefixes of prompts, to be run for clones: H entries, in order.
type aheadOf[Int, Ints any] struct {
	Count      Int  // i32[]
	Rows       Ints // i32[H]: the row that the host chose
	Starts     Ints // i32[H]
	PromptLens Ints // i32[H]: tokens to run
	MaxPages   Ints // i32[H]: pages for these and for the first clone
	Behind     Ints // i32[H]: how many of the entries that wait came before it
	Adapters   Ints // i32[H]: see rowsOf
	Short      Ints // i32[H]: as for rows
	// i32[H]: as for waiting entries. A prefix may start as a clone of another one.
	Sources, Named, Held Ints
}

type (
	input = inputOf[*Node, *Node, *Node, rowParams, feature.Given, feature.MaskInput]
	Input = inputOf[[]bool, int32, []int32, Rows, feature.Asked, feature.Masking]
)

// forFeatures is what features see of the input.
func forFeatures(in input) feature.Input {
	return feature.Input{Asked: in.Asked, Masks: in.Masks, Texts: in.MaskTexts}
}

// NewInput makes an input that asks for nothing.
func (p Sizes) NewInput() *Input {
	in := &Input{
		Release: make([]bool, p.Rows()), Tokens: make([]int32, p.PromptLimit), Starts: make([]int32, p.Rows()),
		Waiting: tree.Make[waitingOf[int32, []int32, Rows]](p.WaitingLen()),
		Ahead:   tree.Make[aheadOf[int32, []int32]](p.AheadLen()),
		Asked:   p.features().Ask(),
		Masks:   p.NewMasking(),
	}
	in.Waiting.Rows.StopStates = p.stopStates(in.Waiting.Rows.StopStates)
	if !p.ShortRope {
		in.Waiting.Rows.Short, in.Ahead.Short = nil, nil
	}
	if p.Adapters == 0 {
		in.Waiting.Rows.Adapters, in.Ahead.Adapters = nil, nil
	}
	in.Named = make([]int32, p.NamedLen())
	for i := range in.Named {
		in.Named[i] = schedule.None
	}
	for i := range in.Ahead.Rows {
		in.Ahead.Rows[i], in.Ahead.Sources[i] = schedule.None, schedule.None
	}
	return in
}

// stopStates returns the states of rows, or nil if rows have no automata.
func (p Sizes) stopStates(states [][stopping.Lanes]int32) [][stopping.Lanes]int32 {
	if p.Stops == nil {
		return nil
	}
	return states
}

// Fill makes the input of what the scheduler offers; row returns the row of an entry.
func (p Sizes) Fill(offer *schedule.Input, row func(schedule.Entry) Row) *Input {
	in, features := p.NewInput(), p.features()
	copy(in.Release, offer.Release)
	if copy(in.Tokens, offer.Tokens) == 0 {
		in.Tokens = nil // nobody reads them
	}
	copy(in.Named, offer.Named)
	copy(in.Starts, offer.Starts)
	in.Columns, in.EnoughFree = int32(offer.Columns), int32(offer.EnoughFree)
	w := &in.Waiting
	w.Count = int32(len(offer.Waiting))
	for i, e := range offer.Waiting {
		r := row(e)
		r.set(w.Rows, i, e)
		features.SetEntry(&in.Asked, i, r.Row, e)
		w.Starts[i], w.Sources[i], w.Held[i] = int32(e.Start), int32(e.Source), int32(e.Held)
		w.First[i], w.Resume[i], w.Named[i] = number(e.First), number(e.Resume), int32(e.Named)
	}
	a := &in.Ahead
	a.Count = int32(len(offer.Ahead))
	for i, p := range offer.Ahead {
		a.Rows[i], a.Starts[i], a.Behind[i] = int32(p.Row), int32(p.Start), int32(p.Behind)
		a.PromptLens[i], a.MaxPages[i] = int32(p.PromptLen), int32(p.MaxPages)
		if a.Short != nil {
			a.Short[i] = number(p.Short)
		}
		if a.Adapters != nil {
			a.Adapters[i] = p.Adapter.InSlot()
		}
		features.SetAhead(&in.Asked, i, p)
		a.Sources[i], a.Named[i], a.Held[i] = int32(p.Source), int32(p.Named), int32(p.Held)
	}
	return in
}

func number(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}

// verbsOf is the input of the context program: verbs of the tables, for all rows at once, in this order.
type verbsOf[Mask, Ints any] struct {
	Release Mask // bool[R]
	Open    Mask // bool[R]: start an empty sequence
	// Sources and Held, i32[R]: the row begins with the first Held tokens of another; -1 = it does not. Lazy, bool[R]:
	// it shares the partial page too.
	Sources, Held Ints
	Lazy          Mask
	Lens          Ints // i32[R]: to cut the sequence to; -1 = as it is
	Own           Mask // bool[R]: to have its partial page alone, so that it can be written to
	// Equals, i32[R], is the row whose pages at places EqualFrom to EqualTo-1 it takes over instead of its own,
	// which are equal; -1 = none.
	Equals, EqualFrom, EqualTo Ints
	// PromptLens and MaxPages, i32[R], are set as in rowsOf; -1 = as they are.
	PromptLens, MaxPages Ints
	// Counts, i32[R], is by how many pages the row becomes longer: those from place Starts, i32[R], of Named, i32[N],
	// on. Named is padded with -1.
	Named, Starts, Counts Ints
}

type (
	verbs      = verbsOf[*Node, *Node]
	VerbsInput = verbsOf[[]bool, []int32]
)

// NewVerbs makes verbs that do nothing.
func (p Sizes) NewVerbs() *VerbsInput {
	v := tree.Make[VerbsInput](p.Rows())
	v.Named = make([]int32, p.NamedLen())
	for _, list := range [][]int32{v.Sources, v.Lens, v.Equals, v.PromptLens, v.MaxPages, v.Named} {
		for row := range list {
			list[row] = schedule.None
		}
	}
	return &v
}

// scoreInputOf is the input of the score program: the next tokens of a row, T places.
type scoreInputOf[Int, Ints any] struct {
	Row    Int  // i32[]
	From   Int  // i32[]: the position of the first
	Count  Int  // i32[]: how many of the T there are
	Tokens Ints // i32[T]
	Next   Ints // i32[T]: the token after each
}

type (
	scoreInput = scoreInputOf[*Node, *Node]
	ScoreInput = scoreInputOf[int32, []int32]
)

// passInputOf is the input of the pass program: the next tokens of a row, T places, with positions and masks of the
// caller's.
type passInputOf[Int, Ints any] struct {
	Row       Int  // i32[]
	From      Int  // i32[]: the place in the sequence of the first
	Count     Int  // i32[]: how many of the T there are
	Tokens    Ints // i32[T]
	Positions Ints // i32[T]: for rotary embeddings
	// Mask, i32[T*W], is the places that each token sees, W words of 32 bits: see [attention.Options].
	Mask   Ints
	Wanted Ints // i32[PassLogits]: places of the tokens whose logits are returned, padded with -1
}

type (
	passInput = passInputOf[*Node, *Node]
	PassInput = passInputOf[int32, []int32]
)

// MaskWords is how many words of a mask a token has in the pass program.
func (p Sizes) MaskWords() int { return (p.PagesPerSeq*p.PageSize + 31) / 32 }

// NewPass makes the input of the pass program.
func (p Sizes) NewPass() *PassInput {
	in := &PassInput{Wanted: make([]int32, PassLogits)}
	t := p.StepTokens()
	in.Tokens, in.Positions, in.Mask = make([]int32, t), make([]int32, t), make([]int32, t*p.MaskWords())
	for i := range in.Wanted {
		in.Wanted[i] = schedule.None
	}
	return in
}

// loadInputOf is the input of the load program, but for the pages.
type loadInputOf[Int, Ints any] struct {
	Row    Int // i32[]: the row that gets the pages; -1 = none: they are kept as if a row had released them
	Open   Int // i32[]: 1 to start a sequence there
	Source Int // i32[]: the row whose first pages it shares; -1 = it begins with Named
	Held   Int // i32[]: tokens that it has of there, whole pages
	From   Int // i32[]: the place in the sequence of the first page that is given
	Length Int // i32[]: the tokens of the sequence with these pages; without a row the pages that are wanted
	Place  Int // i32[]: without a row, the place in its sequence of the first page that is wanted
	// i32[N]: the pages that the row begins with, padded with -1; without a row, pages that must not be taken
	Named Ints
}

type (
	loadInput = loadInputOf[*Node, *Node]
	LoadInput = loadInputOf[int32, []int32]
)

// NewLoad makes an input that names no pages.
func (p Sizes) NewLoad() *LoadInput {
	in := &LoadInput{Named: make([]int32, p.NamedLen())}
	for i := range in.Named {
		in.Named[i] = schedule.None
	}
	return in
}

// saveInputOf is the input of the save program.
type saveInputOf[Int, Ints any] struct {
	Row   Int  // i32[]; -1 = the pages that are named
	From  Int  // i32[]: the first page of the row to read
	Pages Ints // i32[K]
}

type (
	saveInput = saveInputOf[*Node, *Node]
	SaveInput = saveInputOf[int32, []int32]
)

// NewSave makes an input of pages, BlockPages at most.
func NewSave(pages ...int32) *SaveInput {
	in := &SaveInput{Row: schedule.None, Pages: make([]int32, BlockPages)}
	copy(in.Pages, pages)
	return in
}
