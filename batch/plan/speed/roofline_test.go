package speed

import (
	"math"
	"testing"

	"github.com/quire/quire/backend/chip"
)

// The roofline of Llama-3.1-8B, worked out by hand: 6.98e9 weights in layers, 0.525e9 in the output matrix, 131,072
// bytes a token.
func TestRoofline(t *testing.T) {
	w := Work{LayerParams: 6.98e9, HeadParams: 0.525e9, WeightSize: 2, Layers: 32, Heads: 32, HeadDim: 128,
		Read:            func(float64) float64 { return 6.98e9 },
		KVBytesPerToken: 131072,
		Sequences:       64, Context: 2048, Step: 4096}
	v6e, ok := chip.Find("TPU v6 lite")
	if !ok {
		t.Fatal("TPU v6e is not known")
	}
	e := w.Roofline(v6e)
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > want/100 {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	near("bytes of a decode step", e.DecodeBytes, 15.01e9+17.18e9)
	near("operations of a decode step", e.DecodeFLOPs, 64*(15.01e9+1.0737e9))
	near("decode", e.DecodeTokensPerSecond, 64/(32.19e9/1640e9))
	near("prefill", e.PrefillTokensPerSecond, 918e12/(13.96e9+0.537e9))
	if e.DecodeBound != "memory" || e.PrefillBound != "compute" {
		t.Errorf("decode is %s bound, prefill %s bound", e.DecodeBound, e.PrefillBound)
	}
}
