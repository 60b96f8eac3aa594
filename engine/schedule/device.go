package schedule

import (
	"errors"
	"time"
)

// Sizes are what the engine settled on, as far as the scheduler goes by it. Rows of the sequence table are the slots,
// then the prefix rows, then the contexts and a row in which their scores are computed.
type Sizes struct {
	Slots       int // rows that decode, of which MaxSeqs are used
	MaxSeqs     int
	PrefixRows  int // rows of prompts and prefixes that completions start from
	Contexts    int
	Pages       int
	PageSize    int
	PagesPerSeq int  // pages that a sequence may have
	MaxRounds   int  // columns of output that a call returns at most
	PromptLimit int  // prompt tokens that a call takes
	Paged       bool // pages can be shared
	PrefixCache bool // pages have names, and serve all prompts that begin with them
	// NameDrawn says that a page of drawn tokens has the bytes that the same tokens have in a prompt: then it has a
	// name too.
	NameDrawn bool
	// States says that a page has states of layers too, those behind the last of its tokens that was run. So a row
	// begins with whole pages of another one, or with all that it has run.
	States     bool
	Mixed      bool // prompt steps run the sequences that decode too
	Reserve    bool // a sequence is admitted with all pages that it may need; else with those of its prompt
	BlockPages int  // pages that are copied to the host and back together
	Staged     int  // blocks that may be on their way to the device beside a call
}

// Rows is how many rows the sequence table has.
func (s Sizes) Rows() int {
	if s.Contexts == 0 {
		return s.FirstContext()
	}
	return s.ScoreRow() + 1
}

// ScoreRow is the row in which scores of contexts are computed, if there are contexts.
func (s Sizes) ScoreRow() int { return s.FirstContext() + s.Contexts }

// FirstContext is the first row of contexts.
func (s Sizes) FirstContext() int { return s.Slots + s.PrefixRows }

// WaitingLen is how many waiting sequences a call takes.
func (s Sizes) WaitingLen() int { return s.Slots }

// AheadLen is how many prompts and prefixes a call takes that run ahead of their clones.
func (s Sizes) AheadLen() int { return max(1, s.PrefixRows) }

// NamedLen is how many pages a call takes that entries begin with.
func (s Sizes) NamedLen() int {
	if !s.PrefixCache {
		return 1
	}
	return max(s.PagesPerSeq, s.PromptLimit/s.PageSize)
}

func (s Sizes) pages(tokens int) int { return ceilDiv(tokens, s.PageSize) }

// Nobody is an owner, as of Output.Owners, who is nobody: of pages that were taken and mean nothing.
func (s Sizes) Nobody() int { return s.WaitingLen() + s.Rows() }

// None stands for no row.
const None = -1

// Device is what the scheduler asks of the device. An error of it ends the run.
type Device interface {
	// Run runs the device until there is nothing to do, the output is full, or only the host can go on. Where what the
	// device did is wrong, it returns the output beside the error.
	Run(in *Input) (*Output, Spent, error)
	// Save begins to copy the first tokens of a row to the host. The row may go as soon as Save returns.
	Save(row, tokens int) (*Pages, error)
	// Load begins a sequence in an unused row with what was saved. It returns the pages that it took, in order.
	Load(row int, pages *Pages, from Origin) (taken []int32, err error)
	// Keep begins to copy BlockPages pages at most to the host. They may be taken as soon as Keep returns.
	Keep(pages []int32) (Block, error)
	// Restore puts pages from to to-1 of a block into free pages, which stay free, and returns these. The first is at
	// place place of its sequence. Those of hold are not taken.
	Restore(b Block, from, to, place int, hold []int32) (pages []int32, err error)
	// Stage begins to copy blocks to the device beside the next call, and gives up others that were staged.
	Stage(blocks []Block)
	// IsStaged says that the first of blocks are on the device or on their way, as many as may be.
	IsStaged(blocks []Block) bool
	// Bytes is the host memory that the pages of so many tokens take.
	Bytes(tokens int) int64
}

// Stops is where the device has the stops of requests, which it has limited room for.
type Stops interface {
	// Hold makes room for those of a request. It returns false where there is none now.
	Hold(r *Request) bool
	// Release gives up the room of a request that is held.
	Release(r *Request)
}

// Pages are the keys and values of the first tokens of a sequence on the host.
type Pages struct {
	Tokens int
	Blocks []Block
}

// Block is a pointer to Sizes.BlockPages pages on the host, or on their way there. It is the device's.
type Block any

// Origin is where a sequence that is loaded begins, if its first pages are on the device: with named pages, or as the
// clone of a row.
type Origin struct {
	Named []int32
	Row   int // None: nowhere
	Pages int // whole pages that it shares
}

// named is an origin of pages that are on the device.
func named(pages []int32) Origin { return Origin{Named: pages, Row: None, Pages: len(pages)} }

// Input is what the scheduler offers in one call. The tokens of prompts lie in one array, of which several entries may
// read the same part: a start is where position 0 of the prompt is, or would be, since only positions that did not run
// yet are there.
type Input struct {
	Release []bool  // by row: rows to free first
	Tokens  []int32 // of prompts
	Named   []int32 // pages that entries and prompts begin with: held until the call ends
	Starts  []int32 // by row: starts of the prompts that rows have tokens left of
	Waiting []Entry
	Ahead   []Prompt
	// Columns is after how many columns of output to return, EnoughFree at how many free slots once nothing waits.
	Columns, EnoughFree int
}

