package cpukernel

// #include "heads.h"
import "C"

import "unsafe"

// headsHandlers are the kernels of heads.h.
func headsHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{"quire_linear_heads": unsafe.Pointer(C.quire_linear_heads)}
}
