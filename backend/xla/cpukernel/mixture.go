package cpukernel

// #include "mixture.h"
import "C"

import "unsafe"

// mixtureHandlers returns the kernels of mixture.h.
func mixtureHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{"quire_experts": unsafe.Pointer(C.quire_experts)}
}
