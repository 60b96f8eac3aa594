package schedule

import "github.com/quire/quire/engine/prefix"

// Tag is the caller's record of a request. The scheduler carries it to the device and back with the completions, and
// asks it only for a name to show.
type Tag interface {
	// RequestName returns the name by which a dump of the tables shows the request.
	RequestName() string
}

// Request asks for completions of one prompt. The caller does not change it after handing it over. The scheduler's
// goroutine owns the unexported fields.
type Request struct {
	Tokens []int32 // the whole prompt, at least one token
	N      int     // completions, numbered First, First+1, ...
	First  int
	MaxLen int      // tokens of prompt and completion together
	Stop   []string // a completion ends when its text contains one of these
	// OnDevice reports whether the device finds the stop strings, in the step that generates their last token. If not,
	// the drain finds them after the call.
	OnDevice bool
	// IncludeStop leaves the stop string in the text, and the text of the token that ended the completion. KeepSpecial
	// leaves special tokens in the text.
	IncludeStop, KeepSpecial bool
	// MinTokens is how many tokens a completion has before a stop string ends it.
	MinTokens int
	// Context is the row of the context that the prompt begins with, one of Config.Contexts; or None.
	Context int
	// Recalls asks for Entry.Drawn when a completion continues after it was swapped out.
	Recalls bool
	// Leaf states that nothing continues from the completions. Their pages get no names.
	Leaf bool
	Variant
	Scoring
	// Tops is the number of likeliest tokens to report with each generated token.
	Tops int
	// LastHidden keeps the hidden states of the last token alone.
	LastHidden bool
	Course
	Tag Tag
	Err error // why the request can't run: it comes back as a completion

	// chain names the pages of the prompt that others may share: all full pages before its last token, which each
	// completion runs itself. It is set when the request is taken in, and again if the weights are replaced while it
	// waits.
	chain []prefix.Hash
}

// Scoring is what is asked of the tokens of a prompt.
type Scoring struct {
	// Score asks for scores of the prompt with Score-1 likeliest tokens at each place; 0 asks for none. ScoreFrom is
	// the number of the first token whose score is wanted; if it is not 0, N is 1.
	Score, ScoreFrom int
	// ScoresOnly states that only the prompt's scores are wanted. The one generated token is dropped.
	ScoresOnly bool
}

// Course is what is asked and told of completions while they are generated.
type Course struct {
	// Told is called after each call that generated a part of a completion, by the drain; nil for nobody. Calls are
	// short while a request has it.
	Told func(Partial)
	// Started is called by the run's goroutine when weights begin to generate tokens of a completion, from the token
	// with the number first on: when it is admitted, and before other weights continue it or start it again. It is not
	// called for a request with Weights. nil for nobody.
	Started func(generation, first int, version string)
	// Weights are the versions that generate the completions, the first run from the first token on: a completion
	// waits until the run has the version that its next token is of. nil is any version.
	Weights []WeightsRun
}

// pageScore returns what Score is for the pages that other prompts may begin with: those before the tokens whose scores
// are wanted are not scored.
func (r *Request) pageScore() int {
	if r.ScoreFrom > 0 {
		return 0
	}
	return r.Score
}

// shareable returns the tokens of the prompt that a row may take over: all before the last one, which each completion
// runs itself, and before the token whose logits give the first score that is wanted.
func (r *Request) shareable() []int32 {
	if r.ScoreFrom > 0 {
		return r.Tokens[:r.ScoreFrom-1]
	}
	return r.Tokens[:len(r.Tokens)-1]
}

// tops returns how many of the likeliest tokens are reported with each token of the prompt.
func (r *Request) tops() int { return max(0, r.Score-1) }

// surePages returns how many pages a completion is admitted with.
func (s Sizes) surePages(r *Request) int {
	all := s.pages(r.MaxLen - 1) // the last token is generated and never fed
	if s.Reserve {
		return all
	}
	return min(all, s.pages(len(r.Tokens))+1)
}

// pagesAhead returns the pages for a prefix row of held tokens and its first clone, a completion of r. The clone shares
// only full pages.
func (s Sizes) pagesAhead(r *Request, held int) int {
	return s.pages(held) + s.surePages(r) - s.inherited(r, held)/s.PageSize
}

// inherited returns how many tokens a clone takes over from a row if both begin with the same n tokens. If the prompt
// is scored, the clone runs the last of the n itself, because the score of its own next token comes from there, and the
// row may continue with another token.
func (s Sizes) inherited(r *Request, n int) int {
	if r.pageScore() == 0 {
		return min(n, len(r.shareable()))
	}
	return s.wholePages(max(0, n-1))
}

