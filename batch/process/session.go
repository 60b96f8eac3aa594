package process

import (
	"context"
	"iter"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/sentence"
)

// withoutEngine is the sampler of a session that generates nothing.
type withoutEngine struct {
	Sampler
	plan engine.Plan
}

func (w withoutEngine) Plan() engine.Plan { return w.plan }

// NoEngine returns the sampler of a session that generates nothing and has a plan.
func NoEngine(plan engine.Plan) Sampler { return withoutEngine{plan: plan} }

// Sampler generates completions or makes vectors; *engine.Engine, *engine.Replicas and *encode.Encoder are the real
// ones.
type Sampler interface {
	Plan() engine.Plan
	Run(ctx context.Context, requests iter.Seq[*engine.Request]) iter.Seq2[*engine.Completion, error]
	Stats() engine.Stats
	Close()
}

// Session is a model that is ready to generate completions, and what turns text into its tokens.
type Session struct {
	Sampler
	ask.Text
	Model       string        // the reference it was opened by
	Fingerprint string        // fingerprint of the weights
	Config      models.Config // config of the model; zero if it has none
	// Checkpoint has the weights that the engine was opened with. It is nil if that is not a model of package models.
	Checkpoint *models.Checkpoint
	// Device is the plugin's name for the kind of its devices, such as "cpu" or "NVIDIA H200", and what tuning chose on
	// them: see arithmetic.Tuned. It is empty without a plugin.
	Device   string
	Adapters []string // names of the adapters that rows may name, sorted
	// TokenText returns the bytes that a token adds to a text, or the name of a special token. It is nil without a
	// tokenizer.
	TokenText promptset.TokenText
	// Check returns the error with which an engine would refuse a request. It is nil if that is not known.
	Check func(*engine.Request) error
	// Release gives back all that the session has.
	Release func()
}

// NewBuilder makes the requests of a job for a session, which may be nil: one that will be open.
func NewBuilder(j *spec.Job, s *Session) *ask.Builder {
	b := ask.New(ask.Settings{Sampling: j.Sampling, ServedModels: j.ServedModels, ReasoningParser: j.ReasoningParser,
		ToolCallParser: j.ToolCallParser, CallsTools: j.Tools.Used(), ScoresChoices: j.ScoresChoices(),
		Embeds: j.Embeds()})
	if j.Encodes() {
		v := &j.Vectors
		b.Settings.Embedding = &ask.Embedding{Prompt: v.Prompt, Lowercase: v.Lowercase, Trim: v.Trim,
			Check: j.CheckDimensions}
	}
	if s != nil {
		s.Serve(b)
	}
	return b
}

// Serve has a builder make requests for this session.
func (s *Session) Serve(b *ask.Builder) {
	b.Text, b.MaxModelLen, b.Adapters = &s.Text, func() int { return s.Plan().MaxModelLen }, s.Adapters
}

// Engines are the session's, all of the same model.
func (s *Session) Engines() []*engine.Engine {
	switch e := s.Sampler.(type) {
	case *engine.Engine:
		return []*engine.Engine{e}
	case *engine.Replicas:
		return e.Engines()
	}
	return nil
}

// Slots is how many sequences may run at once.
func (s *Session) Slots() int { return s.Plan().MaxSeqs * max(1, len(s.Engines())) }

// Models opens models. [RealModels] opens them from files; tests use others.
type Models interface {
	// Lacks reports what a backend lacks on this machine, before anything is fetched or opened for it.
	Lacks(backend string) error
	// Identify returns what is known of a job's model without loading it.
	Identify(ctx context.Context, j *spec.Job, p *Process) (Identity, error)
	// Open makes a job's model ready to generate completions.
	OpenSession(ctx context.Context, j *spec.Job, p *Process) (*Session, error)
}

// Identity is what is known of a model before it is loaded.
type Identity struct {
	Fingerprint string       // fingerprint of its files
	Tokenizer   bool         // it has one; without, it takes prompt_token_ids only
	Template    bool         // its files have a chat template
	DType       dtypes.DType // its own: see models.Checkpoint
	// Generation are the defaults of sampling that its files ask for.
	Generation arch.Generation
	// Sentence is what its files say about embeddings, and VectorSize the length of its vectors.
	Sentence   sentence.Settings
	VectorSize int
	// Classifier is its head that scores classes; nil if it has none.
	Classifier *arch.Classifier
	// Adapters are the digests of the adapters that rows may name, by name.
	Adapters map[string]string
}
