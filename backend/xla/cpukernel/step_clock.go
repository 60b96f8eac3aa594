package cpukernel

/*
#include "step_clock.h"
*/
import "C"

import (
	"time"
	"unsafe"
)

// stepClockHandlers returns the kernels of step_clock.h.
func stepClockHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{"quire_step_clock": unsafe.Pointer(C.quire_step_clock)}
}

// OnFewerThreads returns how long so far in this process kernels used fewer threads than allowed, because other
// processes occupied the processors: see crowd.h. It only grows: take differences.
func OnFewerThreads() time.Duration { return time.Duration(C.q_step_fewer_ns()) }
