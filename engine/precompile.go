package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
)

// Precompiled are the programs of an engine, compiled and nothing more: no weights, no state.
type Precompiled struct {
	Plan     Plan
	Programs []PrecompiledProgram
	// StateBytes is the size of the device state, caches and tables, which the programs update in place; 0 if the
	// program that makes it was not asked for.
	StateBytes int64

	layouts []attention.Layout // layouts of the caches
}

// PrecompiledProgram is one of them.
type PrecompiledProgram struct {
	Name string
	// UpdatesState reports whether the program takes the state and gives it back in place. The program that makes it
	// does not, nor one that reads it.
	UpdatesState bool
	// Executable is the backend's own, which can be asked for its memory and cost.
	Executable compute.Executable
	// Seconds is how long it took to build and to compile.
	Seconds float64

	extras []device.Leaf // arrays of features: they are updated in place, too
}

// Close frees the programs.
func (p *Precompiled) Close() {
	for _, program := range p.Programs {
		program.Executable.Finalize()
	}
	p.Programs = nil
}

// Precompile compiles programs of an engine of this config, one after the other, those named by only or all. It reads
// no weights and puts nothing on a device: cfg.Model may be of models.Dummy, and the backend one that can only compile.
func Precompile(ctx context.Context, cfg Config, only ...string) (*Precompiled, error) {
	return withSmallerKernels(cfg, func() (*Precompiled, error) { return precompile(ctx, cfg, only) })
}

func precompile(ctx context.Context, cfg Config, only []string) (*Precompiled, error) {
	settled, err := config.Settle(cfg)
	if err != nil {
		return nil, err
	}
	gr := settled.Graphs()
	out := &Precompiled{Plan: settled.Plan(), layouts: settled.Sizes.Layouts}
	for _, p := range gr.Programs() {
		if len(only) > 0 && !slices.Contains(only, p.Name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			out.Close()
			return nil, err
		}
		start := time.Now()
		c, err := gr.Compile(cfg.Backend, p)
		if err != nil {
			out.Close()
			return nil, err
		}
		if p.MakesState() {
			for _, s := range c.Executable.Outputs() {
				out.StateBytes += int64(s.Size()) * int64(s.DType.Size())
			}
		}
		out.Programs = append(out.Programs, PrecompiledProgram{
			Name: p.Name, UpdatesState: p.UpdatesState(), Executable: c.Executable,
			Seconds: time.Since(start).Seconds(), extras: c.Extras,
		})
	}
	return out, nil
}

// mostKernelTrials bounds how often programs are built again with other kernels: kernels have two or three sizes of
// blocks.
const mostKernelTrials = 16

// withSmallerKernels makes something that compiles programs. If a kernel does not fit into a core's memory, it makes it
// again from the plan on: the backend then has another kernel, or none.
func withSmallerKernels[T any](cfg Config, make func() (T, error)) (made T, err error) {
	for range mostKernelTrials {
		made, err = make()
		next := tryAgain(err)
		if next == "" {
			break
		}
		if cfg.Log != nil {
			cfg.Log.Warn("a kernel does not fit, another is tried", "err", err, "next", next)
		}
	}
	return made, err
}

// tryAgain returns what replaces the part of a program that did not fit if it is built again; "" if that does not help.
func tryAgain(err error) string {
	var kernel interface{ TryAgain() string }
	if errors.As(err, &kernel) {
		return kernel.TryAgain()
	}
	return ""
}
