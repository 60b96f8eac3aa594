package load

import (
	"context"
	"slices"

	"github.com/gomlx/compute"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/engine/encode"
	"github.com/quire/quire/models"
)

// EncoderConfig is what the program of a job's encoder follows from, all but the backend.
func EncoderConfig(p *process.Process, j *spec.Job, model *models.Checkpoint) encode.Config {
	cfg := j.Engine.Config()
	return encode.Config{Model: model, DType: cfg.DType, Weights: cfg.Weights, Pooling: j.Vectors.Pooling,
		MaxModelLen: cfg.MaxModelLen, StepTokens: cfg.PrefillTokens, Log: p.Log}
}

// openEncoder opens the device and makes the encoder on it. What is opened is closed by what closes gets.
func openEncoder(ctx context.Context, s *process.Session, p *process.Process, j *spec.Job, model *models.Checkpoint,
	closes func(func())) error {
	backend, err := openBackend(ctx, s, p, j, closes)
	if err != nil {
		return err
	}
	groups, err := Groups(&j.Engine, backend)
	if err != nil {
		return err
	}
	if s.Sampler, err = newEncoders(ctx, EncoderConfig(p, j, model), groups); err != nil {
		return err
	}
	closes(s.Sampler.Close)
	nameTuning(s, groups[0], p.Log)
	if err := p.ProfileDevice.Start(backend); err != nil {
		return err
	}
	closes(func() { endProfile(p) })
	return nil
}

// newEncoders makes the encoder, or one on each of several backends.
func newEncoders(ctx context.Context, cfg encode.Config, backends []compute.Backend) (process.Sampler, error) {
	if len(backends) > 1 {
		return encode.NewReplicas(ctx, cfg, backends)
	}
	cfg.Backend = backends[0]
	return encode.New(ctx, cfg)
}

// countEnds returns how many special tokens a tokenizer puts after each text.
func countEnds(encode func(text string, special bool) ([]int32, error)) (int, error) {
	const text = "a"
	plain, err := encode(text, false)
	if err != nil {
		return 0, err
	}
	whole, err := encode(text, true)
	if err != nil {
		return 0, err
	}
	for start := 0; start+len(plain) <= len(whole) && len(plain) > 0; start++ {
		if slices.Equal(whole[start:start+len(plain)], plain) {
			return len(whole) - start - len(plain), nil
		}
	}
	return 0, nil
}

// openBackend opens the devices of a job. What is opened is closed by what closes gets.
func openBackend(ctx context.Context, s *process.Session, p *process.Process, j *spec.Job,
	closes func(func())) (compute.Backend, error) {
	backend, err := OpenDevices(ctx, p, &j.Engine)
	if err != nil {
		return nil, err
	}
	closes(func() {
		if !p.Hosts.Lost() { // otherwise its devices may wait forever for another process' devices
			backend.Finalize()
		}
	})
	if err := p.ProfileDevice.Check(backend); err != nil {
		return nil, err
	}
	if plugin, ok := backend.(interface{ DeviceKind() (string, error) }); ok {
		if s.Device, err = plugin.DeviceKind(); err != nil {
			return nil, err
		}
	}
	return backend, nil
}
