package engine

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/llama"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// deviceState is all that stays on the device between calls. It is donated to the program and comes back updated in
// place.
//
// R rows are the slots, then the rows of prompts that wait for their clones, the holders. S is the slots.
type deviceState struct {
	Pages     pagetable.Table  // reference counts of the P pages
	Sequences seqtable.Table   // R rows
	Queue     tokenqueue.Queue // at most one token a slot: what to decode next
	Rows      rowParams
	Caches    []*Node // one a layer, see attention.Layout
}

// rowParams is what a row was admitted with.
type rowParams struct {
	Sampling   sampling.Params // of R rows
	PromptLens *Node           // i32[R]: prompt tokens to run in this row; a slot samples from the last of them on
	MaxLens    *Node           // i32[R]: prompt and completion together end here
	// i32[R]: the pages that are sure for the row; what it does not hold yet of them is reserved for it
	MaxPages   *Node
	StopTokens *Node // i32[R, maxStopTokens], padded with -1
}

// input is what the host gives a call. The tokens of prompts lie in one array, of which several entries may read the
// same part: a prompt's start is where its position 0 is, or would be, for only positions not run yet are there.
type input struct {
	Release *Node // bool[R]: rows to free first
	Tokens  *Node // i32[Q]: tokens of the prompts
	Starts  *Node // i32[R]: starts of the prompts of rows that stand, where tokens of them are left
	Line    line
	Ahead   ahead
	Columns *Node // i32[]: after how many columns of output to return
	// EnoughFree is at how many free slots to return once the line is empty, i32[].
	EnoughFree *Node
}

// line is the completions that wait for a slot: A entries, first come, first served.
type line struct {
	Count    *Node // i32[]: how many of the A there are
	Sampling sampling.Params
	Starts   *Node // i32[A]: of the prompt
	// Rows of the following are as rowParams has them.
	PromptLens, MaxLens, MaxPages, StopTokens *Node
	Sources                                   *Node // i32[A]: the row of which it is a clone; -1 = none
	Held                                      *Node // i32[A]: tokens it takes over from there
	First                                     *Node // i32[A]: 1 where its pages are reserved with the holder
	// Resume, i32[A], is 1 where the sequence goes on after it was moved out: its source holds all of it but the token
	// drawn last, which is the one at place Held, and which is decoded, as it would have been.
	Resume *Node
}

// ahead is the prompts, or prefixes of prompts, to be run for clones: H entries, in order.
type ahead struct {
	Count      *Node // i32[]
	Rows       *Node // i32[H]: the row that the host chose
	Starts     *Node // i32[H]
	PromptLens *Node // i32[H]: tokens to run
	MaxPages   *Node // i32[H]: pages for these and for the first clone
	Behind     *Node // i32[H]: how many entries of the line came before it
	// Sources and Held, i32[H], are as those of the line: a prefix may begin as another's clone.
	Sources, Held *Node
}

// output is what one call tells the host. What a step draws is a column: C in all.
type output struct {
	Tokens    *Node // i32[C, S]: the token drawn for a slot
	Logprobs  *Node // f32[C, S]
	Processed *Node // f32[C, S]
	// i32[C, S]: whose token it is: an entry of the line, or A + row for a row that stood before the call; -1 = none
	Owners  *Node
	Finish  *Node // i32[C, S]: one of the finish codes
	Columns *Node // i32[]: columns filled
	Placed  *Node // i32[A]: the row that each entry of the line got; -1 = it waits
	Opened  *Node // i32[H]: 1 where the prompt got its row
	SeqLens *Node // i32[R], as the call leaves them

	PrefillSteps, DecodeSteps   *Node // i32[]
	PrefillTokens, DecodeTokens *Node // i32[]: tokens run by these steps
	Status                      seqtable.Status
	FreePages                   *Node // i32[C]: free pages after the step that drew a column
	MinFree                     *Node // i32[]: the fewest free pages after any step
	EndFree                     *Node // i32[]: free pages when the call ends
	Short                       *Node // i32[]: pages without which the sequences that run can not take their next step
	Rules                       *Node // i32[K]: violations of each rule, in debug mode; else nil
	Clock                       *Node // i64[6]: see newClock; nil where there is none
}

