package schedule

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Seconds of calls are divided as their steps took them, within what the calls' own differences allow; calls that do
// not tell the kinds apart are not divided.
func TestStepClock(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const prompt, decode = 0.030, 0.012
	var c stepClock
	var ofPrompts, all float64
	for range 100 {
		p, d := r.Int32N(6), r.Int32N(17)
		noise := 1 + 0.1*(2*r.Float64()-1)
		seconds := (prompt*float64(p) + decode*float64(d)) * noise
		ofPrompts += prompt * float64(p) * noise
		all += seconds
		c.add(p, d, seconds)
	}
	c.add(0, 0, 5) // a call that only frees rows
	p, d := c.divide()
	if math.Abs(p/ofPrompts-1) > 0.05 || math.Abs((p+d)/all-1) > 1e-9 {
		t.Errorf("prompts took %.3f s of %.3f, not %.3f of %.3f", p, p+d, ofPrompts, all)
	}
	for name, calls := range map[string][][3]float64{
		"none":             nil,
		"few":              {{1, 0, 1}, {0, 1, 1}, {1, 1, 2}},
		"all alike":        {{2, 16, 1}, {2, 16, 1.1}, {2, 16, 0.9}, {2, 16, 1}, {2, 16, 1}},
		"backwards in one": {{1, 1, 5}, {2, 8, 4}, {3, 16, 3}, {1, 2, 5}, {0, 16, 1}},
	} {
		var c stepClock
		for _, call := range calls {
			c.add(int32(call[0]), int32(call[1]), call[2])
		}
		if p, d := c.divide(); name != "backwards in one" && (p != 0 || d != 0) || p < 0 || d < 0 {
			t.Errorf("calls %s are divided into %v and %v seconds", name, p, d)
		}
	}
	var only stepClock
	only.add(0, 16, 2)
	if p, d := only.divide(); p != 0 || d != 2 {
		t.Errorf("a call that only decodes has %v and %v seconds", p, d)
	}
}
