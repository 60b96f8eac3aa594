package cpukernel

/*
#include "step_clock.h"
*/
import "C"

import "unsafe"

// stepClockHandlers are the kernels of step_clock.h.
func stepClockHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{"quire_step_clock": unsafe.Pointer(C.quire_step_clock)}
}
