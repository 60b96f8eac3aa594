package xla

import (
	"errors"
	"fmt"

	"github.com/quire/quire/backend/xla/internal/hlotext"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// Memory is what a program needs of a device's memory while it runs, in bytes.
type Memory struct {
	Code      int64 `json:"code"`
	Arguments int64 `json:"arguments"`
	Outputs   int64 `json:"outputs"`
	// Aliased is the part of Outputs that takes the place of donated arguments.
	Aliased   int64 `json:"aliased"`
	Temporary int64 `json:"temporary"`
	// Total is all of it, padding counted: what the device must have free. It is the compiler's own sum where it gives
	// one, as TPU does.
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
		m, err = pjrtc.MemoryOf(e.loaded)
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

// Cost is the compiler's account of a program. The body of a loop counts once, whatever its rounds.
type Cost struct {
	FLOPs         float64 `json:"flops"`
	BytesAccessed float64 `json:"bytes_accessed"`
	// OptimalSeconds is the compiler's own estimate of the time on its chip; 0 where it makes none.
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
		p, err = pjrtc.CostOf(e.loaded)
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
func (e *Executable) OptimizedHLO() (string, error) {
	if err := e.valid(); err != nil {
		return "", err
	}
	optimized := func() ([]byte, string, error) { return pjrtc.OptimizedProgram(e.loaded) }
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
	text, err := hlotext.Print(program)
	if err != nil {
		return "", fmt.Errorf("xla: the optimized form of program %q: %w", e.name, err)
	}
	return text, nil
}
