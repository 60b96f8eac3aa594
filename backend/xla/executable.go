package xla

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/hlotext"
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
	loaded      *loadedProgram     // nil if ahead is set
	ahead       programcache.Ahead // compiled for a topology, on no device
	name        string
	text        []byte
	params      []string
	paramShapes []shapes.Shape
	outputs     []shapes.Shape
	portable    bool // runs on the device that the caller of Execute names
}

var _ compute.Executable = (*Executable)(nil)

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
			e.backend.loaded.release(e.loaded)
		}
	}
	e.loaded, e.ahead = nil, nil
}

// Inputs implements [compute.Executable].
func (e *Executable) Inputs() ([]string, []shapes.Shape) { return e.params, e.paramShapes }

// Outputs implements [compute.Executable].
func (e *Executable) Outputs() []shapes.Shape { return e.outputs }

// Execute implements [compute.Executable]. It returns when the device is done. Donated inputs are invalid afterwards;
// their storage is used for outputs if the program was built so (see [Backend.Donating]).
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
	// PJRT takes and returns the first device's buffers, then the second's, and so on.
	devices := e.backend.here()
	buffers := make([]*pjrt.Buffer, devices*len(inputs))
	for i, input := range inputs {
		b, ok := input.(*Buffer)
		if !ok || !b.backend.same(&e.backend.devices) || len(b.parts) != devices {
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
	var on *pjrt.Device
	if e.portable {
		var err error
		if on, err = e.backend.device(device); err != nil {
			return nil, err
		}
	}
	if len(donate) == 0 {
		donate = nil
	}
	results, err := pjrtc.Execute(e.loaded.LoadedExecutable, e.backend.client, buffers, donate, devices, on)
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

// Future is the result of an execution that continues while the host does other work.
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

// Memory is what a program needs of a device's memory while it runs, in bytes.
type Memory struct {
	Code      int64 `json:"code"`
	Arguments int64 `json:"arguments"`
	Outputs   int64 `json:"outputs"`
	// Aliased is the part of Outputs that takes the place of donated arguments.
	Aliased   int64 `json:"aliased"`
	Temporary int64 `json:"temporary"`
	// Total is all of the memory, including padding, that must be free on the device. It is the compiler's own sum if
	// it gives one, as on TPU.
	Total int64 `json:"total"`
}

// Memory returns what the program needs.
func (e *Executable) Memory() (Memory, error) {
	if err := e.valid(); err != nil {
		return Memory{}, err
	}
	var m pjrtc.Memory
	var err error
	if e.ahead != nil {
		m, err = e.ahead.Memory()
	} else {
		m, err = pjrtc.MemoryOf(e.loaded.LoadedExecutable)
	}
	if err != nil {
		return Memory{}, fmt.Errorf("xla: the memory of program %q: %w", e.name, err)
	}
	total := m.TotalAllocation + max(m.Code, 0)
	if m.TotalAllocation <= 0 {
		total = m.Arguments + m.Outputs - m.Aliased + m.Temporary + max(m.Code, 0)
	}
	return Memory{Code: m.Code, Arguments: m.Arguments, Outputs: m.Outputs, Aliased: m.Aliased, Temporary: m.Temporary,
		Total: total}, nil
}

// Cost is the compiler's account of a program. The body of a loop counts once, for any number of rounds.
type Cost struct {
	FLOPs         float64 `json:"flops"`
	BytesAccessed float64 `json:"bytes_accessed"`
	// OptimalSeconds is the compiler's own estimate of the time on its chip; 0 if it makes none.
	OptimalSeconds float64 `json:"optimal_seconds,omitempty"`
}

// ErrNoCost is wrapped by Cost's error on a platform that has no such account, such as XLA:CPU.
var ErrNoCost = errors.New("the plugin does not count a program's cost")

// Cost returns the compiler's account of the program.
func (e *Executable) Cost() (Cost, error) {
	if err := e.valid(); err != nil {
		return Cost{}, err
	}
	var p map[string]float64
	var err error
	if e.ahead != nil {
		p, err = e.ahead.Cost()
	} else {
		p, err = pjrtc.CostOf(e.loaded.LoadedExecutable)
	}
	var refused *pjrtc.Error
	switch {
	case errors.As(err, &refused) && refused.Code == pjrtc.CodeUnimplemented:
		return Cost{}, fmt.Errorf("xla: program %q: %w", e.name, ErrNoCost)
	case err != nil:
		return Cost{}, fmt.Errorf("xla: the cost of program %q: %w", e.name, err)
	}
	return Cost{FLOPs: p["flops"], BytesAccessed: p["bytes accessed"], OptimalSeconds: p["optimal_seconds"]}, nil
}

// OptimizedHLO returns the program as the plugin runs it, as text close to XLA's own: each instruction with its shape
// and layout, opcode, operands, and the computations and targets it calls. The compiler for TPUs adds the cycles that
// it expects. Literals, metadata and other attributes are left out. The text serves checks such as "no copy of the
// cache's shape", and shows what a step consists of if there is no device.
func (e *Executable) OptimizedHLO() (string, error) { return e.optimized(hlotext.Print) }

// Choices returns a digest of what the compiler chose for the operations of the program, such as the forms of products
// that it measured on a GPU.
func (e *Executable) Choices() (string, error) { return e.optimized(hlotext.Choices) }

// optimized returns what read makes of the optimized program, a serialized xla.HloModuleProto.
func (e *Executable) optimized(read func(module []byte) (string, error)) (string, error) {
	if err := e.valid(); err != nil {
		return "", err
	}
	optimized := func() ([]byte, string, error) { return pjrtc.OptimizedProgram(e.loaded.LoadedExecutable) }
	if e.ahead != nil {
		optimized = e.ahead.OptimizedProgram
	}
	program, format, err := optimized()
	if err != nil {
		return "", fmt.Errorf("xla: the optimized form of program %q: %w", e.name, err)
	}
	switch format {
	case "mlir":
		return string(program), nil
	case "hlo_with_config":
		if program, err = hlotext.Module(program); err != nil {
			return "", fmt.Errorf("xla: the optimized form of program %q: %w", e.name, err)
		}
	case "hlo":
	default:
		return "", fmt.Errorf("xla: the optimized form of program %q comes as %q, which is not known", e.name, format)
	}
	text, err := read(program)
	if err != nil {
		return "", fmt.Errorf("xla: the optimized form of program %q: %w", e.name, err)
	}
	return text, nil
}
