package cpukernel

// #include <stdlib.h>
// #include "chain.h"
import "C"

import (
	"maps"
	"slices"
	"sync"
	"unsafe"
)

// Chain is the name of the kernel that calls others: see chain.h.
const Chain = "quire_chain"

var chained sync.Once

// chainHandler returns the kernel that calls the others.
func chainHandler(others map[string]unsafe.Pointer) unsafe.Pointer {
	chained.Do(func() {
		for _, name := range slices.Sorted(maps.Keys(others)) {
			C.q_chain_add(C.CString(name), C.q_handler(others[name]))
		}
	})
	return unsafe.Pointer(C.quire_chain)
}
