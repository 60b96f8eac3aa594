package plan

import (
	"fmt"

	"github.com/quire/quire/backend/hlo"
)

// Fault is what no plan for an accelerator should have.
type Fault struct {
	Name string // one of those below
	Text string
}

// Names of faults.
const (
	FaultTemporaries = "temporaries"
	FaultCopy        = "copy"
	FaultAttention   = "attention"
)

// mostTemporaries is the share of a device's memory that temporaries may take.
const mostTemporaries = 0.02

// Faults lists what is wrong with the compiled programs: temporaries that take much of the memory, a copy that is
// larger than any matrix, and attention without a kernel.
func (r *Report) Faults() (faults []Fault) {
	if share := float64(r.Temporary) / float64(r.DeviceMemory); share > mostTemporaries {
		faults = append(faults, Fault{FaultTemporaries, fmt.Sprintf("temporaries take %s, %.1f %% of the memory",
			Size(r.Temporary), 100*share)})
	}
	if copied, program := r.largestCopy(); copied != nil {
		faults = append(faults, Fault{FaultCopy, fmt.Sprintf("%s of program %s copies %s, %s; the largest matrix "+
			"has %s", copied.In, program, copied.Array, Size(copied.Bytes), Size(r.Matrix))})
	}
	warnings := kernelWarnings(r.Kernels)
	for _, w := range warnings {
		faults = append(faults, Fault{FaultAttention, w.String()})
	}
	if e := r.Expected; e != nil && !e.Steps.HasKernels && len(warnings) == 0 {
		faults = append(faults, Fault{FaultAttention, "attention runs without a kernel"})
	}
	return faults
}

// largestCopy is the largest copy in a program if it is larger than a matrix; nil otherwise.
func (r *Report) largestCopy() (copied *hlo.Copy, program string) {
	most := r.Matrix
	for _, p := range r.Programs {
		if p.Copied != nil && p.Copied.Bytes > most {
			copied, program, most = p.Copied, p.Name, p.Copied.Bytes
		}
	}
	return copied, program
}
