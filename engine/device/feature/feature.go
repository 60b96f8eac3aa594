// Package feature holds what rows may ask for that needs arrays of its own on the device: penalties, masks, biases,
// filters, likeliest tokens, bounds of reasoning, DRY.
//
// A feature is one file. It owns a field of [State], which stays on the device, and one of [Asked], which the host
// gives with the rows that it offers. The program run has the features of a [List] and calls each of them at the same
// points of a step; what lacks a feature has neither its arrays nor its work. Rows that do not ask for a feature draw
// the same with it and without.
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
	// ask makes what the host gives of it: nothing is asked for.
	ask(in *Asked)
	// set fills in what the row of entry i asks for, setAhead what the i-th prompt ahead does.
	set(in *Asked, i int, row Row, e schedule.Entry)
	setAhead(in *Asked, i int, p schedule.Prompt)
	// sync brings its state to where the host has it when a call begins.
	sync(st *State, in Input)
	// admit makes the state of the slots that entries get.
	admit(st *State, in Input, a Admission)
	// process adds what changes the logits of rows.
	process(st State, t Table, rows Samplers, by *Processors)
	// drew takes its state through the tokens that rows drew, i32[D].
	drew(st *State, in Input, rows Samplers, tokens *Node)
	// noDrafts says which slots may not have drafts, bool[S]; nil for none. Those that draw from counts or histories of
	// their tokens may not: they would need these for each draft.
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
	History       int // tokens of a sequence that DRY looks at, the last ones
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

// slots are those that entries get, i32[A]; n for the others.
func (a Admission) slots(n int) *Node { return chosen(a.Rows, a.Entries, n) }

// chosen are rows i32[N] where chosen, bool[N]; n elsewhere.
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

// Early says which rows draw a token that no stop may end their completion at, bool[D].
func (t Table) Early(rows Samplers) *Node {
	return LessThan(rows.Positions, take(t.MinLens, rows.Slots))
}

// Samplers are the rows of a step that draw a token: the first Count of D.
type Samplers struct {
	Slots     *Node     // i32[D]; -1 from Count on
	Positions *Node     // i32[D]: of the token to be drawn
	Count     *Node     // i32[]
	Behind    *Standing // where they stand behind drafts; nil: as their slots do
}

// drew are the slots of rows that drew a token, i32[D]; n for the others. zero is i32[D].
func (rows Samplers) drew(tokens, zero *Node, n int) *Node {
	valid := LogicalAnd(GreaterOrEqual(rows.Slots, zero), GreaterOrEqual(tokens, zero))
	return chosen(rows.Slots, valid, n)
}

// Processors are those of the logits of rows.
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

// Standing is where n rows stand with what they draw from that the tokens before decide. The fields of features that a
// program lacks are nil.
type Standing struct {
	Masks      *Node // i32[n, stopping.Lanes]: see masks
	Left, Open *Node // i32[n]: see thinkingOf
}

// walker is a feature that drafts are walked through: what a row may draw depends on where the tokens before took it.
type walker interface {
	feature
	// stand fills in where slots i32[n] stand, noStanding zeros for n rows.
	stand(st State, slots *Node, s *Standing)
	noStanding(g *Graph, n int, s *Standing)
	// walk takes slots i32[n] through tokens i32[n], those that are able to draw them, bool[n]; it returns the ones
	// that are, and of which the device knows what they may draw behind them.
	walk(st State, in Input, slots, tokens, able *Node, s *Standing) *Node
	// only is the one token that slots i32[n] may draw where they stand, i32[n]; -1 if there are several.
	only(st State, slots *Node, s Standing) *Node
}
