package cpukernel

/*
#include "low_rank.h"
#include "mixture.h"
*/
import "C"

import "unsafe"

// mixtureHandlers returns the kernels of mixture.h and low_rank.h, whose rows have matrices of their own.
func mixtureHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{
		"quire_experts":  unsafe.Pointer(C.quire_experts),
		"quire_low_rank": unsafe.Pointer(C.quire_low_rank),
	}
}
