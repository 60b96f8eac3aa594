package smoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/quire/quire/backend"
)

// options are the flags of "sample smoke".
type options struct {
	topology           string
	backend, only, out string
	points             []string
	minutes, tolerance float64
	bandwidth, peak    float64
}

// point is a number of sequences and the length of their prompts.
type point struct{ slots, context int }

// platform is the backend's platform, as plugins are named.
func (o *options) platform() string { return strings.TrimPrefix(o.backend, backend.XLA) }

// part is one of the parts of a run.
type part struct {
	name, about string
	share       float64 // of the minutes, relative to other parts
	// lacks returns why the part can't be done in this run, "" if it can.
	lacks func(*session) string
	// do returns figures to write, also those that it has when it fails.
	do func(context.Context, *session) (figures any, err error)
}

// session is what the parts of a run share.
type session struct {
	*program
	*options
	points   []point
	folder   string // that was packed
	work     string // removed at the end
	messages io.Writer
	device   *device // once it is described
}

// device describes the machine and its device.
type device struct {
	Sample      string   `json:"sample"`
	System      string   `json:"system"`
	CPUs        int      `json:"cpus"`
	Device      string   `json:"device"`
	Devices     int      `json:"devices"`
	Memory      int64    `json:"free_memory_bytes"`
	Backend     string   `json:"backend"`
	Driver      string   `json:"driver,omitempty"`
	Kernels     []string `json:"kernels,omitempty"` // of attention, or why there is none
	Warnings    []string `json:"warnings,omitempty"`
	flops, rate float64  // as the vendor says, 0 if it is not known
}

// allowed is how far log-probabilities may be from the CPU's in f32.
func (s *session) allowed(dtype string) float64 {
	switch {
	case s.tolerance > 0:
		return s.tolerance
	case dtype == f32:
		return 0.005
	}
	return 0.2
}

// kernelType is the type in which attention has a kernel: on TPUs none was captured in f32.
func (s *session) kernelType() string {
	if s.backend == backend.XLATPU {
		return bf16
	}
	return f32
}

// generate compares the completions of some models, by a job with more flags, with the goldens. A model that fails does
// not keep the others from being compared.
func (s *session) generate(ctx context.Context, name, dtype string, environment []string, models []string,
	more ...string) (all []*comparison, err error) {
	var wrong []error
	for _, model := range models {
		c, _, err := s.generateOne(ctx, name+"-"+model, model, dtype, environment, more...)
		if c != nil {
			all = append(all, c)
		}
		wrong = append(wrong, err)
	}
	return all, errors.Join(wrong...)
}

func (s *session) generateOne(ctx context.Context, name, model, dtype string, environment []string, more ...string) (
	*comparison, *generated, error) {
	goldens, err := readCompletions(goldenFile(s.folder, model))
	if err != nil {
		return nil, nil, err
	}
	g := s.job(name, model)
	g.dtype, g.more = dtype, more
	made, err := g.run(ctx, s.program, environment)
	if err != nil {
		return nil, nil, err
	}
	completions, err := readCompletions(made.file)
	if err != nil {
		return nil, nil, err
	}
	e := made.report.Engine
	c := &comparison{Model: model, Seconds: made.report.TotalSeconds, DeviceSeconds: e.DeviceSeconds, Calls: e.Calls}
	return c, made, c.compare(goldens, completions, s.allowed(dtype))
}

// job is a job of this run on a model, in the type of its kernels.
func (s *session) job(name, model string) *generation {
	return &generation{folder: s.folder, model: model, backend: s.backend, dtype: s.kernelType(), work: s.work,
		name: name}
}

// json runs a process that prints JSON.
func (s *session) json(ctx context.Context, to any, args ...string) error {
	text, err := s.program.do(ctx, nil, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("sample %s: %w", args[0], err)
	}
	return nil
}
