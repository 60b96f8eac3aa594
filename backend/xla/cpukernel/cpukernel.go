// Package cpukernel provides the operations that XLA:CPU is slow at, in C: kernels that XLA calls through its foreign
// function interface (FFI) as custom calls. It knows neither graphs nor backends: package xla registers the kernels
// with a plugin and emits the calls.
//
// A kernel is one C function that XLA calls with a frame; ffi.h decodes frames and distributes work over XLA's own
// threads. The same source is compiled for several instruction sets and the one to run is picked when it is called,
// at the level that [Features] names; no compiler flag for the local machine is needed.
//
// What a kernel computes for one row, token or sequence depends only on the inputs for that one: not on the others,
// their number, the number of threads or the addresses.
package cpukernel

/*
// Debug information has only names and lines: with variables and types a compilation takes 1.7 times as long.
#cgo CFLAGS: -std=c11 -O3 -Wall -g1
#cgo LDFLAGS: -lm -pthread
#include "cpu.h"
#include "ffi.h"
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// EnvKernels is the environment variable that limits the instruction set of kernels, for tests: one of [Levels].
const EnvKernels = "QUIRE_KERNELS"

// Levels are the instruction sets that kernels are compiled for, each containing the ones before: plain (SSE2 on
// x86-64), avx2 (with FMA and F16C), avx512 (F, BW, DQ, VL), avx512bf16 (with VNNI), amx (BF16 and INT8 tiles). A
// kernel without code for a level runs the next lower one that it has.
var Levels = []string{"plain", "avx2", "avx512", "avx512bf16", "amx"}

var features = sync.OnceValues(func() (string, error) {
	level := int(C.q_processor_level())
	if name := os.Getenv(EnvKernels); name != "" {
		wanted := slices.Index(Levels, name)
		if wanted < 0 {
			return "", fmt.Errorf("cpukernel: %s is %q, but must be one of %s", EnvKernels, name,
				strings.Join(Levels, ", "))
		}
		if wanted > level {
			return "", fmt.Errorf("cpukernel: %s is %s, but this processor has only %s: unset it, or give a lower one",
				EnvKernels, name, Levels[level])
		}
		level = wanted
	}
	C.q_set_level(C.int(level))
	SetThreads(0)
	UseCode(level, CodeAt(level).SameAsAVX2)
	return Levels[level], nil
})

// Features returns the level of [Levels] that kernels run at: what the processor and the operating system support,
// limited by QUIRE_KERNELS. It is an error if that variable has another value, or a level that the processor lacks.
// The level is determined once. Kernels beyond avx2 are first compared with lower levels' results; kernels with wrong
// results run at a lower level, which the log reports.
func Features() (string, error) { return features() }

// SetThreads bounds the threads that a kernel runs on, including the calling one; 0 is as many as Go code runs on at
// once (runtime.GOMAXPROCS: the processors of this process, or what its control group allows). No result depends on
// it.
func SetThreads(n int) {
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	C.q_set_threads(C.int64_t(n))
}

// Handlers returns the kernels by the names that custom calls have as their target. Each is an XLA_FFI_Handler. Call
// [Features] before the first of them runs: until then they run plain code.
func Handlers() map[string]unsafe.Pointer {
	all := map[string]unsafe.Pointer{}
	for _, group := range []map[string]unsafe.Pointer{attentionHandlers(), samplingHandlers(), normHandlers(),
		gemmHandlers(), headsHandlers(), mixtureHandlers(), recurrenceHandlers(), stepClockHandlers(),
		draftHandlers(), scanHandlers(), rowHandlers()} {
		for name, handler := range group {
			all[name] = clocked(name, handler)
		}
	}
	all[Chain] = chainHandler(all)
	return all
}
