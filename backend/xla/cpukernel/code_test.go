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
	right := levels{avx2, avx2, avx2, avx2, avx2, avx2}
	begin := time.Now()
	if !sameAsAVX2(right) {
		t.Error("AVX2's code is not the same as itself")
	}
	t.Logf("the check took %s", time.Since(begin))
	beyond := avx2 + 1 // which this processor may lack: it is not run
	all := levels{highest, highest, highest, highest, highest, highest}
	defer useCode(highest, func() bool { return sameAsAVX2(all) })
	for name, wrong := range map[string]levels{
		"attend": {plain, avx2, avx2, avx2, avx2, avx2}, "norm": {avx2, avx2, plain, avx2, avx2, avx2},
		"rope": {avx2, avx2, avx2, plain, avx2, avx2}, "sample": {avx2, avx2, avx2, avx2, plain, avx2},
		"logprobs": {avx2, avx2, avx2, avx2, avx2, plain},
	} {
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
		!sameAsAVX2(levels{level, level, level, level, level, level}) {
		t.Errorf("the code for %s does not give AVX2's bytes", name)
	}
	if has, runs := settleLinear(); runs < has {
		t.Errorf("linear layers are wrong with the code for %s, and run with that for %s", Levels[has], Levels[runs])
	}
}
