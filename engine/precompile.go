package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/models/llama"
)

// Precompiled are the programs that an engine would run, compiled and not loaded with anything.
type Precompiled struct {
	Plan Plan
	// StateBytes is the device state's size, KVBytes of it the caches': what the programs update in place.
	StateBytes int64
	Programs   []PrecompiledProgram
}

// PrecompiledProgram is one of them.
type PrecompiledProgram struct {
	Name string
	// Executable is the backend's own; the plan of a job asks it for its memory.
	Executable compute.Executable
	// UpdatesState says that the program takes the state and gives it back.
	UpdatesState bool
	Seconds      float64
}

// Close frees the programs.
func (p *Precompiled) Close() {
	for _, program := range p.Programs {
		if program.Executable != nil {
			program.Executable.Finalize()
		}
	}
}

// Precompile compiles every program that an engine of this config would run, one after the other, and puts nothing on a device: weights
// are not read, so that cfg.Model may be models.Dummy. only names the programs wanted; none means all.
func Precompile(ctx context.Context, cfg Config, only ...string) (*Precompiled, error) {
	if cfg.Model == nil || cfg.Backend == nil {
		return nil, errors.New("engine: Config.Model and Config.Backend are needed")
	}
	plan, err := cfg.plan()
	if err != nil {
		return nil, fmt.Errorf("planning the engine: %w", err)
	}
	gr := &graphs{plan: plan, model: cfg.Model.Config, arrays: llama.Arrays(cfg.Model.Config, cfg.storage()), zeroPages: cfg.ZeroPages, debug: cfg.Debug}
	out := &Precompiled{Plan: plan}
	for _, p := range gr.programs() {
		if err := ctx.Err(); err != nil {
			out.Close()
			return nil, err
		}
		start := time.Now()
		c, err := gr.compile(cfg.Backend, p)
		if err != nil {
			out.Close()
			return nil, err
		}
		out.Programs = append(out.Programs, PrecompiledProgram{Name: p.name, Executable: c.executable, UpdatesState: p.build != nil, Seconds: time.Since(start).Seconds()})
	}
	return out, nil
}
