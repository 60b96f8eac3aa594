package cpukernel

// #include "recurrence.h"
import "C"

import "unsafe"

// recurrenceHandlers returns the kernels of recurrence.h.
func recurrenceHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{
		"quire_short_conv":  unsafe.Pointer(C.quire_short_conv),
		"quire_gated_delta": unsafe.Pointer(C.quire_gated_delta),
		"quire_gate":        unsafe.Pointer(C.quire_gate),
		"quire_mamba2":      unsafe.Pointer(C.quire_mamba2),
		"quire_gated_norm":  unsafe.Pointer(C.quire_gated_norm),
	}
}
