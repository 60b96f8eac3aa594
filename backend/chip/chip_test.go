package chip_test

import (
	"math"
	"testing"

	"github.com/quire/quire/backend/chip"
)

func TestFind(t *testing.T) {
	for kind, want := range map[string]string{"TPU v5 lite": "TPU v5e", "TPU v5": "TPU v5p", "NVIDIA H200": "H200 SXM",
		"NVIDIA L4": "L4", "NVIDIA L40S": "L40S", "TPU7x": "TPU7x, half a chip"} {
		if c, ok := chip.Find(kind); !ok || c.Name != want {
			t.Errorf("%q is taken for a %q", kind, c.Name)
		}
	}
	if _, ok := chip.Find("cpu"); ok {
		t.Error("a CPU is taken for a chip")
	}
}

// A step of as many tokens as the ridge has is bound by both; one of fewer by memory, one of more by arithmetic.
func TestRidge(t *testing.T) {
	v5e, _ := chip.Find("TPU v5 lite")
	if got := v5e.Ridge(2); math.Abs(got-240.5) > 0.1 {
		t.Errorf("the ridge of %s is at %g tokens", v5e.Name, got)
	}
	const weights = 8e9
	for share, want := range map[float64]string{0.9: "memory", 1.1: "compute"} {
		tokens := share * v5e.Ridge(1)
		if _, bound := v5e.Rate(tokens, 2*tokens*weights, weights); bound != want {
			t.Errorf("a step of %g tokens is %s bound", tokens, bound)
		}
	}
}

// A clock and the matrix units of a core, each of which multiplies and adds once per cycle and cell, give the peak.
func TestClocks(t *testing.T) {
	for kind, cells := range map[string]float64{"TPU v4": 4 * 128 * 128, "TPU v5 lite": 4 * 128 * 128,
		"TPU v5": 8 * 128 * 128, "TPU v6 lite": 4 * 256 * 256} {
		c, _ := chip.Find(kind)
		if peak := 2 * cells * c.Clock; math.Abs(peak/c.FLOPs-1) > 0.01 {
			t.Errorf("%s: the clock gives %.0f TFLOP/s, the peak is %.0f", c.Name, peak/1e12, c.FLOPs/1e12)
		}
	}
}
