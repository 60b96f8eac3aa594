// Package load opens what a job's engine needs: the model's files, its tokenizer and chat template, a draft model, and
// the devices of this process.
package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/prefixes"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
	"github.com/quire/quire/text/chat"
	"github.com/quire/quire/text/tokenizer"
)

// Models opens models of package models with package engine.
type Models struct{}

// WithModels returns options that open real models unless they have others.
func WithModels(o process.Options) process.Options {
	if o.Models == nil {
		o.Models = Models{}
	}
	return o
}

// Lacks reports what a backend lacks on this machine.
func (Models) Lacks(backend string) error { return CheckDevice(backend) }

// Identify returns what is known of the model by its files. It reads a few kilobytes of each tensor.
func (Models) Identify(ctx context.Context, j *spec.Job, p *process.Process) (process.Identity, error) {
	model, err := OpenModel(ctx, p, j)
	if err != nil {
		return process.Identity{}, err
	}
	known := process.Identity{Fingerprint: model.FingerPrint(), Tokenizer: model.TokenizerSource() != "",
		Template: tokenizer.HasChatTemplate(model.TokenizerSource()), DType: model.DType(),
		Generation: model.Config.Generation, Sentence: model.Sentence,
		VectorSize: model.Sentence.Size(model.Config.HiddenSize), Classifier: model.Config.Classifier}
	list, err := openAdapters(ctx, p, j, model)
	if err != nil {
		return process.Identity{}, errors.Join(err, model.Close())
	}
	known.Adapters = list.digests()
	list.close()
	return known, model.Close()
}

// Open opens the model, its tokenizer and chat template, the backend, and the engine on them.
func (Models) OpenSession(ctx context.Context, j *spec.Job, p *process.Process) (*process.Session, error) {
	model, err := OpenModel(ctx, p, j)
	if err != nil {
		return nil, err
	}
	closers := []func(){func() { _ = model.Close() }}
	closeAll := func() {
		for _, c := range slices.Backward(closers) {
			c()
		}
	}
	fail := func(err error) (*process.Session, error) {
		closeAll()
		return nil, err
	}
	s := &process.Session{Model: j.Model, Fingerprint: model.FingerPrint(),
		Text: ask.Text{Vocab: model.Config.VocabSize,
			EOS: model.Config.EOS}, Config: model.Config, Checkpoint: model,
		Release: closeAll}
	tok, err := openText(s, j, model)
	if c := model.Config.Classifier; err == nil && tok != nil && c != nil && c.Answers > 0 {
		err = openAnswers(s, j, model, tok)
	}
	if err != nil {
		return fail(err)
	}
	list, err := openAdapters(ctx, p, j, model)
	if err != nil {
		return fail(err)
	}
	closers = append(closers, list.close)
	s.Adapters = list.names()
	cfg := programConfig(p, j, model, tok)
	cfg.Adapters = list
	switch closes := func(c func()) { closers = append(closers, c) }; {
	case p.TextOnly && j.Encodes():
		cfg := EncoderConfig(p, j, model)
		plan, err := cfg.Plan()
		if err != nil {
			return fail(err)
		}
		s.Check, s.Sampler = cfg.Check, process.NoEngine(plan)
		return s, nil
	case p.TextOnly:
		s.Check = engine.NewChecker(cfg).Check
		return s, nil
	case j.Encodes():
		err = openEncoder(ctx, s, p, j, model, closes)
	default:
		err = openEngine(ctx, s, p, j, cfg, closes)
	}
	if err != nil {
		return fail(err)
	}
	if p.Opened != nil {
		closing, err := p.Opened(s)
		if err != nil {
			return fail(err)
		}
		if closing != nil {
			closers = append(closers, closing)
		}
	}
	return s, nil
}

// openEngine opens the devices and makes the engine on them. What is opened is closed by what closes gets.
func openEngine(ctx context.Context, s *process.Session, p *process.Process, j *spec.Job, cfg engine.Config,
	closes func(func())) error {
	backend, err := openBackend(ctx, s, p, j, closes)
	if err != nil {
		return err
	}
	groups, err := groups(&j.Engine, backend, p.Hosts)
	if err != nil {
		return err
	}
	if cfg.DraftModel, err = openDraftModel(ctx, p, j, cfg.Model, cfg.Tokenizer); err != nil {
		return err
	}
	if cfg.DraftModel != nil {
		closes(func() { _ = cfg.DraftModel.Close() })
	}
	cfg.Hosts, cfg.Log = p.Hosts.Joined(), p.Log
	cfg.Observe, cfg.Inspect, cfg.Trace = observeCalls(p), inspectTables(p, j), p.Observer.Tracer()
	checked := cfg
	checked.Backend = groups[0]
	if err := engine.CheckKernels(checked); err != nil {
		return err
	}
	if s.Sampler, err = newSampler(ctx, cfg, groups); err != nil {
		return err
	}
	closes(s.Sampler.Close)
	nameTuning(s, groups[0], p.Log)
	if err := p.ProfileDevice.Start(backend); err != nil {
		return err
	}
	closes(func() { endProfile(p) })
	return prefixes.LoadPrefixes(p, s.Engines()...)
}

