// Package feature holds what rows may ask for that needs arrays of its own on the device: penalties, masks, biases,
// filters, likeliest tokens, bounds of reasoning, DRY.
//
// A feature is one file. It owns a field of [State], which stays on the device, and a field of [Asked], which the host
// gives with the rows that it offers. The program run has the features of a [List] and calls each of them at the same
// points of a step. A program without a feature has neither its arrays nor its work. Rows that do not ask for a feature
// sample the same tokens with it and without.
package feature

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/sampling"
)

// feature is one of a program's features. Those that have nothing to do at a point embed [idle].
type feature interface {
	// bytes is the memory that its state takes.
	bytes() int64
	// begin makes its state, all zero.
	begin(g *Graph, st *State)
	// ask makes its arrays of [Asked], in which no row asks for anything.
	ask(in *Asked)
	// set fills in what the row of entry i asks for, setAhead what the i-th prompt ahead does.
	set(in *Asked, i int, row Row, e schedule.Entry)
	setAhead(in *Asked, i int, p schedule.Prompt)
	// sync updates its state to what the host has when a call starts.
	sync(st *State, in Input)
	// admit makes the state of the slots that entries get.
	admit(st *State, in Input, a Admission)
	// process adds what changes the logits of rows.
	process(st State, t Table, rows Samplers, by *Processors)
	// drew updates its state with the tokens that rows sampled, i32[D].
	drew(st *State, in Input, rows Samplers, tokens *Node)
	// noDrafts reports which slots may not have drafts, bool[S]; nil for none. Slots that sample with counts or
	// histories of their tokens may not: each draft would need its own.
	noDrafts(st State) *Node
}

// idle has nothing to do.
type idle struct{}

func (idle) setAhead(*Asked, int, schedule.Prompt)       {}
func (idle) sync(*State, Input)                          {}
func (idle) process(State, Table, Samplers, *Processors) {}
func (idle) drew(*State, Input, Samplers, *Node)         {}
func (idle) noDrafts(State) *Node                        { return nil }

// Sizes are what features must know of a program.
type Sizes struct {
	schedule.Sizes
	PrefillTokens int // prompt tokens of a step
	Features      Set // of the program run
	Vocabulary    int // tokens
	Masks         MaskSizes
	History       int          // tokens of a sequence that DRY looks at, the last ones
	Routes        int          // experts that a token takes in all layers together; 0 unless they are reported
	Hidden        HiddenStates // that are reported; of no layer unless they are
	HiddenSize    int          // numbers of a hidden state; 0 unless those after prompts are reported
}

// StepTokens is T, the most tokens of a step.
func (z Sizes) StepTokens() int {
	if z.Mixed {
		return z.PrefillTokens + z.Slots
	}
	return max(z.PrefillTokens, z.Slots)
}

// words is how many u32 hold a bit for each token of the vocabulary.
func (z Sizes) words() int { return (z.Vocabulary + 31) / 32 }

// Admission is what is admitted.
type Admission struct {
	Entries *Node // bool[A]: waiting entries
	Rows    *Node // i32[A]: the slots they get
	Ahead   *Node // bool[H]: prompts to run ahead
	// AheadRows i32[H] are the rows of these.
	AheadRows *Node
}

// slots returns the slots that entries get, i32[A]; n for entries that are not admitted.
func (a Admission) slots(n int) *Node { return chosen(a.Rows, a.Entries, n) }

// chosen returns rows, i32[N], if chosen, bool[N], is set; n otherwise.
func chosen(rows, chosen *Node, n int) *Node {
	return Where(chosen, rows, FillScalar(rows.Graph(), rows.Shape(), float64(n)))
}

// Table is what the tables have of R rows.
type Table struct {
	Used       *Node // bool[R]
	Owners     *Node // i32[R]
	PromptLens *Node // i32[R]
	MinLens    *Node // i32[R]: no stop ends a completion at a position before it
}

// Early reports which rows sample a token at which no stop may end their completion, bool[D].
func (t Table) Early(rows Samplers) *Node {
	return LessThan(rows.Positions, take(t.MinLens, rows.Slots))
}

// Samplers are the rows of a step that sample a token: the first Count of D.
type Samplers struct {
	Slots     *Node       // i32[D]; -1 from Count on
	Positions *Node       // i32[D]: of the token to be sampled
	Count     *Node       // i32[]
	Behind    *SlotStates // their states after drafts; nil: the states of their slots
}

// drew returns the slots of rows that sampled a token, i32[D]; n for other rows. zero is i32[D].
func (rows Samplers) drew(tokens, zero *Node, n int) *Node {
	valid := LogicalAnd(GreaterOrEqual(rows.Slots, zero), GreaterOrEqual(tokens, zero))
	return chosen(rows.Slots, valid, n)
}

// Processors are what changes the logits of rows.
type Processors struct {
	sampling.Processors
	Ends *Node // bool[D]: rows with masks of nothing but tokens that end their completions; nil without masks
}

// take returns rows of x by int32 indices; negative ones read row 0.
func take(x, indices *Node) *Node {
	return Gather(x, InsertAxes(Max(indices, ZerosLike(indices)), -1))
}

func integer(g *Graph, value int) *Node { return Scalar(g, dtypes.Int32, float64(value)) }

func zeros(g *Graph, dtype dtypes.DType, dims ...int) *Node {
	return Zeros(g, shapes.Make(dtype, dims...))
}

// MaskSizes are the sizes of what masks take.
type MaskSizes struct {
	masking.Sizes
	Texts int // bytes of all tokens
}

// SlotStates is the part of the state of n rows that depends on their tokens and decides what they may sample. The
// fields of features that a program lacks are nil.
type SlotStates struct {
	Masks      *Node // i32[n, stopping.Lanes]: see masks
	Left, Open *Node // i32[n]: see thinkingOf
}

// walker is a feature that drafts are walked through: what a row may sample depends on its tokens so far.
type walker interface {
	feature
	// slotStates fills in the states of slots i32[n], zeroStates zeros for n rows.
	slotStates(st State, slots *Node, s *SlotStates)
	zeroStates(g *Graph, n int, s *SlotStates)
	// walk advances slots i32[n] by tokens i32[n], if able, bool[n]. It returns the slots that may sample their tokens,
	// and for which the device knows what they may sample next.
	walk(st State, in Input, slots, tokens, able *Node, s *SlotStates) *Node
	// only returns the only token that slots i32[n] may sample next, i32[n]; -1 if there are several.
	only(st State, slots *Node, s SlotStates) *Node
}
