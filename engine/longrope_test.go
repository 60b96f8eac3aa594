package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// Rows of a model with a longrope have the divisors of their own length, however long the sequences are that the engine
// may run: short rows have the bytes of an engine for short ones, beside long rows with the same prompts as without
// them, and so have their clones and those that go on from pages that others left.
func TestDivisorsOfLongRopeByRow(t *testing.T) {
	testenv.Slow(t)
	const family, original = "phi4-mini", 32
	engineOf := func(longest int, cache bool) *engine.Engine {
		return newEngine(t, family, engine.Config{DType: dtypes.Float32, MaxSeqs: 8, PageSize: 8, MaxModelLen: longest,
			KVMemory: 1 << 20, NoPrefixCache: !cache})
	}
	prompt := sharing(3, 20)
	short := func() (list []*engine.Request) {
		for i := range 4 {
			list = append(list, sampled(fmt.Sprint("short", i), append(slices.Clone(prompt), int32(i)), 1+i%3, 11, 1))
		}
		return list
	}
	long := func() (list []*engine.Request) {
		for i := range 4 {
			list = append(list, sampled(fmt.Sprint("long", i), append(slices.Clone(prompt), int32(i)), 1+i%3, 12, 1))
		}
		return list
	}
	wide := engineOf(160, true)
	want := collect(t, engineOf(original, false), short()...)
	alone := collect(t, wide, long()...) // whose pages the short rows find
	sameBytes(t, want, collect(t, wide, short()...), true)
	maps.Copy(want, alone)
	mixed := append(long(), short()...)
	sameBytes(t, want, collect(t, wide, mixed...), true)
	slices.Reverse(mixed)
	sameBytes(t, want, collect(t, wide, mixed...), true)
	if s := wide.Stats(); s.HitTokens == 0 {
		t.Error("no page was shared")
	}
	if a, b := want["short0/0"], want["long0/0"]; a.Logprobs[0] == b.Logprobs[0] {
		t.Errorf("a row of %d tokens begins as a longer one: %g", original, a.Logprobs[0])
	}
}
