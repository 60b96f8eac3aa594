package cpukernel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/quire/quire/backend/xla/cpukernel"
)

// Plain code rounds otherwise than AVX2's: it stands for code that is wrong.
func TestWrongCodeIsNotUsed(t *testing.T) {
	name, err := cpukernel.Features()
	if err != nil {
		t.Fatal(err)
	}
	highest, avx2 := slices.Index(cpukernel.Levels, name), slices.Index(cpukernel.Levels, "avx2")
	if highest < avx2 {
		t.Skip("the level in use is below AVX2")
	}
	const plain = 0
	right := cpukernel.CodeAt(avx2)
	begin := time.Now()
	if !right.SameAsAVX2() {
		t.Error("AVX2's code is not the same as itself")
	}
	t.Logf("the check took %s", time.Since(begin))
	beyond := avx2 + 1 // which this processor may lack: it is not run
	all := cpukernel.CodeAt(highest)
	defer cpukernel.UseCode(highest, all.SameAsAVX2)
	for name, of := range map[string]func(*cpukernel.Code) *int{
		"attend":   func(l *cpukernel.Code) *int { return &l.Attend },
		"norm":     func(l *cpukernel.Code) *int { return &l.NormRows },
		"rope":     func(l *cpukernel.Code) *int { return &l.RopeRows },
		"sample":   func(l *cpukernel.Code) *int { return &l.SampleRow },
		"logprobs": func(l *cpukernel.Code) *int { return &l.LogprobsRow },
		"entropy":  func(l *cpukernel.Code) *int { return &l.EntropyRow },
	} {
		wrong := right
		*of(&wrong) = plain
		if got := cpukernel.UseCode(beyond, wrong.SameAsAVX2); got != avx2 {
			t.Errorf("wrong code for %s: it runs with %s", name, cpukernel.Levels[got])
		}
	}
}

// What this processor has beyond AVX2 is right.
func TestCodeIsTheSame(t *testing.T) {
	name, err := cpukernel.Features()
	if err != nil {
		t.Fatal(err)
	}
	if level := slices.Index(cpukernel.Levels, name); level > slices.Index(cpukernel.Levels, "avx2") &&
		!cpukernel.CodeAt(level).SameAsAVX2() {
		t.Errorf("the code for %s does not give what AVX2's does", name)
	}
	if has, runs := cpukernel.SettleLinear(); runs < has {
		t.Errorf("linear layers are wrong with the code for %s, and run with that for %s", cpukernel.Levels[has],
			cpukernel.Levels[runs])
	}
}

// Recurrences have the same bytes at any level.
func TestPlainRecurrencesAreTheSame(t *testing.T) {
	name, err := cpukernel.Features()
	if err != nil {
		t.Fatal(err)
	}
	avx2 := slices.Index(cpukernel.Levels, "avx2")
	if slices.Index(cpukernel.Levels, name) < avx2 {
		t.Skip("the level in use is below AVX2")
	}
	with := cpukernel.CodeAt(avx2)
	with.Recurrences = 0
	if !with.SameAsAVX2() {
		t.Error("plain recurrences do not give AVX2's bytes")
	}
}
