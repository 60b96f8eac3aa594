package engine

import (
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/internal/testenv"
)

// The pages that a GPU's program copies are read layer by layer: not all layers' are held at once.
func TestCopiedPagesForGPU(t *testing.T) {
	testenv.Slow(t)
	model := checkedModel(heads128, 1024)
	model.Config.NumLayers = 12
	model.Config.SetLayers(model.Config.LlamaLayer())
	done := precompiled(t, Config{Model: model, Backend: testenv.Topology(t, "h200:1"), DType: dtypes.BFloat16,
		MaxSeqs: 64, PageSize: 64, KVMemory: 1 << 30}, device.Run)
	m, err := done.Programs[0].Executable.(*xla.Executable).Memory()
	if err != nil {
		t.Fatal(err)
	}
	copied := int64(done.Plan.Slots+done.Plan.Holders) * done.layouts[0].PageBytes() // of a layer, at most
	t.Logf("%d bytes of temporaries; %d of pages copied in a layer", m.Temporary, copied)
	if most := 4 * copied; m.Temporary > most {
		t.Errorf("run takes %d bytes of temporaries, want at most %d", m.Temporary, most)
	}
}
