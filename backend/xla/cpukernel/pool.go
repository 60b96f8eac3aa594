package cpukernel

/*
#include "pool.h"
*/
import "C"

// CheckPool runs jobs of two stages on threads, some of them missing and some late, and returns what the pool did
// wrong, or "".
func CheckPool(threads, refused, late, firstTasks, tasks int) string {
	wrong := C.q_pool_check(C.int64_t(threads), C.int64_t(refused), C.int64_t(late), C.int64_t(firstTasks),
		C.int64_t(tasks))
	if wrong == nil {
		return ""
	}
	return C.GoString(wrong)
}

// BusyPool runs jobs of one task per thread; each task is busy for so many nanoseconds.
func BusyPool(threads, jobs, nanoseconds int) {
	C.q_pool_busy(C.int64_t(threads), C.int64_t(jobs), C.int64_t(nanoseconds))
}
