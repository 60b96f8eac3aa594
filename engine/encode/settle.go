package encode

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gomlx/compute"

	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/sentence"
	"github.com/quire/quire/ops/collective"
)

const (
	// defaultStepTokens is enough for the products of a step to be bound by arithmetic, and few enough for its hidden
	// states to stay in a cache.
	defaultStepTokens = 1024
	// rowMultiple is what tokens and rows of a step are rounded up to: see package config.
	rowMultiple = 16
	// tokensPerRow is the mean length of rows below which a step has no room for all rows that its tokens have.
	tokensPerRow = 8
)

// settled is a config with all that follows from it.
type settled struct {
	Config
	model        *models.Checkpoint // the config's, without a head
	held         config.Held
	tokens, rows int // that a step has room for
}

func settle(c Config) (*settled, error) {
	if c.Model == nil {
		return nil, errors.New("encode: Config.Model is needed")
	}
	s := &settled{Config: c}
	headless := *c.Model
	headless.Config.TieEmbeddings = true
	s.model = &headless
	if err := s.settle(); err != nil {
		return nil, fmt.Errorf("planning the encoder: %w", err)
	}
	return s, nil
}

func (s *settled) settle() (err error) {
	model := &s.model.Config
	if err := checkLayers(model); err != nil {
		return err
	}
	s.Pooling = cmp.Or(s.Pooling, s.Model.Sentence.Pooling)
	if _, err := sentence.ParsePooling(string(s.Pooling)); err != nil && !s.ofTokens() {
		return err
	}
	limit := model.MaxPositions
	s.MaxModelLen = cmp.Or(s.MaxModelLen, s.Model.Sentence.MaxTokens, limit)
	if s.Model.Sentence.MaxTokens > limit && s.Config.MaxModelLen == s.Model.Sentence.MaxTokens {
		s.MaxModelLen = limit
	}
	switch {
	case s.MaxModelLen < 1 || s.MaxModelLen > limit:
		return setting.Errorf("`max-model-len` is %d, but the model has %d positions", s.MaxModelLen, limit)
	case s.StepTokens < 0:
		return fmt.Errorf("a step of %d tokens: at least 1 is needed", s.StepTokens)
	}
	model.Context = s.MaxModelLen
	s.tokens = max(cmp.Or(s.StepTokens, defaultStepTokens), s.MaxModelLen)
	s.tokens = (s.tokens + rowMultiple - 1) / rowMultiple * rowMultiple
	s.rows = (s.tokens/tokensPerRow + rowMultiple - 1) / rowMultiple * rowMultiple
	if s.Backend == nil {
		return nil
	}
	s.held, err = config.Config{Model: s.model, Backend: s.Backend, DType: s.DType, Weights: s.Weights}.Held()
	return err
}

// checkLayers refuses layers that rows without a cache do not have.
func checkLayers(c *models.Config) error {
	for i, l := range c.Layers {
		switch {
		case l.Mixer != arch.Attention:
			return arch.Unsupported("", "layer %d of a %s, which is no attention, in an encoder", i, c.Architecture)
		case l.Sinks:
			return arch.Unsupported("", "layer %d of a %s, which has attention sinks, in an encoder", i, c.Architecture)
		}
	}
	return nil
}

func (s *settled) plan() config.Plan {
	p := config.Plan{Encodes: true, Devices: collective.Devices(s.Backend), ExpertGroups: 1,
		Model: s.model.Config.Architecture, Parameters: s.model.NumParameters(), Quantization: s.Model.Quantization(),
		KV: "none", MaxSeqs: s.rows, MaxModelLen: s.MaxModelLen, PrefillTokens: s.tokens, Layers: config.LayersUnrolled,
		LayerTurns: 1, Programs: []string{programName}}
	if s.Backend != nil {
		p.Backend, p.DType = s.Backend.Description(), s.held.DType.String()
		p.Weights, p.WeightBytes = s.held.Forms, s.held.Bytes
	}
	return p
}

// Plan returns what an encoder of this config would settle on. It compiles nothing. Without a backend it leaves out
// what follows from one.
func (c Config) Plan() (config.Plan, error) {
	s, err := settle(c)
	if err != nil {
		return config.Plan{}, err
	}
	return s.plan(), nil
}

// Precompile compiles the program of an encoder of this config, and nothing more. It reads no weights: Model may be of
// models.Dummy, and the backend one that can only compile. The program is the caller's.
func Precompile(c Config) (config.Plan, compute.Executable, error) {
	s, err := settle(c)
	if err != nil {
		return config.Plan{}, nil, err
	}
	program, err := s.compile()
	return s.plan(), program, err
}

// Check returns the error with which an encoder of this config refuses a request. It needs no backend.
func (c Config) Check(r *admit.Request) error {
	limit := cmp.Or(c.MaxModelLen, c.Model.Sentence.MaxTokens, c.Model.Config.MaxPositions)
	return check(r, min(limit, c.Model.Config.MaxPositions), c.Model.Config.VocabSize)
}

// check returns what is wrong with a request.
func check(r *admit.Request, limit, vocabulary int) error {
	for i, sequence := range sequencesOf(r) {
		if err := checkTokens(sequence.Tokens, limit, vocabulary); err != nil && len(r.Sequences) > 1 {
			return fmt.Errorf("documents[%d]: %w", i, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func checkTokens(tokens []int32, limit, vocabulary int) error {
	switch {
	case len(tokens) == 0:
		return admit.ErrEmptyPrompt
	case len(tokens) > limit:
		return setting.Errorf("%w: %s, and a text may have %d (see `max-model-len`)", admit.ErrPromptTooLong,
			plural.Count(len(tokens), "token"), limit)
	}
	for _, id := range tokens {
		if id < 0 || int(id) >= vocabulary {
			return fmt.Errorf("%w: token %d is outside the vocabulary of %d", admit.ErrInvalidRequest, id, vocabulary)
		}
	}
	return nil
}

func errNotANumber() error {
	return setting.Errorf("%w: the weights may not fit the dtype, try `dtype` float32", admit.ErrNotANumber)
}
