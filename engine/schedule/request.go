package schedule

import (
	"slices"
	"sync/atomic"

	"github.com/quire/quire/prefix"
)

// Request asks for completions of one prompt.
type Request struct {
	Tokens []int32 // the whole prompt, at least one token
	N      int     // completions, numbered First, First+1, ...
	First  int
	MaxLen int      // tokens of prompt and completion together
	Stop   []string // a completion ends where its text contains one of these
	// OnDevice says that the device finds these, in the step that draws their last token. Else the drain does, after
	// the call.
	OnDevice bool
	// IncludeStop leaves the stop string in the text, and the text of the token that ended the completion. KeepSpecial
	// leaves special tokens there.
	IncludeStop, KeepSpecial bool
	// MinTokens is how many tokens a completion has before a stop string ends it.
	MinTokens int
	// Context is the row of the context that the prompt begins with, one of Config.Contexts; None without.
	Context int
	// Recalls says that the device wants to hear of the tokens that a completion has drawn when it goes on after it was
	// swapped out.
	Recalls bool
	// Leaf says that nothing goes on from its completions: their pages get no names.
	Leaf bool
	// Short says that keys are those of the short divisors of a longrope, where others have the long ones.
	Short bool
	// Score says that the prompt is scored, with so many of the likeliest tokens at each place and one; 0: it is not.
	Score int
	// Tops is how many of the likeliest tokens are told with each that is drawn.
	Tops int
	// ScoresOnly says that the prompt is all that is wanted: the one token that is drawn is dropped.
	ScoresOnly bool
	// Told is told of a completion after each call that drew some of it; nil for nobody. The drain calls it. Calls are
	// short while somebody is told.
	Told func(Partial)
	Tag  any   // the caller's
	Err  error // why it can't run: it comes back as a completion

	chain []prefix.Hash // the pages of the prompt that others may share
}

// surePages is how many pages a completion is admitted with.
func (s Sizes) surePages(r *Request) int {
	all := s.pages(r.MaxLen - 1) // the last token is drawn, but never fed
	if s.Reserve {
		return all
	}
	return min(all, s.pages(len(r.Tokens))+1)
}

// pagesAhead is the pages for a prefix row of held tokens and its first clone, a completion of r: the clone shares full
// pages only.
func (s Sizes) pagesAhead(r *Request, held int) int {
	return s.pages(held) + s.surePages(r) - s.takes(r, held)/s.PageSize
}

// Partial is a completion as far as it was drawn. What is in it stays: the text is without an end that may become a
// stop string.
type Partial struct {
	Generation int
	Tokens     []int32
	Text       string
}

// Completion is a completion that ended, or a request that was refused.
type Completion struct {
	Request                     *Request
	Generation                  int
	Tokens                      []int32
	Text                        string
	Logprobs, ProcessedLogprobs []float32
	// TopIDs and TopLogprobs are of the likeliest tokens with each of Tokens; nil where none are asked for.
	TopIDs      [][]int32
	TopLogprobs [][]float32
	Prompt      *Scores // nil where the prompt is not scored
	Finish      Finish
	Refused     bool // Request.Err says why; it stands for all completions of the request
}

// Context is a row that no completion has, and that requests may start from.
type Context struct {
	Row      int
	Tokens   []int32 // that it is to have: those that were run, then those to be run
	Done     int     // tokens that were run
	MaxPages int     // held by it or reserved for it
}

// group is a sequence group: a request on its way.
//
// A sequence runs its prompt from the beginning, or starts as a clone of a prefix row that has run a part of it: full
// pages are shared, a partial one is copied, and the clone runs the rest: the last token at least, from which its first
// token is drawn.
type group struct {
	*Request
	next     int        // completions admitted so far
	begin    int        // next when source was decided
	assigned bool       // source is decided
	source   *prefixRow // nil: from the beginning
	held     int        // tokens taken over from it
	passed   int        // groups that came later and were put before it in the waiting queue
	inPlace  bool       // its stops are on the device
	ended    int        // completions that ended
	scores   *Scores    // of the prompt; nil where it is not scored
	from     takenFrom  // of those tokens that are taken over
}

// prefixRow is a row that runs a prompt, or a part that several have in common, for sequences that start as its clones.
// It goes when the last of them has started: its full pages have names, by which others begin with them. The row of a
// context is one that stays.
type prefixRow struct {
	row    int
	tokens []int32
	chain  []prefix.Hash // of its full pages; where it is scored also of one that lacks its last token
	source *prefixRow    // itself a clone, until it is opened
	held   int
	opened bool
	holding
	done   int      // tokens that it has run
	pinned *Context // of which it is the row; nil = none
	score  int      // as of the requests
	short  bool     // likewise
	scores *Scores  // of its tokens; nil where they are not scored
	from   takenFrom
	first  *group // the next of whose sequences has its pages reserved with the row, until it is admitted
}

// sequence is one completion on its way.
type sequence struct {
	group      *group
	generation int
	row        int
	done       int   // tokens of it in the cache, as the last call left it
	last       int32 // the token drawn last, which is not in the cache yet
	names      *prefix.Namer
	drawn      []int32 // all tokens drawn, where the request recalls them
	holding
	born int // counts admissions

	cancelled atomic.Bool // set by the drain at a stop string, read by the scheduler
	drain     drainState
}

// swapped is a sequence whose keys and values are on the host.
type swapped struct {
	seq   *sequence
	pages *Pages
	stops []int32    // as Entry.StopStates has them
	back  *prefixRow // the row that holds it again, from which it gets a slot; nil before
}

// place puts a prompt's tokens from a position on among those of the call. It returns false where they do not fit.
func (in *Input) place(tokens []int32, from, limit int) (start int, ok bool) {
	if len(in.Tokens)+len(tokens)-from > limit {
		return 0, false
	}
	start = len(in.Tokens) - from
	in.Tokens = append(in.Tokens, tokens[from:]...)
	return start, true
}

// offer is an input with what the scheduler knows of its entries.
type offer struct {
	Input
	waiting []*sequence  // of the entries
	ahead   []*prefixRow // of the prompts
	before  []*sequence  // rows as they stand before the call
	resumed int          // how many of the waiting, the first ones, were swapped out and go on
	room    int          // free pages that may be held beside those that are
	recalls int          // tokens in Drawn of the entries
	heldAt  map[heldPages]int
	isHeld  map[int32]bool
}

func (o *offer) lists(p *prefixRow) bool { return slices.Contains(o.ahead, p) }
