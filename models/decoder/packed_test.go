package decoder_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// eachQuantized calls f with the quantized checkpoints: one of each form in which devices hold them if -short.
func eachQuantized(t *testing.T, f func(t *testing.T, c *models.Checkpoint, name string)) {
	dirs, err := filepath.Glob(testenv.Path("testdata", "quantized", "*", "config.json"))
	if err != nil || len(dirs) < 10 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		name := filepath.Base(filepath.Dir(dir))
		switch name {
		case "awq", "ct-w4a16", "gptq-int8", "fp8-block", "gptq-order":
		default:
			if testing.Short() {
				continue
			}
		}
		t.Run(name, func(t *testing.T) {
			c, err := models.Open(filepath.Dir(dir))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			f(t, c, name)
		})
	}
}

// A quantized checkpoint takes at most 1.1 times its file on the device, but for matrices whose columns are in another
// order than their groups, which are floats there.
func TestMemoryOfQuantized(t *testing.T) {
	eachQuantized(t, func(t *testing.T, c *models.Checkpoint, name string) {
		bytes, floats := int64(0), []string{}
		for _, a := range decoder.Arrays(c.Config, decoder.Storage{DType: c.Config.DType, Blocks: c.Blocks}) {
			bytes += int64(a.Shape.Memory())
			if f, ok := a.Matrix(); ok && !f.Blocks.Is() && a.Name != "embed" {
				floats = append(floats, a.Name)
			}
		}
		stored := c.StoredBytes()
		t.Logf("%d bytes of %d that are stored: %.3f", bytes, stored, float64(bytes)/float64(stored))
		inOrder := strings.HasSuffix(name, "order")
		if inOrder != (float64(bytes) > 1.1*float64(stored)) || inOrder && len(floats) == 0 {
			t.Errorf("%d bytes are held of %d that are stored, matrices as floats: %v", bytes, stored, floats)
		}
	})
}

// So do GGUF files whose matrices stay in their blocks, packed for the kernels.
func TestMemoryOfGGUF(t *testing.T) {
	for _, name := range []string{"smollm2", "gemma3"} {
		t.Run(name, func(t *testing.T) {
			path, err := setup.FindModel(name)
			if err != nil {
				t.Skip(err)
			}
			c, err := models.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			bytes := int64(0)
			for _, a := range decoder.Arrays(c.Config, decoder.Storage{Backend: testenv.XLA(t),
				DType: dtypes.BFloat16, Blocks: c.Blocks}) {
				bytes += int64(a.Shape.Memory())
			}
			ratio := float64(bytes) / float64(c.StoredBytes())
			t.Logf("%d bytes of %d that are stored: %.3f", bytes, c.StoredBytes(), ratio)
			if ratio > 1.1 || ratio < 0.9 {
				t.Errorf("%d bytes are held of %d that are stored", bytes, c.StoredBytes())
			}
		})
	}
}

// A quantized checkpoint held as it is stored scores as its floats do: exactly where nothing rounds activations, and
// within their rounding with the kernels of CPUs.
func TestLogitsOfQuantized(t *testing.T) {
	prompt := []int32{1, 5, 9, 2, 6}
	eachQuantized(t, func(t *testing.T, c *models.Checkpoint, name string) {
		floats := decoder.Storage{Backend: testenv.XLAWithoutKernels(t), DType: dtypes.Float32}
		want := scorerOf(t, c, floats)(prompt)
		kept := floats
		kept.Blocks = c.Blocks
		if off := offBy(scorerOf(t, c, kept)(prompt), want); !(off < 1e-5) {
			t.Errorf("without kernels, scores are off by %.2g of their size", off)
		}
		kept.Backend = testenv.XLA(t)
		limit := 0.03
		if strings.HasPrefix(name, "fp8") {
			limit = 1e-5
		}
		if off := offBy(scorerOf(t, c, kept)(prompt), want); !(off < limit) {
			t.Errorf("with kernels, scores are off by %.2g of their size", off)
		}
	})
}

// offBy returns the size of a difference relative to the wanted numbers.
func offBy(got, want []float32) float64 {
	var wrong, all float64
	for i := range want {
		wrong += math.Pow(float64(got[i]-want[i]), 2)
		all += math.Pow(float64(want[i]), 2)
	}
	return math.Sqrt(wrong / all)
}