// Finish codes of a token.
const (
	running = iota
	finishedStop
	finishedLength
	finishedNaN
)

// graphs builds the programs' graphs for one plan and model.
type graphs struct {
	plan      Plan
	model     models.Config
	arrays    []llama.Array
	dtype     dtypes.DType // of the hidden states
	zeroPages bool
	debug     bool
}

func (gr *graphs) newState(g *Graph) deviceState {
	rows := gr.plan.rows()
	i32 := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Int32, dims...)) }
	f32 := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Float32, dims...)) }
	st := deviceState{
		Pages:     pagetable.New(g, gr.plan.Pages),
		Sequences: seqtable.New(g, rows, gr.plan.PagesPerSeq, gr.plan.PageSize),
		Queue:     tokenqueue.New(g, gr.plan.slots),
		Rows: rowParams{
			Sampling: sampling.Params{Temperature: f32(rows), TopP: f32(rows), MinP: f32(rows), TopK: i32(rows),
				Key: Zeros(g, shapes.Make(dtypes.Uint32, rows, 2))},
			PromptLens: i32(rows), MaxLens: i32(rows), MaxPages: i32(rows), StopTokens: i32(rows, maxStopTokens),
		},
	}
	st.Caches = gr.newCaches(g)
	return st
}

// newInput makes a tree of nodes that carry the shapes of the input's leaves, and nothing else.
func (gr *graphs) newInput(g *Graph) input {
	p := gr.plan
	rows, a, h := p.rows(), p.lineLen(), p.aheadLen()
	i32 := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Int32, dims...)) }
	f32 := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Float32, dims...)) }
	return input{
		Release: Zeros(g, shapes.Make(dtypes.Bool, rows)), Tokens: i32(p.promptTokens()), Starts: i32(rows),
		Line: line{
			Count: i32(), Sampling: sampling.Params{Temperature: f32(a), TopP: f32(a), MinP: f32(a), TopK: i32(a),
				Key: Zeros(g, shapes.Make(dtypes.Uint32, a, 2))},
			Starts: i32(a), PromptLens: i32(a), MaxLens: i32(a), MaxPages: i32(a), StopTokens: i32(a, maxStopTokens),
			Sources: i32(a), Held: i32(a), First: i32(a), Resume: i32(a),
		},
		Ahead: ahead{Count: i32(), Rows: i32(h), Starts: i32(h), PromptLens: i32(h), MaxPages: i32(h), Behind: i32(h),
			Sources: i32(h), Held: i32(h)},
		Columns: i32(), EnoughFree: i32(),
	}
}

func (gr *graphs) newOutput(g *Graph) output {
	s, columns := gr.plan.slots, gr.plan.MaxRounds
	none := func(dims ...int) *Node { return FillScalar(g, shapes.Make(dtypes.Int32, dims...), -1) }
	i32 := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Int32, dims...)) }
	f32 := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Float32, dims...)) }
	out := output{
		Tokens: i32(columns, s), Logprobs: f32(columns, s), Processed: f32(columns, s), Owners: none(columns, s),
		Finish:  i32(columns, s),
		Columns: integer(g, 0), Placed: none(gr.plan.lineLen()), Opened: i32(gr.plan.aheadLen()),
		SeqLens:      i32(gr.plan.rows()),
		PrefillSteps: integer(g, 0), DecodeSteps: integer(g, 0), PrefillTokens: integer(g, 0),
		DecodeTokens: integer(g, 0),
		Status:       seqtable.NewStatus(g), FreePages: i32(columns), MinFree: integer(g, gr.plan.Pages),
		EndFree: integer(g, 0), Short: integer(g, 0),
	}
	out.Clock = newClock(g)
	if gr.debug {
		out.Rules = Zeros(g, shapes.Make(dtypes.Int32, len(seqtable.Rules)))
	}
	return out
}
