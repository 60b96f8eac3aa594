package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// Ten thousand requests take no more memory, of the host and of the device, which is the process's on the CPU, than the
// first thousand did, and nothing is compiled for them.
func TestMemoryIsFlat(t *testing.T) {
	testenv.Slow(t)
	const requests, settled = 10_000, 2_000
	e := contractEngine(t, func(c *engine.Config) { c.MaxSeqs, c.Debug = 64, false })
	b := testenv.XLA(t)
	compiles, loads := b.Compiles(), b.CacheLoads()
	rng := rand.New(rand.NewPCG(5, 5))
	source := func(yield func(*engine.Request) bool) {
		for i := range requests {
			prompt := make([]int32, 1+rng.IntN(60))
			for j := range prompt {
				prompt[j] = int32(rng.IntN(256))
			}
			if !yield(sampled(fmt.Sprint(i), prompt, 1, 1+rng.IntN(10), 1)) {
				return
			}
		}
	}
	done, base, peak := 0, int64(0), int64(0)
	for c, err := range e.Run(context.Background(), source) {
		if err != nil || c.Err != nil {
			t.Fatal(err, c.Err)
		}
		if done++; done%1000 == 0 {
			debug.FreeOSMemory()
			now := resident(t)
			t.Logf("%d requests: %d MiB", done, now>>20)
			switch {
			case done == settled:
				base = now
			case done > settled:
				peak = max(peak, now)
			}
		}
	}
	if done != requests {
		t.Errorf("%d completions", done)
	}
	if grown := peak - base; grown > 16<<20 {
		t.Errorf("%d requests took %d MiB more than %d", requests, grown>>20, settled)
	}
	if b.Compiles() != compiles || b.CacheLoads() != loads {
		t.Errorf("%d programs were compiled and %d loaded while the engine ran", b.Compiles()-compiles,
			b.CacheLoads()-loads)
	}
	if s := e.Stats(); s.PeakPages > s.Pages {
		t.Errorf("peak of %d pages of %d", s.PeakPages, s.Pages)
	}
}

// resident is the memory that the process has, in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("the system does not tell the memory of a process: ", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