// Variant is how the model computes keys and values. Pages of different variants have different names.
type Variant struct {
	// Short states that keys are rotated by the short divisors of a longrope; other requests have the long ones.
	Short bool
	// Adapter is the low-rank adapter that the tokens are run with; nil for none.
	Adapter *Adapter
}

// Adapter is a low-rank adapter of the model.
type Adapter struct {
	Name   string
	Number int         // among the adapters of the job, from 0
	Digest prefix.Hash // of its contents: pages that were run with it have other names
	// Slot is its place on the device, from 1; 0 if it is not there. The run's goroutine owns it.
	Slot int32
}

// InSlot returns the adapter's place on the device, 0 for no adapter.
func (a *Adapter) InSlot() int32 {
	if a == nil {
		return 0
	}
	return a.Slot
}

// Partial is a completion as far as it is generated. Later partials and the completion extend it: the text omits an end
// that may become a stop string.
type Partial struct {
	Generation int
	Tokens     []int32
	Text       string
}

// Completion is a completion that ended, or a request that was refused.
type Completion struct {
	Request    *Request
	Generation int
	Generated
	Finish  Finish
	Refused bool // Request.Err has the reason; it stands for all completions of the request
}

// Generated is what was generated for a completion. The caller of the engine gets it as it is.
type Generated struct {
	// Tokens are the generated tokens, including the stop token that ended them, if one did.
	Tokens []int32
	// Text is the text of Tokens without special tokens, up to the stop string or the token that ended the completion,
	// or as the request asks for; empty without a tokenizer.
	Text string
	// Logprobs are of the chosen tokens under the model's own distribution; ProcessedLogprobs under the one that was
	// sampled from, after temperature and filters. Natural logarithms.
	Logprobs, ProcessedLogprobs []float32
	// TopIDs and TopLogprobs are of the likeliest tokens at the place of each of Tokens, the likeliest first, of equal
	// ones the lowest id, under the model's own distribution; nil if the request asks for none.
	TopIDs      [][]int32
	TopLogprobs [][]float32
	Measures    [NumMeasures][]float32 // of the distribution of each of Tokens; nil for those that the program lacks
	// Experts are the experts that the token before each of Tokens took: by token, then by layer with experts,
	// ascending within a layer. nil if the program does not report them.
	Experts []uint16
	// Hidden are the hidden states of the token before each of Tokens, or before the last of them alone if
	// Request.LastHidden is set: by token, then by layer, in little-endian. nil if the program does not report them.
	Hidden []byte
	// State is the hidden state of the last token of the prompt, after the model's last norm; nil if the program does
	// not report it.
	State []float32
	// Weights are the versions of the weights that generated Tokens, in order. The first run begins with the first
	// token; more than one follow only if the weights were replaced under a running completion.
	Weights []WeightsRun
	Prompt  *Scores // nil unless the prompt is scored
}

// WeightsRun is a run of tokens that the same weights generated: all from the token with the number First, counted from
// 0, up to the next run.
type WeightsRun struct {
	First   int
	Version string
}

// WithRun returns runs to which weights were added that generate the tokens from one on, see [Course]. They replace
// what was after that token.
func WithRun(runs []WeightsRun, first int, version string) []WeightsRun {
	for len(runs) > 0 && runs[len(runs)-1].First >= first {
		runs = runs[:len(runs)-1]
	}
	if n := len(runs); n > 0 && runs[n-1].Version == version {
		return runs
	}
	return append(runs, WeightsRun{first, version})
}

// Finish is the state of a sequence after a token.
type Finish int32

const (
	Running      Finish = iota
	AtStopToken         // the token, or a sequence of tokens that ends with it, ends the completion
	AtLength            // the completion is as long as it may be
	NotANumber          // the scores were not numbers: there is no token
	AtStopString        // the text contains a stop string; the host finds it unless Request.OnDevice
)

// Context is a row that belongs to no completion and that requests may start from.
type Context struct {
	Row      int
	Tokens   []int32 // the tokens that were run, then the tokens to run
	Done     int     // tokens that were run
	MaxPages int     // held by the context or reserved for it
	// Mixed is not 0 if earlier weights computed some of its keys and values. Contexts with the same number have the
	// same contents for the same tokens.
	Mixed int
}