// programConfig is what the programs of the job's engine follow from, all but the backend.
func programConfig(p *process.Process, j *spec.Job, model *models.Checkpoint, tok *tokenizer.Tokenizer) engine.Config {
	cfg := j.EngineConfig()
	cfg.Model, cfg.Tokenizer, cfg.Debug, cfg.Contexts = model, tok, p.Debug, p.Contexts
	if cfg.HostKVMemory == 0 && (p.SavePrefix != "" || len(p.LoadPrefixes) > 0 || p.Contexts > 0) {
		cfg.HostKVMemory = defaultHostMemory
	}
	return cfg
}

// PlanConfig is programConfig for the job with the defaults that the model's files ask for, which it returns too.
func PlanConfig(ctx context.Context, p *process.Process, j *spec.Job, model *models.Checkpoint) (*spec.Job,
	engine.Config, error) {
	j, err := j.WithGeneration(model.Config.Generation, p.Printf)
	if err != nil {
		return nil, engine.Config{}, err
	}
	tok, err := openTokenizer(model)
	if err != nil {
		return nil, engine.Config{}, err
	}
	cfg := programConfig(p, j, model, tok)
	if cfg.DraftModel, err = openDraftModel(ctx, p, j, model, tok); err != nil {
		return j, cfg, err
	}
	cfg.Adapters, err = openAdapters(ctx, p, j, model)
	return j, cfg, err
}

// newSampler makes the engine, or one on each of several backends.
func newSampler(ctx context.Context, cfg engine.Config, backends []compute.Backend) (process.Sampler, error) {
	if len(backends) > 1 {
		return engine.NewReplicas(ctx, cfg, backends)
	}
	cfg.Backend = backends[0]
	return engine.New(ctx, cfg)
}

// openText sets what turns text into tokens. A model without a tokenizer takes prompt_token_ids only.
func openText(s *process.Session, j *spec.Job, model *models.Checkpoint) (*tokenizer.Tokenizer, error) {
	template, withTools := "", ""
	if j.ChatTemplate != spec.TemplateOfModel && j.ChatTemplate != spec.TemplateNone {
		src, err := os.ReadFile(j.ChatTemplate)
		if err != nil {
			return nil, setting.Errorf("`chat-template` is neither model nor none nor a file that can be read: %w", err)
		}
		src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")) // a byte order mark is no text
		template, withTools = string(src), string(src)
	}
	tok, err := openTokenizer(model)
	if err != nil {
		return nil, err
	}
	if tok == nil {
		none := fmt.Errorf("the model %s has no tokenizer: only prompt_token_ids can be run", j.Model)
		s.Encode = func(string, bool) ([]int32, error) { return nil, none }
		s.EncodePair = func(string, string, int) ([]int32, int, bool, error) { return nil, 0, false, none }
		s.NoTemplate = none
		return nil, nil
	}
	s.Encode, s.EncodePair, s.TokenText, s.Token = tok.Encode, tok.EncodePair, tok.TokenText, tok.ID
	if c := model.Config.Classifier; c != nil && c.Tokens {
		s.Spans = tok.EncodeSpans
		if _, _, err := tok.EncodeSpans("a b"); err != nil {
			return nil, fmt.Errorf("the tokenizer of %s: %w", j.Model, err)
		}
	}
	if j.Task == completion.MultiVector {
		if err := openLate(s, j, model, tok); err != nil {
			return nil, err
		}
	}
	if j.Encodes() {
		if s.Ends, err = countEnds(tok.Encode); err != nil {
			return nil, err
		}
	}
	s.Decode = func(tokens []int32) string { return tok.Decode(tokens, false) }
	s.Spell = func(tokens []int32) string { return tok.Decode(tokens, true) }
	s.Mark = func(tokens []int32, text string, marks []string) string { return withMarks(tok, tokens, text, marks) }
	switch j.ChatTemplate {
	case spec.TemplateNone:
		s.NoTemplate = setting.Errorf("messages need a chat template, and `chat-template` is none")
		return tok, nil
	case spec.TemplateOfModel:
		template, withTools = tok.ChatTemplate(), tok.ToolTemplate()
		if template == "" && withTools == "" {
			s.NoTemplate = setting.Errorf(
				"messages need a chat template, and the model %s has none: give `chat-template` FILE", j.Model)
			return tok, nil
		}
	}
	return tok, openTemplates(s, j, tok, template, withTools)
}

