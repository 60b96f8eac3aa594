package xla

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/memoryerror"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/internal/programcache"
)

// Executable is a compiled program. It implements [compute.Executable] and may be executed by many goroutines at once.
type Executable struct {
	// CompileTime is how long it took to compile the program or to load it from the cache.
	CompileTime time.Duration
	// FromCache reports that the program was loaded from the cache on disk.
	FromCache bool

	backend     *Backend
	loaded      *pjrt.LoadedExecutable // nil where ahead is set
	ahead       programcache.Ahead     // compiled for a topology, on no device
	name        string
	text        []byte
	params      []string
	paramShapes []shapes.Shape
	outputs     []shapes.Shape
	portable    bool // runs on the device Execute names
}

var _ compute.Executable = (*Executable)(nil)

// load compiles the program, or takes it from the cache.
func (b *Backend) load(p *builder, text []byte) (*Executable, error) {
	e := &Executable{
		backend: b, name: p.name, text: text, params: p.main.params, paramShapes: p.main.paramShapes,
		outputs:  p.main.outputs,
		portable: p.device < 0 && b.spmd() == 1,
	}
	start := time.Now()
	defer func() { e.CompileTime = time.Since(start) }()
	var key string
	if b.topology != nil {
		return b.loadAhead(p, e)
	}
	if b.cache != nil {
		key = b.cache.Key(text, b.assigned(p.device))
		if e.loaded = b.loadCached(key, e.portable); e.loaded != nil {
			e.FromCache = true
			b.cacheLoads.Add(1)
			return e, nil
		}
	}
	config := b.client.Compile().WithStableHLO(text)
	switch on := b.assigned(p.device); {
	case len(on) > 1:
		config = config.WithShardy(len(on)).WithDeviceAssignment(on)
	case len(on) == 1:
		config = config.WithDeviceAssignment(on)
	}
	var err error
	if e.loaded, err = config.Done(); err != nil {
		return nil, b.failed(p, err)
	}
	if err := pjrtc.SetPartitions(e.loaded, b.here()); err != nil {
		return nil, err
	}
	b.compiles.Add(1)
	if b.cache != nil {
		b.cache.Store(key, func() ([]byte, error) { return pjrtc.Serialize(e.loaded) })
	}
	pjrtc.Trim()
	return e, nil
}

// loadCached returns the program of a key, or nil if the cache has none that can be used.
func (b *Backend) loadCached(key string, portable bool) *pjrt.LoadedExecutable {
	body := b.cache.Read(key)
	if body == nil {
		return nil
	}
	loaded, err := pjrtc.Load(b.client, body, portable, b.here())
	if err != nil {
		slog.Info("compiled program in the cache is not usable, compiling again", "file", b.cache.Path(key), "err",
			err)
		return nil
	}
	return loaded
}

// failed names the program in an error of the compiler. One that is about memory becomes an [*OutOfMemoryError] or a
// [*KernelMemoryError]. After that of a kernel the backend no longer builds programs with this kernel.
func (b *Backend) failed(p *builder, err error) error {
	err = memoryerror.Compiling(p.name, err)
	var lack *KernelMemoryError
	if errors.As(err, &lack) && b.mosaic != nil {
		b.mosaic.tooLarge(lack, p.calls)
	}
	return err
}

// assigned is the devices that a program is compiled for, by their numbers; none for one that runs on whichever device
// Execute names. device is the one that the program names, by its place in a group, or -1.
func (b *Backend) assigned(device int) []int {
	switch {
	case b.spmd() > 1:
		return b.ids
	case device < 0:
		return nil
	case b.group != nil:
		return []int{b.ids[device]}
	}
	return []int{device}
}

func (e *Executable) valid() error {
	if err := e.backend.valid(); err != nil {
		return err
	}
	if e.loaded == nil && e.ahead == nil {
		return fmt.Errorf("xla: program %q was finalized", e.name)
	}
	return nil
}

// Name returns the name the program was built with.
func (e *Executable) Name() string { return e.name }

// StableHLO returns the program's text before optimization.
func (e *Executable) StableHLO() string { return string(e.text) }

