package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/chat"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/setup"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/tokenizer"
)

// openEngine opens the model, its tokenizer and chat template, the backend, and the engine on them.
func openEngine(ctx context.Context, env *environment, o *runOptions) (*session, error) {
	model, err := openModel(ctx, env, o.model, o.loadFormat)
	if err != nil {
		return nil, err
	}
	closers := []func(){func() { _ = model.Close() }}
	closeAll := func() {
		for _, c := range slices.Backward(closers) {
			c()
		}
	}
	fail := func(err error) (*session, error) {
		closeAll()
		return nil, err
	}
	s := &session{model: o.model, fingerprint: model.FingerPrint(), vocab: model.Config.VocabSize, config: model.Config,
		close: closeAll}
	tok, err := s.openText(o, model)
	if err != nil {
		return fail(err)
	}
	if o.textOnly {
		return s, nil
	}
	backend, err := openDevices(ctx, env, o.backend, o.kernels, o.parallel.clientOptions(o.backend))
	if err != nil {
		return fail(err)
	}
	closers = append(closers, func() {
		if !o.hosts.lost() { // or its devices may wait for ever for those of another process
			backend.Finalize()
		}
	})
	if plugin, ok := backend.(interface{ DeviceKind() (string, error) }); ok {
		if s.device, err = plugin.DeviceKind(); err != nil {
			return fail(err)
		}
	}
	groups, err := o.parallel.groups(backend, o.hosts.group)
	if err != nil {
		return fail(err)
	}
	cfg := engine.Config{
		Model: model, Tokenizer: tok, MaxSeqs: o.maxSeqs, PageSize: o.pageSize, MaxModelLen: o.maxModelLen,
		PrefillTokens: o.prefillTokens, MaxRounds: o.maxRounds, KVMemory: o.kvBytes, KV: o.kv, DType: o.weightsType,
		KVDType: o.kvType,
		Layers:  o.layers, Weights: o.heldWeights(), ZeroPages: o.zeroPages, Debug: o.debug, Log: o.logger(env),
		Observe: o.observing.called,
	}
	o.pages.configure(&cfg)
	cfg.Hosts = o.hosts.group
	if s.sampler, err = newSampler(ctx, cfg, groups); err != nil {
		return fail(err)
	}
	closers = append(closers, s.sampler.Close)
	if err := o.pages.load(s.engines()...); err != nil {
		return fail(err)
	}
	if err := o.diagnostics.dump(s.sampler); err != nil {
		return fail(err)
	}
	return s, nil
}

// newSampler makes the engine, or one on each of several backends.
func newSampler(ctx context.Context, cfg engine.Config, backends []compute.Backend) (sampler, error) {
	if len(backends) > 1 {
		return engine.NewReplicas(ctx, cfg, backends)
	}
	cfg.Backend = backends[0]
	return engine.New(ctx, cfg)
}

// Ways to have a model's weights.
const (
	loadAuto  = "auto"  // from its files
	loadDummy = "dummy" // random ones of the shapes in its config
)

// openModel opens a model, whose weights are not read yet.
func openModel(ctx context.Context, env *environment, name, loadFormat string) (*models.Checkpoint, error) {
	ref, err := modelRef(ctx, env, name)
	if err != nil {
		return nil, err
	}
	if loadFormat == loadDummy {
		return models.OpenConfig(ref)
	}
	return models.Open(ref)
}

// modelRef turns the names of models that setup knows into paths, fetching them if need be; all else is left as it is.
// A file or folder of such a name comes first.
func modelRef(ctx context.Context, env *environment, name string) (string, error) {
	if storage.IsRemote(name) {
		return fetchRemoteModel(ctx, env, name)
	}
	if _, err := os.Stat(name); err == nil || !slices.Contains(setup.Models(), name) {
		return name, nil
	}
	return setup.EnsureModel(ctx, name, fetchProgress(env.stderr))
}

