package cpukernel

/*
#include "sampling.h"
*/
import "C"

import (
	"strings"
	"unsafe"
)

// SampleOperands returns the names of the operands of quire_sample that have numbers for each row, in order: the
// parameters, the positions, and the filters.
func SampleOperands() []string { return strings.Fields(C.GoString(C.q_sample_operands())) }

// samplingHandlers returns the kernels of sampling.h.
func samplingHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{
		"quire_sample":                 unsafe.Pointer(C.quire_sample),
		"quire_sample_masked":          unsafe.Pointer(C.quire_sample_masked),
		"quire_sample_filtered":        unsafe.Pointer(C.quire_sample_filtered),
		"quire_sample_filtered_masked": unsafe.Pointer(C.quire_sample_filtered_masked),
		"quire_logprobs":               unsafe.Pointer(C.quire_logprobs),
		"quire_entropy":                unsafe.Pointer(C.quire_entropy),
	}
}
