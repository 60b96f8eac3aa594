package main

import (
	"context"
	"iter"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
	"github.com/quire/quire/promptset"
)

// sampler draws completions; *engine.Engine and *engine.Replicas are the real ones.
type sampler interface {
	Plan() engine.Plan
	Run(ctx context.Context, requests iter.Seq[*engine.Request]) iter.Seq2[*engine.Completion, error]
	Stats() engine.Stats
	Close()
}

// session is a model that is ready to draw completions, and what turns text into its tokens.
type session struct {
	sampler
	model       string // the reference it was opened by
	fingerprint string // of the weights
	vocab       int
	config      models.Config // of the model; zero where it has none
	// the plugin's name for the kind of its devices, such as "cpu" or "NVIDIA H200"; empty without a plugin
	device string
	// encode turns text into token ids, with the tokens that begin a text if special is true.
	encode func(text string, special bool) ([]int32, error)
	// render writes messages as one text, with the opening of the answer. It is nil where there is no template, and
	// then noTemplate says why.
	render     func(messages []promptset.Message) (string, error)
	noTemplate error
	close      func()
}

// engines are the session's, all of the same model.
func (s *session) engines() []*engine.Engine {
	switch e := s.sampler.(type) {
	case *engine.Engine:
		return []*engine.Engine{e}
	case *engine.Replicas:
		return e.Engines()
	}
	return nil
}

// openFunc opens what the options name.
type openFunc func(ctx context.Context, env *environment, o *runOptions) (*session, error)

// identity is what is known of a model before it is loaded.
type identity struct {
	fingerprint string // of its files
	tokenizer   bool   // it has one; without, it takes prompt_token_ids only
}

// identifyFunc returns what is known of the model that the options name, without loading it.
type identifyFunc func(ctx context.Context, env *environment, o *runOptions) (identity, error)