// openTemplates sets what makes prompts of messages: by one chat template, or by another one if there are tools.
func openTemplates(s *process.Session, j *spec.Job, tok *tokenizer.Tokenizer, template, withTools string) error {
	s.Template = withTools
	parsedTools, err := chat.Parse(withTools)
	parsed := parsedTools
	if err == nil && withTools != template && template != "" {
		parsed, err = chat.Parse(template)
	}
	switch {
	case err != nil && j.ChatTemplate == spec.TemplateOfModel: // prompts may not need the template
		s.NoTemplate = setting.Errorf("the model's own %w; give `chat-template` FILE", err)
		return nil
	case err != nil:
		return setting.Errorf("the chat template of `chat-template` %s: %w", j.ChatTemplate, err)
	}
	special := tok.SpecialTexts()
	s.Render = func(messages []promptset.Message, by *parameter.Set) (string, error) {
		turns := make([]chat.Message, len(messages))
		for i, m := range messages {
			turns[i] = chat.Message{Role: m.Role, Content: m.Content, Object: []byte(m.Object)}
		}
		o := chat.Options{Special: special, Documents: string(by.Documents), Variables: string(by.ChatTemplateKwargs),
			ReasoningEffort:      by.ReasoningEffort,
			ContinueFinalMessage: by.ContinueFinalMessage,
			AddGenerationPrompt:  by.AddGenerationPrompt && !by.ContinueFinalMessage}
		if by.ToolChoice != "none" {
			o.Tools = string(by.Tools)
		}
		switch {
		case o.Tools != "":
			return parsedTools.Render(turns, o)
		case template == "":
			return "", setting.Errorf("the model has a chat template for conversations with tools only: give " +
				"`chat-template` FILE")
		}
		return parsed.Render(turns, o)
	}
	return nil
}

// CheckDevice reports what a backend lacks on this machine, before anything is fetched or opened for it: the plugin of
// an accelerator, and perhaps the accelerator. A plugin that is installed, or named by its path, is used regardless of
// what is found here, except an installed libtpu if there is no TPU: see [setup.Usable].
func CheckDevice(backend string) error {
	if err := setup.Usable(strings.TrimPrefix(backend, "xla:"), true); err != nil {
		return setting.Errorf("`backend` is %s: %w", backend, err)
	}
	return nil
}

// Folders in the cache folder: KernelFolder has the kernels that the user captured, programFolder compiled programs,
// planFolder what programs of plans need.
const (
	KernelFolder  = "kernels"
	programFolder = "programs"
	planFolder    = "plans"
)

// OpenDevices is [Task.OpenDevices].
func OpenDevices(ctx context.Context, p *process.Process, e *spec.Engine) (compute.Backend, error) {
	spec, err := spec.ParseBackend(e.Backend)
	if err != nil {
		return nil, err
	}
	cache, err := setup.CacheDir()
	if err != nil {
		return nil, err
	}
	if err := CheckDevice(e.Backend); err != nil {
		return nil, err
	}
	if err := isolate(e, p.Several()); err != nil {
		return nil, setting.Errorf("`backend` is %s: %w", e.Backend, err)
	}
	backend, err := xla.OpenContext(ctx, spec, xla.OpenOptions{
		FindPlugin: func(platform string) (string, error) {
			return setup.UsePlugin(ctx, platform, true, p.Fetching)
		},
		ClientOptions: clientOptions(e, p.Hosts),
		CacheDir:      filepath.Join(cache, programFolder),
		Kernels:       e.Kernels,
		KernelDir:     filepath.Join(cache, KernelFolder),
		ClientTimeout: p.ClientTimeout,
		Waiting:       p.ReportWaiting,
	})
	if err = orLonger(err); err != nil {
		if none := setup.NoDevice(strings.TrimPrefix(e.Backend, "xla:")); none != "" {
			err = fmt.Errorf("%w; %s", err, none)
		}
		return nil, setting.Errorf("`backend` is %s: %w", e.Backend, err)
	}
	return backend, nil
}

// OpenTopology is [Task.OpenTopology].
func OpenTopology(ctx context.Context, p *process.Process, kernels, name string, keep bool) (*xla.Backend, error) {
	plugin, err := setup.UsePlugin(ctx, setup.Compiler(xla.TopologyPlatform(name)), false, p.Fetching)
	if err != nil {
		return nil, err
	}
	cache, err := setup.CacheDir()
	if err != nil {
		return nil, err
	}
	options := xla.TopologyOptions{Plugin: plugin, Name: name, Kernels: kernels,
		KernelDir: filepath.Join(cache, KernelFolder), RecordDir: filepath.Join(cache, planFolder),
		ClientTimeout: p.ClientTimeout, Waiting: p.ReportWaiting}
	if keep {
		options.CacheDir = filepath.Join(cache, programFolder)
	}
	b, err := xla.OpenTopologyContext(ctx, options)
	return b, orLonger(err)
}

// orLonger adds to an error of a plugin that took too long what helps.
func orLonger(err error) error {
	if errors.Is(err, xla.ErrClientTimeout) {
		return setting.Errorf("%w; a longer `client-timeout` waits longer", err)
	}
	return err
}

// defaultHostMemory is what SavePrefix, LoadPrefixes and snapshots of contexts may take if Engine.HostKVMemory is 0.
const defaultHostMemory = 4 << 30
