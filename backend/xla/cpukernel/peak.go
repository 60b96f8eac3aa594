package cpukernel

/*
#include <stdlib.h>

#include "peak.h"

static float run(q_peak p, int64_t n) { return p.run(n); }
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Peak is what all cores together can do under ideal conditions: the limits that kernels are compared with.
type Peak struct {
	Level   string `json:"level"` // one of [Levels]
	Threads int    `json:"threads"`
	// Float32 and BFloat16 are floating point operations per second of multiply-adds on registers, with sums in
	// float32. If the level has no instruction for bfloat16, its rate is float32's.
	Float32  float64 `json:"float32_flops"`
	BFloat16 float64 `json:"bfloat16_flops"`
	// Int8 is the same for bytes, with sums in int32.
	Int8 float64 `json:"int8_ops"`
	// Read is the rate of reading memory, in bytes per second, from large pages that are not in a cache.
	Read float64 `json:"read_bytes_per_second"`
	// ReadBefore is the same before a run, if it was measured then too. Virtual machines move between processors.
	ReadBefore float64 `json:"read_bytes_per_second_before,omitempty"`
}

const (
	peakTime   = 100 * time.Millisecond // duration of one measurement; the best of peakTries counts
	peakTries  = 5
	peakRounds = 1 << 16  // rounds between readings of the clock, few enough that sums stay exact
	peakBytes  = 96 << 20 // bytes that each thread reads
)

// MeasurePeak measures on so many threads for about three seconds. Concurrent work lowers the result.
func MeasurePeak(threads int) (Peak, error) {
	level, err := Features()
	if err != nil {
		return Peak{}, err
	}
	p := Peak{Level: level, Threads: threads}
	if p.Float32, err = peakFlops(C.q_peak_f32(), threads); err != nil {
		return Peak{}, err
	}
	if p.BFloat16, err = peakFlops(C.q_peak_bf16(), threads); err != nil {
		return Peak{}, err
	}
	if p.Int8, err = peakFlops(C.q_peak_int8(), threads); err != nil {
		return Peak{}, err
	}
	p.Read, err = MeasureRead(threads)
	return p, err
}

// MeasureRead measures [Peak.Read] alone, for about half a second.
func MeasureRead(threads int) (bytesPerSecond float64, err error) {
	words := make([][]uint64, threads)
	for t := range words {
		memory := C.q_peak_memory(peakBytes)
		if memory == nil {
			return 0, fmt.Errorf("cpukernel: cannot allocate %d bytes to measure reading", peakBytes)
		}
		defer C.free(unsafe.Pointer(memory))
		words[t] = unsafe.Slice((*uint64)(unsafe.Pointer(memory)), peakBytes/8)
		for i := range words[t] {
			words[t][i] = 1
		}
	}
	return peakRate(threads, peakBytes, func(thread int) error {
		w := words[thread]
		if sum := C.q_peak_read((*C.uint64_t)(&w[0]), C.int64_t(len(w))); int(sum) != len(w) {
			return fmt.Errorf("cpukernel: reading gave the sum %d, not %d", sum, len(w))
		}
		return nil
	})
}

func peakFlops(loop C.q_peak, threads int) (float64, error) {
	if loop.run == nil {
		return 0, fmt.Errorf("cpukernel: this build has no loop for the level of this processor")
	}
	want := float64(loop.sum) * peakRounds
	return peakRate(threads, float64(loop.flops)*peakRounds, func(int) error {
		// A sum of float32 numbers is rounded; the check is for code that did something else.
		if sum := float64(C.run(loop, peakRounds)); sum < 0.999*want || sum > 1.001*want {
			return fmt.Errorf("cpukernel: the loop that measures the processor gave %g, not %g", sum, want)
		}
		return nil
	})
}

// peakRate calls do on all threads at once, repeatedly, and returns the work per second in the best of several tries.
func peakRate(threads int, work float64, do func(thread int) error) (best float64, err error) {
	for range peakTries {
		var wg sync.WaitGroup
		var mu sync.Mutex
		rate := 0.0
		for t := range threads {
			wg.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				failed := do(t) // wakes the core up
				calls, begin := 0, time.Now()
				for failed == nil && time.Since(begin) < peakTime {
					failed = do(t)
					calls++
				}
				seconds := time.Since(begin).Seconds()
				mu.Lock()
				defer mu.Unlock()
				rate += float64(calls) * work / seconds
				if failed != nil {
					err = failed
				}
			})
		}
		wg.Wait()
		if err != nil {
			return 0, err
		}
		best = max(best, rate)
	}
	return best, nil
}
