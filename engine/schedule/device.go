package schedule

import (
	"errors"
	"time"
)

// Device is what the scheduler asks of the device. Any error ends the run. The run's goroutine makes all calls.
type Device interface {
	// Run runs the device until there is nothing to do, the output is full, or only the host can continue. If what the
	// device did is wrong, it returns the output together with the error.
	Run(in *Input) (*Output, Spent, error)
	// Save starts to copy the first tokens of a row to the host. The row may be freed as soon as Save returns.
	Save(row, tokens int) (*Pages, error)
	// Load starts a sequence in an unused row with saved pages. It returns the pages that it took, in order.
	Load(row int, pages *Pages, from Origin) (taken []int32, err error)
	// Keep starts to copy at most BlockPages pages to the host. Others may take them as soon as Keep returns.
	Keep(pages []int32) (Block, error)
	// Restore copies pages from to to-1 of a block into free pages, which stay free, and returns these. The first is at
	// the given place of its sequence. Restore takes no page of hold.
	Restore(b Block, from, to, place int, hold []int32) (pages []int32, err error)
	// Stage starts to copy blocks to the device during the next call, and gives up others that were staged.
	Stage(blocks []Block)
	// IsStaged reports whether the first blocks, as many as may be staged, are on the device or on their way.
	IsStaged(blocks []Block) bool
	// Bytes returns the host memory that the pages of a number of tokens take.
	Bytes(tokens int) int64
}

// Stops is the device's room for the stops and adapters of requests, which is limited.
type Stops interface {
	// Hold makes room for the stops and the adapter of a request. It returns false if there is none now.
	Hold(r *Request) bool
	// Release gives up the room that a request holds.
	Release(r *Request)
}

// Pages are the keys and values of the first tokens of a sequence on the host.
type Pages struct {
	Tokens int
	Blocks []Block
}

// Block is a pointer to Sizes.BlockPages pages on the host, or on their way there. Only the device looks inside.
type Block any

// Origin is what a loaded sequence starts with, if its first pages are on the device: named pages, or pages of the row
// that it becomes a clone of.
type Origin struct {
	Named []int32
	Row   int // None: nowhere
	Pages int // whole pages that the sequence shares
}

// namedOrigin returns the origin of a sequence that begins with named pages.
func namedOrigin(pages []int32) Origin { return Origin{Named: pages, Row: None, Pages: len(pages)} }

// Input is what the scheduler offers in one call. One array has the tokens of all prompts, and several entries may read
// the same part. A start is the index of position 0 of a prompt, and may be negative: the array has only tokens that
// did not run yet.
type Input struct {
	Release []bool  // by row: rows to free first
	Tokens  []int32 // of prompts
	Named   []int32 // pages that entries and prompts begin with, held until the call ends
	Starts  []int32 // by row: starts of prompts that rows have not finished
	Waiting []Entry
	Ahead   []Prompt
	// The call returns after Columns columns of output, or, if nothing waits, as soon as EnoughFree slots are free.
	Columns, EnoughFree int
}

// Entry is a sequence that waits for a slot.
type Entry struct {
	Request    *Request
	Generation int
	Start      int // of the prompt
	PromptLen  int // tokens to run before it generates
	MaxPages   int // guaranteed to it
	Source     int // the row whose clone it is, or None
	Named      int // the index in Input.Named of the pages that it begins with, or None
	Held       int // tokens that it takes over from there
	// First states that the source has pages reserved for this entry.
	First bool
	// Resume reports that the sequence continues after it was swapped out: its source holds all of it except the token
	// generated last, which is at place Held. StopStates are the stop states that its row had; nil if there are none.
	Resume     bool
	StopStates []int32
	// Drawn are the tokens that a resumed sequence has generated, if Request.Recalls.
	Drawn []int32
}

// Prompt is a prompt or a prefix to be run for clones, in a row that the scheduler chose.
type Prompt struct {
	Row, Start int
	PromptLen  int // tokens to run; if it is scored, the array also has the token after them
	MaxPages   int // pages for these tokens, and for the first clone
	Behind     int // how many waiting entries come before it
	Score      int // see [Request]
	Variant
	// See Entry.
	Source, Named, Held int
}

