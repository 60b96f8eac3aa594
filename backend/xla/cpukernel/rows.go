package cpukernel

// #include "rows.h"
import "C"

import "unsafe"

// rowHandlers are the kernels of rows.h.
func rowHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{
		"quire_row_attention": unsafe.Pointer(C.quire_row_attention),
		"quire_pool_rows":     unsafe.Pointer(C.quire_pool_rows),
	}
}
