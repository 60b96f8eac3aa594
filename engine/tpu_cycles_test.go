package engine

import (
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/hlo"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// What a TPU's compiler expects a decode step of 64 sequences to take beside attention and exchanges stays near the
// time in which the weights are read, and does not grow unseen. See docs/tpu.md.
func TestDecodeStepsForTPU(t *testing.T) {
	testenv.Slow(t)
	for _, c := range []struct {
		model, topology      string
		devices              int
		layers, draw, around int64 // thousands of cycles at most
	}{
		{"llama-3.1-8b", "v6e:1x1", 1, 20_500, 2_000, 400},
		{"llama-3.1-8b", "v6e:2x4", 8, 4_700, 400, 400},
		{"qwen3-30b-a3b", "v6e:2x2", 4, 30_000, 500, 400},
	} {
		t.Run(c.model+" "+c.topology, func(t *testing.T) {
			model, err := models.OpenConfig(testenv.Path("configs", "models", c.model+".json"))
			if err != nil {
				t.Fatal(err)
			}
			defer model.Close()
			group := testenv.Topology(t, c.topology)
			if c.devices > 1 {
				all := make([]int, c.devices)
				for i := range all {
					all[i] = i
				}
				if group, err = group.Group(all...); err != nil {
					t.Fatal(err)
				}
			}
			done := precompiled(t, Config{Model: model, Backend: group, DType: dtypes.BFloat16, MaxSeqs: 64,
				PageSize: 64, MaxModelLen: 8192, KVMemory: 1 << 30, Layers: LayersLoop}, device.Run)
			text, err := done.Programs[0].Executable.(*xla.Executable).OptimizedHLO()
			if err != nil {
				t.Fatal(err)
			}
			steps, ok := hlo.Read(text).Steps(model.Config.NumLayers)
			if !ok {
				t.Fatal("the program has no step of the two kinds")
			}
			layers, draw, around := steps.Decode.Cycles(), steps.Draw.Cycles, steps.Around.Cycles
			t.Logf("thousands of cycles: layers %d, drawing %d, the rest of a step %d", layers/1000, draw/1000,
				around/1000)
			if layers > 1000*c.layers || draw > 1000*c.draw || around > 1000*c.around {
				t.Errorf("want at most %d, %d, %d", c.layers, c.draw, c.around)
			}
			for part, work := range map[string]hlo.Work{"a step": steps.Around, "a round": steps.Round,
				"sampling": steps.Draw} {
				if n := work.Offloaded.Operations; n > 0 {
					t.Errorf("%s hands %d operations to another core and waits", part, n)
				}
			}
		})
	}
}
