package cpukernel

/*
#include "norm.h"
*/
import "C"

import "unsafe"

// normHandlers returns the kernels of norm.h.
func normHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{
		"quire_rms_norm":   unsafe.Pointer(C.quire_rms_norm),
		"quire_layer_norm": unsafe.Pointer(C.quire_layer_norm),
		"quire_rope":       unsafe.Pointer(C.quire_rope),
	}
}
