// Package native has the native forms of composites: kernels in C on XLA:CPU, kernels of package mosaic on TPU, and
// kernels of package triton on GPUs.
package native

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/memoryerror"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/internal/program"
	"github.com/quire/quire/backend/xla/mosaic"
	"github.com/quire/quire/backend/xla/triton"
)

// Values of [Options.Mode].
const (
	KernelsAuto = "auto"
	KernelsOff  = "off"
)

// Options are the options of [New].
type Options struct {
	// Platform is the platform that programs are built for, in lower case, and Plugin what they are compiled by.
	Platform string
	Plugin   *pjrt.Plugin
	// Mode is KernelsAuto, also if empty, or KernelsOff.
	Mode string
	// Folder has kernels for TPU in addition to the built-in ones. It may be "".
	Folder string
	// Device describes the first device.
	Device func() (pjrtc.Device, error)
	// StandIn, if not nil, replaces each kernel for TPU.
	StandIn StandIn
}

// Forms are the native forms of composites on a platform, and what became of the composites with kernels for certain
// shapes. It may be used by many goroutines at once.
type Forms struct {
	composites map[string]program.Emitter
	level      string         // instruction set of the kernels in C, "" if there are none
	mosaic     *mosaicKernels // on TPU with kernels on
	triton     *tritonKernels // on GPUs with kernels on
	uses       *kernelUses    // set if mosaic or triton is
}

// New returns the native forms on a platform. It registers the kernels in C with the plugin.
func New(o Options) (*Forms, error) {
	f := &Forms{composites: program.Composites(o.Platform)}
	switch o.Mode {
	case KernelsOff:
		return f, nil
	case "", KernelsAuto:
	default:
		return nil, fmt.Errorf("xla: Options.Kernels is %q, but must be %s or %s", o.Mode, KernelsAuto, KernelsOff)
	}
	switch o.Platform {
	case "cpu":
		level, err := registerCPU(o.Plugin)
		if err != nil {
			return nil, err
		}
		if f.level = level; level != "" {
			for op, k := range cpuKernels {
				f.composites[op] = k.emit
			}
		}
	case "tpu":
		kernels, err := newMosaic(o.Folder, o.StandIn, &kernelUses{})
		if err != nil {
			return nil, err
		}
		f.mosaic, f.uses = kernels, kernels.uses
		f.composites[mosaic.RaggedPagedAttention] = kernels.emitAttention
		f.composites[mosaic.PagedAttentionUpdate] = kernels.emitUpdate
	case "cuda":
		device, err := o.Device()
		if err != nil || !hasTriton(device) {
			return f, err
		}
		f.uses = &kernelUses{}
		f.triton = &tritonKernels{f.uses}
		for _, op := range []string{triton.RaggedPagedAttention, triton.LatentAttention} {
			f.composites[op] = f.triton.emitter(op)
		}
	}
	return f, nil
}

// The functions of a *Forms below are no methods because a backend embeds its forms: its callers have no use for them.

// WithCollectives returns the forms for a group of several devices, which can exchange numbers.
func WithCollectives(f *Forms) *Forms {
	group := *f
	group.composites = maps.Clone(f.composites)
	maps.Copy(group.composites, program.Collectives)
	return &group
}

// Composites returns the native forms by the composites that they replace.
func Composites(f *Forms) map[string]program.Emitter { return f.composites }

// ReplacesComposite reports whether the backend has a native form of the composite op: a call of a function named
// "quire.composite/<op>/<json attributes>/<unique>" is then replaced by it, and the function's body only declares
// shapes.
func (f *Forms) ReplacesComposite(op string) bool { return f.composites[op] != nil }

// ReplacesCompositeFor reports whether the backend has a native form of the composite op for inputs and results of
// these shapes. It asks for more than ReplacesComposite if kernels are made for certain shapes, as on TPU and GPU.
func (f *Forms) ReplacesCompositeFor(op string, attrs json.RawMessage, inputs, results []shapes.Shape) bool {
	if !f.ReplacesComposite(op) {
		if op == latentAttention && f.uses != nil {
			f.uses.note(KernelUse{Composite: op, For: fmt.Sprintf("queries %s", inputs[inputQ]),
				Reason: "no kernel has values that are keys: ordinary operations are used"})
		}
		return false
	}
	var err error
	switch {
	case f.triton != nil:
		if op == triton.RaggedPagedAttention || op == triton.LatentAttention {
			_, err = f.triton.attention(op, attrs, inputs)
		}
		return err == nil
	case f.mosaic == nil:
		// The kernels in C read caches with an axis for heads.
		return !slices.Contains(cacheOps, op) || cacheAxes(op, inputs) == 4
	}
	switch op {
	case mosaic.RaggedPagedAttention:
		_, err = f.mosaic.attention(attrs, inputs)
	case mosaic.PagedAttentionUpdate:
		_, err = f.mosaic.update(attrs, inputs)
	}
	return err == nil
}

// WantsKernels reports whether the backend replaces attention by kernels that are made for certain shapes.
func (f *Forms) WantsKernels() bool { return f.uses != nil }

// HasKernelFor reports whether the backend has a kernel for the composite op and inputs of these shapes. Unlike
// ReplacesCompositeFor it counts only kernels that are made for certain shapes, and is no use of the kernel: it is
// asked before sizes are settled.
func (f *Forms) HasKernelFor(op string, attrs json.RawMessage, inputs []shapes.Shape) bool {
	if f.mosaic == nil {
		return false
	}
	var err error
	switch quiet := f.mosaic.unnoted(); op {
	case mosaic.RaggedPagedAttention:
		_, err = quiet.attention(attrs, inputs)
	case mosaic.PagedAttentionUpdate:
		_, err = quiet.update(attrs, inputs)
	default:
		return false
	}
	return err == nil
}

// SetKernel notes in an error of the compiler which kernel of the program did not fit into a core's memory, and has the
// backend build no more programs with this kernel.
func SetKernel(f *Forms, lack *memoryerror.Kernel, p *program.Builder) {
	if f.mosaic != nil {
		f.mosaic.tooLarge(lack, p.Calls())
	}
}

// KernelUses returns what became of each composite with kernels for certain shapes in the programs built so far, each
// case once. It returns nil on platforms without such kernels and with kernels off.
func (f *Forms) KernelUses() []KernelUse {
	if f.uses == nil {
		return nil
	}
	return f.uses.all()
}

// Kernels returns the instruction set of the kernels in C, one of [cpukernel.Levels], or "off" if there are none.
func (f *Forms) Kernels() string {
	if f.level == "" {
		return KernelsOff
	}
	return f.level
}
