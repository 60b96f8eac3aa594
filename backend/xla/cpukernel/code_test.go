package cpukernel

import (
	"slices"
	"testing"
	"time"
)

// Plain code rounds otherwise than AVX2's: it stands for code that is wrong.
func TestWrongCodeIsNotUsed(t *testing.T) {
	name, err := Features()
	if err != nil {
		t.Fatal(err)
	}
	highest, avx2 := slices.Index(Levels, name), slices.Index(Levels, "avx2")
	if highest < avx2 {
		t.Skip("the level in use is below AVX2")
	}
	const plain = 0
	right := allAt(avx2)
	begin := time.Now()
	if !sameAsAVX2(right) {
		t.Error("AVX2's code is not the same as itself")
	}
	t.Logf("the check took %s", time.Since(begin))
	beyond := avx2 + 1 // which this processor may lack: it is not run
	all := allAt(highest)
	defer useCode(highest, func() bool { return sameAsAVX2(all) })
	for name, of := range map[string]func(*levels) *int{
		"attend":   func(l *levels) *int { return &l.attend },
		"norm":     func(l *levels) *int { return &l.normRows },
		"rope":     func(l *levels) *int { return &l.ropeRows },
		"sample":   func(l *levels) *int { return &l.sampleRow },
		"logprobs": func(l *levels) *int { return &l.logprobsRow },
		"entropy":  func(l *levels) *int { return &l.entropyRow },
	} {
		wrong := right
		*of(&wrong) = plain
		if got := useCode(beyond, func() bool { return sameAsAVX2(wrong) }); got != avx2 {
			t.Errorf("wrong code for %s: it runs with %s", name, Levels[got])
		}
	}
}

// What this processor has beyond AVX2 is right.
func TestCodeIsTheSame(t *testing.T) {
	name, err := Features()
	if err != nil {
		t.Fatal(err)
	}
	if level := slices.Index(Levels, name); level > slices.Index(Levels, "avx2") &&
		!sameAsAVX2(allAt(level)) {
		t.Errorf("the code for %s does not give what AVX2's does", name)
	}
	if has, runs := settleLinear(); runs < has {
		t.Errorf("linear layers are wrong with the code for %s, and run with that for %s", Levels[has], Levels[runs])
	}
}

// Recurrences have the same bytes at any level.
func TestPlainRecurrencesAreTheSame(t *testing.T) {
	name, err := Features()
	if err != nil {
		t.Fatal(err)
	}
	avx2 := slices.Index(Levels, "avx2")
	if slices.Index(Levels, name) < avx2 {
		t.Skip("the level in use is below AVX2")
	}
	with := allAt(avx2)
	with.recurrences = 0
	if !sameAsAVX2(with) {
		t.Error("plain recurrences do not give AVX2's bytes")
	}
}
