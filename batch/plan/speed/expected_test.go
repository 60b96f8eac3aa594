package speed

import (
	"math"
	"strings"
	"testing"

	"github.com/quire/quire/backend/chip"
	"github.com/quire/quire/backend/hlo"
)

// llama is the work of Llama-3.1-8B on one of 8 chips, and what its program consists of, in round figures.
func llama(t *testing.T) (Work, chip.Chip, hlo.Steps) {
	t.Helper()
	v6e, ok := chip.Find("TPU v6 lite")
	if !ok {
		t.Fatal("TPU v6e is not known")
	}
	w := Work{LayerParams: 6.98e9 / 8, HeadParams: 0.525e9 / 8, WeightSize: 2, Layers: 32, Heads: 4, HeadDim: 128,
		Read: func(float64) float64 { return 6.98e9 / 8 }, KVBytesPerToken: 16384, Sequences: 64, Context: 2048,
		Step: 1024, Tiles: 1, Devices: 8, PageSize: 64, Rounds: 16}
	steps := hlo.Steps{HasKernels: true,
		Decode: hlo.Layers{Once: hlo.Work{Cycles: 4_200_000, Sums: 64 << 20,
			Scatters: hlo.Rows{Operations: 32, Rows: 32 * 64, Bytes: 32 * 64 * 512}}},
		Prompt: hlo.Layers{Once: hlo.Work{Cycles: 4_500_000, Sums: 1 << 30,
			Scatters: hlo.Rows{Operations: 32, Rows: 32 * 1024, Bytes: 32 * 1024 * 512}}},
		Draw:   hlo.Work{Cycles: 511_000, Gathered: 32 << 20},
		Around: hlo.Work{Cycles: 288_000, Small: hlo.Rows{Operations: 40, Rows: 4000, Bytes: 16000}},
	}
	return w, v6e, steps
}

func TestExpected(t *testing.T) {
	w, v6e, steps := llama(t)
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > want/100 {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	e := w.Expected(v6e, steps)
	near("decoding's layers", e.Decode.Layers, 4.2e6/1.75e9)
	near("decoding's attention", e.Decode.Attention, 64*2048*16384/1640e9)
	near("decoding's rows", e.Decode.Rows, 32*64*4096/28e9)
	near("decoding's exchanges", e.Decode.Exchanges, 7./8*(2*64+32)*(1<<20)/200e9)
	near("decoding's sampling", e.Decode.Sampling, 511e3/1.75e9)
	near("decoding's tables", e.Decode.Tables, (288e3+40*2120)/1.75e9)
	near("decoding", e.DecodeTokensPerSecond, 64/e.Decode.Total())
	near("a prompt's rows", e.Prefill.Rows, 32*1024*4096/28e9)
	near("a prompt's sampling", e.Prefill.Sampling, 511e3/2/1.75e9)
	near("a prompt's attention", e.Prefill.Attention, 1024*4*32*4*128*1024/918e12)

	// The loops of attention without a kernel run over the context in blocks of a page.
	steps.Decode.Loops.Cycles, steps.Prompt.Within.Cycles = 38_450*32, 1000
	steps.HasKernels = false
	plain := w.Expected(v6e, steps)
	near("attention without a kernel", plain.Decode.Attention, 32*32*38_450/1.75e9)
	near("a prompt's attention without a kernel", plain.Prefill.Attention, 1000*32*16/1.75e9)
	// Experts loop over tiles.
	steps.HasKernels = true
	w.Tiles, steps.Prompt.Loops.Cycles = 64, 16_803*48
	near("a prompt's layers", w.Expected(v6e, steps).Prefill.Layers, (4.5e6+64*16_803*48+64*1000)/1.75e9)
}

// A plan warns if a step is expected to take much longer than by the roofline, with what makes it so.
func TestExpectedWarnings(t *testing.T) {
	w, v6e, steps := llama(t)
	roofline := w.Roofline(v6e)
	e := w.Expected(v6e, steps)
	copied := &hlo.Copy{Bytes: 192 << 20, Array: "bf16[128,192,4096]", In: "a layer"}
	got := e.Warnings(roofline, copied)
	if len(got) != 2 || !strings.HasPrefix(got[0].String(), "decoding is expected to take 2.") ||
		!strings.HasPrefix(got[1].String(), "a prompt is expected to take") ||
		!strings.Contains(got[1].String(), ": exchanges between devices 9.5 ms, scatters and gathers of rows 4.8 ms") ||
		!strings.HasSuffix(got[0].String(), "; a layer copies bf16[128,192,4096], 192 MiB") {
		t.Errorf("the warnings are %q", got)
	}
	steps.Decode.Loops.Cycles = 38_450 * 32
	steps.HasKernels = false
	e = w.Expected(v6e, steps)
	if got := e.Warnings(roofline, nil); !strings.Contains(got[0].String(), ": attention without a kernel 22.5 ms") {
		t.Errorf("without a kernel the warnings are %q", got)
	}
	none := w.Expected(v6e, hlo.Steps{HasKernels: true, Decode: hlo.Layers{Once: hlo.Work{Cycles: 1_900_000}},
		Prompt: hlo.Layers{Once: hlo.Work{Cycles: 3_500_000}}})
	if got := none.Warnings(roofline, nil); got != nil {
		t.Errorf("the warnings of a fast program are %q", got)
	}
}
