package batch

import (
	"context"
	"iter"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset"
)

// Sampler draws completions; *engine.Engine and *engine.Replicas are the real ones.
type Sampler interface {
	Plan() engine.Plan
	Run(ctx context.Context, requests iter.Seq[*engine.Request]) iter.Seq2[*engine.Completion, error]
	Stats() engine.Stats
	Close()
}

// Session is a model that is ready to draw completions, and what turns text into its tokens.
type Session struct {
	Sampler
	Model       string // the reference it was opened by
	Fingerprint string // of the weights
	Vocab       int
	Config      models.Config // of the model; zero where it has none
	// Device is the plugin's name for the kind of its devices, such as "cpu" or "NVIDIA H200"; empty without a plugin.
	Device string
	// Encode turns text into token ids, with the tokens that begin a text if special is true.
	Encode func(text string, special bool) ([]int32, error)
	// TokenText returns the bytes that a token adds to a text, or the name of a special token. It is nil without a
	// tokenizer.
	TokenText promptset.TokenText
	// Decode returns the text of tokens, with special ones. Mark returns the text of a completion with those of marks
	// that are special tokens where they stand among its tokens, and with the one that ended it. Both may be nil.
	Decode func(tokens []int32) string
	Mark   func(tokens []int32, text string, marks []string) string
	// Token returns the token that has a text as its name. It may be nil.
	Token func(name string) (int32, bool)
	// Template is the source of the chat template, "" without one. It may be one that cannot be parsed.
	Template string
	// Render writes messages as one text, by the parameters of a row, of which it takes [parameter.Text]. It is nil
	// where there is no template that can be used, and then NoTemplate says why.
	Render     func(messages []promptset.Message, by *parameter.Set) (string, error)
	NoTemplate error
	// Check returns the error with which an engine would refuse a request. It is nil where that is not known.
	Check func(*engine.Request) error
	// Release gives back all that the session has.
	Release func()
}

// engines are the session's, all of the same model.
func (s *Session) engines() []*engine.Engine {
	switch e := s.Sampler.(type) {
	case *engine.Engine:
		return []*engine.Engine{e}
	case *engine.Replicas:
		return e.Engines()
	}
	return nil
}

// slots is how many sequences may run at once.
func (s *Session) slots() int { return s.Plan().MaxSeqs * max(1, len(s.engines())) }

// Models opens models. [RealModels] are those of files; tests take others.
type Models interface {
	// Lacks says what a backend lacks on this machine, before anything is fetched or opened for it.
	Lacks(backend string) error
	// Identify returns what is known of a job's model without loading it.
	Identify(ctx context.Context, j *Job, p *Process) (Identity, error)
	// Open makes a job's model ready to draw completions.
	Open(ctx context.Context, j *Job, p *Process) (*Session, error)
}

// Identity is what is known of a model before it is loaded.
type Identity struct {
	Fingerprint string       // of its files
	Tokenizer   bool         // it has one; without, it takes prompt_token_ids only
	Template    bool         // its files have a chat template
	DType       dtypes.DType // its own: see models.Checkpoint
	// Generation are the defaults of sampling that its files ask for.
	Generation arch.Generation
}