// Entry is a sequence that waits for a slot.
type Entry struct {
	Request    *Request
	Generation int
	Start      int // of the prompt
	PromptLen  int // tokens to run before it draws
	MaxPages   int // that are sure for it
	Source     int // the row of which it is a clone, or None
	Named      int // the place in Input.Named of the pages that it begins with, or None
	Held       int // tokens that it takes over from there
	First      bool
	// Resume says that it goes on after it was swapped out: its source holds all of it but the token drawn last, which
	// is the one at place Held. StopStates are then those of its row when it left it, nil if there are none.
	Resume     bool
	StopStates []int32
	// Drawn are then the tokens that it has drawn, where Request.Recalls.
	Drawn []int32
}

// Prompt is a prompt or a prefix to be run for clones, in a row that the scheduler chose.
type Prompt struct {
	Row, Start int
	PromptLen  int // tokens to run; where it is scored, the one behind them lies there too
	MaxPages   int // pages for these, and for the first clone
	Behind     int // how many waiting entries come before it
	Score      int // as of a [Request]
	Short      bool
	// As of an entry.
	Source, Named, Held int
}

// OutputOf is what a call tells the scheduler: declared here once, for the device and for the host. What a step draws
// is a column: there are C, for S slots. A is the number of waiting entries, H that of prompts ahead, R that of rows.
type OutputOf[Int, Ints, Floats any] struct {
	Tokens    Ints   // i32[C, S]: the token drawn for a slot
	Logprobs  Floats // f32[C, S]
	Processed Floats // f32[C, S]
	// i32[C, S]: whose token it is: a waiting entry, or A + row for a row that stood before the call; -1 = none
	Owners  Ints
	Finish  Ints // i32[C, S]: a [Finish]
	Columns Int  // i32[]: columns filled
	Placed  Ints // i32[A]: the row that each waiting entry got; -1 = none
	Opened  Ints // i32[H]: 1 where the prompt got its row
	SeqLens Ints // i32[R], as the call leaves them
	Pages   Ints // i32[P]: see [PageFate]; without a prefix cache i32[1]
	Scores  ScoresOf[Ints, Floats]
	// TopIDs and TopLogprobs, i32[C, S, W] and f32[C, S, W], are the likeliest tokens with each that was drawn; nil
	// where nobody may ask for them.
	TopIDs      Ints
	TopLogprobs Floats
	// StopStates, i32[R, K], is what the device knows of the stops of rows; nil where that is nothing.
	StopStates Ints

	PrefillSteps, DecodeSteps   Int  // i32[]
	PrefillTokens, DecodeTokens Int  // i32[]: tokens run by these steps
	FreePages                   Ints // i32[C]: free pages after the step that drew a column
	MinFree                     Int  // i32[]: the fewest free pages after any step
	EndFree                     Int  // i32[]: free pages when the call ends
	Drafts                      Ints // i32[2]: tokens drafted, and of these drawn; nil where none are drafted
	Short                       Int  // i32[]: pages without which the sequences that run can not take their next step
}

// ScoresOf is what a call scored of prompts: in K places, or nil where nobody may ask for it.
type ScoresOf[Ints, Floats any] struct {
	Count     Ints   // i32[1]: how many of the places
	Owners    Ints   // i32[K]: whose prompt it is, as in OutputOf
	Positions Ints   // i32[K]: of the token behind which the next one of the prompt is scored
	Logprobs  Floats // f32[K]: of the next one
	// The likeliest tokens there: i32[K, W], f32[K, W].
	TopIDs      Ints
	TopLogprobs Floats
}

// Scored is what a call scored, on the host.
type Scored = ScoresOf[[]int32, []float32]

func scoredCount(s *Scored) int {
	if len(s.Count) == 0 {
		return 0
	}
	return int(s.Count[0])
}

// PageFate reads an element of Output.Pages: by whom the page was taken in the call, an owner as of Output.Owners or -1
// for nobody, for which place of its sequence, and whether somebody holds it when the call ends.
func (s Sizes) PageFate(v int32) (owner, place int, held bool) {
	if v < 0 {
		return -1, 0, v == -1
	}
	by := int(v >> 1)
	return by / s.PagesPerSeq, by % s.PagesPerSeq, v&1 == 1
}

// Output is what a call tells the scheduler, on the host.
type Output = OutputOf[int32, []int32, []float32]

// Spent is how long a call kept the device. Prefill and Decode are 0 where it has no clock of its own.
type Spent struct{ Device, Prefill, Decode time.Duration }

// Finish says how a sequence stands after a token.
type Finish int32

const (
	Running      Finish = iota
	AtStopToken         // the token, or a sequence of tokens that ends with it, ends the completion
	AtLength            // it is as long as it may be
	NotANumber          // the scores were not numbers: there is no token
	AtStopString        // the text contains one that ends it; the host says so where Request.OnDevice is false
)

// Errors of a run.
var (
	// ErrStalled says that a call had work and did none of it: a fault of the engine.
	ErrStalled = errors.New("the engine makes no progress, please report this")
	// ErrStops says that the device ended a completion at a stop string that its text does not have, or went on past
	// one: a fault of the engine.
	ErrStops = errors.New("device and host find a stop string in other places, please report this")
	// ErrPagesLost says that pages were not free at the end of a run, when nothing holds them: a fault of the engine.
	ErrPagesLost = errors.New("pages were lost, please report this")
)

func ceilDiv(a, b int) int { return (a + b - 1) / b }
