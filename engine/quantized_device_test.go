package engine

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// With keys and values of 8 bits the programs for TPU and GPU have attention's plain form, and the reason is told, but
// for 8-bit floats on TPU, for which there is a kernel. They copy no cache.
func TestQuantizedKeysForAccelerators(t *testing.T) {
	testenv.Slow(t)
	for _, c := range []struct {
		topology string
		kv       dtypes.DType
		layers   string
		model    models.Config
	}{
		{"v5e:1x1", dtypes.Int8, LayersUnrolled, heads128}, {"v5e:1x1", dtypes.Int8, LayersLoop, heads64},
		{"v5e:1x1", dtypes.F8E4M3FN, LayersLoop, heads128}, {"v6e:1x1", dtypes.F8E4M3FN, LayersUnrolled, heads64},
		{"h200:1", dtypes.Int8, LayersLoop, heads128},
	} {
		t.Run(fmt.Sprintf("%s %s head_dim %d %s", c.topology, c.kv, c.model.HeadDim, c.layers), func(t *testing.T) {
			checkPrograms(t, Config{Model: checkedModel(c.model, 1024), Backend: testenv.Topology(t, c.topology),
				DType: dtypes.BFloat16, KVDType: c.kv, MaxSeqs: 64, PageSize: 64, KVMemory: 256 << 20,
				Layers: c.layers})
		})
	}
}

// Llama-3.1-8B with weights and keys and values in int8 has room for 60,000 tokens on one TPU v5e, beside all that its
// largest program takes.
func TestLlama8BWithQuantizedKeysForTPU(t *testing.T) {
	testenv.Slow(t)
	model, err := models.OpenConfig(testenv.Path("configs", "models", "llama-3.1-8b.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	const tokens = 60_032
	const perToken = 32 * 2560 // of 2 * 8 heads, each 128 bytes and a scale, 528 words, and 112 to fill up
	done, err := Precompile(t.Context(), Config{Model: model, Backend: testenv.Topology(t, "v5e:1x1"),
		DType: dtypes.BFloat16, KVDType: dtypes.Int8, Weights: "int8", Layers: LayersLoop, MaxSeqs: 64, PageSize: 64,
		MaxModelLen: 8192, KVMemory: tokens * perToken}, device.Run)
	if err != nil {
		t.Fatal(err)
	}
	defer done.Close()
	if p := done.Plan; p.KVBytesPerToken != perToken || p.Pages*p.PageSize != tokens {
		t.Errorf("%d pages of %d tokens, %d bytes a token: want %d tokens of %d bytes", p.Pages, p.PageSize,
			p.KVBytesPerToken, tokens, perToken)
	}
	m, err := done.Programs[0].Executable.(*xla.Executable).Memory()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v in %.0f s", m, done.Programs[0].Seconds)
	if m.Total > 16.91e9 {
		t.Errorf("the program takes %d bytes, a v5e has 16.91e9", m.Total)
	}
}
