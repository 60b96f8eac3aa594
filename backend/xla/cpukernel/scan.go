package cpukernel

// #include "scan.h"
import "C"

import "unsafe"

// scanHandlers returns the kernels of scan.h.
func scanHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{
		"quire_prefix_sums": unsafe.Pointer(C.quire_prefix_sums), "quire_positions": unsafe.Pointer(C.quire_positions),
		"quire_count_rows": unsafe.Pointer(C.quire_count_rows), "quire_owners": unsafe.Pointer(C.quire_owners),
	}
}
