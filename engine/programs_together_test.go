package engine

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// wide has KV heads for eight devices.
var wide = models.Config{HiddenSize: 1024, IntermediateSize: 2048, NumHeads: 32, NumKVHeads: 8, HeadDim: 128}

// All devices of a topology run a model together: KV heads that divide, and that do not.
func TestProgramsForTPUsTogether(t *testing.T) {
	testenv.Slow(t)
	checkTogether(t, []together{
		{"v5e:2x4", LayersUnrolled, wide},
		{"v5e:2x4", LayersUnrolled, heads64},
		{"v6e:2x4", LayersLoop, wide},
		{"v5p:2x2x1", LayersUnrolled, heads64},
	})
}

// So do those of slices of several hosts, where a KV head is on several devices.
func TestProgramsForSlicesOfHosts(t *testing.T) {
	testenv.Slow(t)
	checkTogether(t, []together{
		{"v5e:4x4", LayersUnrolled, wide},
		{"v5e:4x4", LayersLoop, heads64},
		{"v6e:4x4", LayersLoop, wide},
		{"v5p:2x2x4", LayersUnrolled, heads128},
	})
}

type together struct {
	topology, layers string
	model            models.Config
}

func checkTogether(t *testing.T, cases []together) {
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s head_dim %d %s", c.topology, c.model.HeadDim, c.layers), func(t *testing.T) {
			topology := testenv.Topology(t, c.topology)
			devices := make([]int, topology.NumDevices())
			for i := range devices {
				devices[i] = i
			}
			group, err := topology.Group(devices...)
			if err != nil {
				t.Fatal(err)
			}
			checkPrograms(t, Config{Model: checkedModel(c.model, 1027), Backend: group, DType: dtypes.BFloat16,
				MaxSeqs: 64, KVMemory: 256 << 20, Layers: c.layers})
		})
	}
}