// openText sets what turns text into tokens. A model without a tokenizer takes prompt_token_ids only.
func (s *session) openText(o *runOptions, model *models.Checkpoint) (*tokenizer.Tokenizer, error) {
	template := ""
	if o.chatTemplate != "model" && o.chatTemplate != "none" {
		src, err := os.ReadFile(o.chatTemplate)
		if err != nil {
			return nil, fmt.Errorf("--chat-template is neither model nor none nor a file that can be read: %w", err)
		}
		template = string(src)
	}
	source := model.TokenizerSource()
	if source == "" {
		none := fmt.Errorf("the model %s has no tokenizer: only prompt_token_ids can be run", o.model)
		s.encode = func(string, bool) ([]int32, error) { return nil, none }
		s.noTemplate = none
		return nil, nil
	}
	tok, err := tokenizer.Open(source)
	if err != nil {
		return nil, err
	}
	s.encode = tok.Encode
	switch o.chatTemplate {
	case "none":
		s.noTemplate = errors.New("messages need a chat template, and --chat-template is none")
		return tok, nil
	case "model":
		if template = model.ChatTemplate(); template == "" {
			template = tok.ChatTemplate()
		}
		if template == "" {
			s.noTemplate = fmt.Errorf(
				"messages need a chat template, and the model %s has none: give --chat-template FILE", o.model)
			return tok, nil
		}
	}
	parsed, err := chat.Parse(template)
	if err != nil {
		return nil, fmt.Errorf("the chat template of --chat-template %s: %w", o.chatTemplate, err)
	}
	special := tok.SpecialIDs()
	options := chat.Options{AddGenerationPrompt: true, BOS: tok.Token(special.BOS), EOS: tok.Token(special.EOS)}
	s.render = func(messages []promptset.Message) (string, error) {
		turns := make([]chat.Message, len(messages))
		for i, m := range messages {
			turns[i] = chat.Message{Role: m.Role, Content: m.Content}
		}
		return parsed.Render(turns, options)
	}
	return tok, nil
}

// lookForDevice says what a backend lacks on this machine, before anything is fetched or opened for it: the plugin of
// an accelerator, and perhaps the accelerator. A plugin that is installed, or named by its path, is used whatever is
// found here.
func lookForDevice(backend string) error {
	if err := setup.Usable(strings.TrimPrefix(backend, "xla:"), true); err != nil {
		return fmt.Errorf("--backend is %s: %w", backend, err)
	}
	return nil
}

// openBackend makes the backend that --backend names, with the kernels that --kernels asks for, fetching the CPU's
// plugin if need be.
func openBackend(ctx context.Context, env *environment, name, kernels string) (compute.Backend, error) {
	return openDevices(ctx, env, name, kernels, nil)
}

// openDevices is openBackend with options for the plugin's client.
func openDevices(ctx context.Context, env *environment, name, kernels string, client map[string]any) (compute.Backend,
	error) {
	spec, err := parseBackend(name)
	if err != nil {
		return nil, err
	}
	cache, err := setup.CacheDir()
	if err != nil {
		return nil, err
	}
	if err := lookForDevice(name); err != nil {
		return nil, err
	}
	backend, err := xla.Open(spec, xla.OpenOptions{
		FindPlugin: func(platform string) (string, error) {
			return setup.UsePlugin(ctx, platform, true, fetchProgress(env.stderr))
		},
		ClientOptions: client,
		CacheDir:      filepath.Join(cache, "programs"),
		Kernels:       kernels,
		KernelDir:     filepath.Join(cache, kernelFolder),
	})
	if err != nil {
		if none := setup.NoDevice(strings.TrimPrefix(name, "xla:")); none != "" {
			err = fmt.Errorf("%w; %s", err, none)
		}
		return nil, fmt.Errorf("--backend is %s: %w", name, err)
	}
	return backend, nil
}

// logger is for the log of a run, which goes to standard error.
func (o *runOptions) logger(env *environment) *slog.Logger {
	return slog.New(o.observing.handler(env.stderr, o.debug))
}