// MemoryStats returns the program's memory on the device by use, in bytes. Aliases is the part of the outputs that
// takes the place of donated inputs.
func (e *Executable) MemoryStats() (pjrt.ExecutableMemoryUsageStats, error) {
	if err := e.valid(); err != nil {
		return pjrt.ExecutableMemoryUsageStats{}, err
	}
	if e.ahead != nil {
		m, err := e.ahead.Memory()
		return pjrt.ExecutableMemoryUsageStats{GeneratedCode: m.Code, Inputs: m.Arguments, Outputs: m.Outputs,
			Aliases: m.Aliased, Temporary: m.Temporary}, err
	}
	return e.loaded.OnDeviceMemoryUsageStats, nil
}

// Finalize implements [compute.Executable].
func (e *Executable) Finalize() {
	if e.valid() == nil {
		if e.ahead != nil {
			e.ahead.Close()
		} else {
			_ = e.loaded.Destroy()
		}
	}
	e.loaded, e.ahead = nil, nil
}

// Inputs implements [compute.Executable].
func (e *Executable) Inputs() ([]string, []shapes.Shape) { return e.params, e.paramShapes }

// Outputs implements [compute.Executable].
func (e *Executable) Outputs() []shapes.Shape { return e.outputs }

// Execute implements [compute.Executable]. It returns when the device is done. Donated inputs are invalid afterwards;
// their storage is used for outputs where the program was built to (see [Backend.Donating]).
func (e *Executable) Execute(inputs []compute.Buffer, donate []bool, device compute.DeviceNum) ([]compute.Buffer,
	error) {
	if err := e.valid(); err != nil {
		return nil, err
	}
	if e.ahead != nil {
		return nil, fmt.Errorf("xla: executing program %q: %w", e.name, e.backend.topology.noDevice())
	}
	if len(inputs) != len(e.params) {
		return nil, fmt.Errorf("xla: program %q takes %d inputs, got %d", e.name, len(e.params), len(inputs))
	}
	if len(donate) != 0 && len(donate) != len(inputs) {
		return nil, fmt.Errorf("xla: program %q has %d inputs, but %d flags say which are donated", e.name, len(inputs),
			len(donate))
	}
	// What PJRT takes and gives is the first device's buffers, then the second's and so on.
	devices := e.backend.here()
	buffers := make([]*pjrt.Buffer, devices*len(inputs))
	for i, input := range inputs {
		b, ok := input.(*Buffer)
		if !ok || !b.backend.sameDevices(e.backend) || len(b.parts) != devices {
			return nil, fmt.Errorf("xla: input %q of program %q is a buffer of another backend", e.params[i], e.name)
		}
		if err := b.valid(); err != nil {
			return nil, fmt.Errorf("xla: input %q of program %q: %w", e.params[i], e.name, err)
		}
		if !b.shape.Equal(e.paramShapes[i]) {
			return nil, fmt.Errorf("xla: input %q of program %q is %s, not %s", e.params[i], e.name, b.shape,
				e.paramShapes[i])
		}
		for d, part := range b.parts {
			buffers[d*len(inputs)+i] = part
		}
	}
	run := e.loaded.Execute(buffers...)
	if len(donate) != 0 {
		run = run.SetDonate(slices.Repeat(donate, devices))
	}
	if e.portable {
		d, err := e.backend.device(device)
		if err != nil {
			return nil, err
		}
		run = run.OnDevice(d)
	}
	results, err := run.Done()
	if err != nil {
		return nil, memoryerror.Running(e.name, err)
	}
	out := make([]compute.Buffer, len(e.outputs))
	for i := range out {
		b := &Buffer{backend: e.backend, shape: e.outputs[i]}
		for d := range devices {
			b.parts = append(b.parts, results[d*len(out)+i])
		}
		out[i] = b
	}
	return out, nil
}

// Future is the result of an execution that goes on while the host does other work.
type Future struct {
	done    chan struct{}
	outputs []compute.Buffer
	err     error
}

// ExecuteAsync starts Execute on device 0 (or the program's own) and returns at once. The inputs must stay as they are,
// and donated ones must not be used, until Await returns.
func (e *Executable) ExecuteAsync(inputs []compute.Buffer, donate []bool) *Future {
	f := &Future{done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.outputs, f.err = e.Execute(inputs, donate, 0)
	}()
	return f
}

// Await waits for the execution to end and returns its outputs. It may be called more than once.
func (f *Future) Await() ([]compute.Buffer, error) {
	<-f.done
	return f.outputs, f.err
}