// OutputOf is what a call returns, declared once for the device and for the host. The tokens of a step are a column:
// there are C columns for S slots. A is the number of waiting entries, H of prompts ahead, R of rows, P of pages.
type OutputOf[Int, Ints, Floats any] struct {
	Tokens    Ints   // i32[C, S]: the token generated for a slot
	Logprobs  Floats // f32[C, S]
	Processed Floats // f32[C, S]
	// i32[C, S]: the owner of the token: a waiting entry, or A + row for a row used before the call; -1 = none
	Owners  Ints
	Finish  Ints // i32[C, S]: a [Finish]
	Columns Int  // i32[]: columns filled
	Placed  Ints // i32[A]: the row that each waiting entry got; -1 = none
	Opened  Ints // i32[H]: 1 if the prompt got its row
	SeqLens Ints // i32[R]: lengths of rows when the call ends
	Pages   Ints // i32[P]: see [PageFate]; without a prefix cache i32[1]
	Scores  ScoresOf[Ints, Floats]
	// TopIDs and TopLogprobs, i32[C, S, W] and f32[C, S, W], are the likeliest tokens with each generated token; nil if
	// no request may ask for them.
	TopIDs      Ints
	TopLogprobs Floats
	// Measures are f32[C, S] each: the measures that the program reports of the distribution of each generated token;
	// nil for measures that it lacks.
	Measures [NumMeasures]Floats
	// Experts, i32[C, S, W], are the experts that the token before each generated one took, two in a number, the first
	// in its lower half; [NoExpert] fills the last number. nil if they are not reported.
	Experts Ints
	// Hidden, i32[C, S, W], are the bytes of hidden states of the token before each generated one. nil if they are not
	// reported.
	Hidden Ints
	States StatesOf[Ints, Floats]
	// StopStates, i32[R, K], are the states of the stops of rows; nil if the device has none.
	StopStates Ints

	PrefillSteps, DecodeSteps   Int  // i32[]
	PrefillTokens, DecodeTokens Int  // i32[]: tokens run by these steps
	FreePages                   Ints // i32[C]: free pages after the step that generated a column
	MinFree                     Int  // i32[]: the fewest free pages after any step
	EndFree                     Int  // i32[]: free pages when the call ends
	Drafts                      Ints // i32[2]: tokens drafted, and accepted; nil if none are drafted
	Short                       Int  // i32[]: pages that the running sequences lack for their next step
}

// ScoresOf are the scores of prompt tokens that a call computed, in K places; nil if no request may ask for them.
type ScoresOf[Ints, Floats any] struct {
	Count     Ints   // i32[1]: how many places are used
	Owners    Ints   // i32[K]: the owner of the prompt, as in OutputOf
	Positions Ints   // i32[K]: the position before the scored token
	Logprobs  Floats // f32[K]: the score
	// The likeliest tokens there: i32[K, W], f32[K, W].
	TopIDs      Ints
	TopLogprobs Floats
}

// StatesOf are the hidden states of the last tokens of prompts that a call ran, in K places; nil if they are not
// reported. A completion that continues after it was swapped out has another one, of a later token.
type StatesOf[Ints, Floats any] struct {
	Count   Ints   // i32[1]: how many places are used
	Owners  Ints   // i32[K]: the owner of the prompt, as in OutputOf
	Numbers Floats // f32[K, H]
}

// Scored is ScoresOf on the host.
type Scored = ScoresOf[[]int32, []float32]

func scoredCount(s *Scored) int {
	if len(s.Count) == 0 {
		return 0
	}
	return int(s.Count[0])
}

// NoExpert is no expert: the numbers of experts are less.
const NoExpert = 1<<15 - 1

// Measure is a number that a program may report with each generated token, in addition to its log-probabilities. The
// places in the output of a call, the features of programs and the completions follow from this list.
type Measure int

const (
	// Entropy is the entropy of the model's own distribution, before temperature and filters, in nats.
	Entropy Measure = iota
	NumMeasures
)

// MeasureNames are the names of the measures, of their features and of their columns in an output.
var MeasureNames = [NumMeasures]string{Entropy: "entropy"}

func (m Measure) String() string { return MeasureNames[m] }

// Output is OutputOf on the host.
type Output = OutputOf[int32, []int32, []float32]

// Spent is how long a call kept the device busy. Prefill and Decode are 0 if the device has no clock of its own, which
// Clocked reports.
type Spent struct {
	Device, Prefill, Decode time.Duration
	Clocked                 bool
}

// Errors of a run.
var (
	// ErrStalled reports that a call had work and did none of it: a bug of the engine.
	ErrStalled = errors.New("the engine makes no progress, please report this")
	// ErrStops reports that the device ended a completion at a stop string that its text does not have, or missed one:
	// a bug of the engine.
	ErrStops = errors.New("device and host find a stop string in other places, please report this")
	// ErrPagesLost reports that pages are not free at the end of a run, when nothing holds them: a bug of the engine.
	ErrPagesLost = errors.New("pages were lost, please report this")
)
