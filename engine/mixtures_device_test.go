package engine

import (
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/internal/testenv"
)

// Programs of devices that share out experts, three to one group and two to the other, are as those without: the state
// in place, nothing written anew or exchanged but sums and scores, attention in the kernels.
func TestExpertGroupsForAccelerators(t *testing.T) {
	testenv.Slow(t)
	for _, name := range []string{"v6e:2x2", "h100:4"} {
		t.Run(name, func(t *testing.T) {
			group, err := testenv.Topology(t, name).Group(0, 1, 2, 3)
			if err != nil {
				t.Fatal(err)
			}
			checkPrograms(t, Config{Model: enlarged(t, "mixtral", 2560), Backend: group, DType: dtypes.BFloat16,
				MaxSeqs: 64, KVMemory: 256 << 20, ExpertGroups: 2}, "init", device.Run)
		})
	}
}

// gpt-oss has heads of 64, sinks, and a window of 128 in every second layer: attention is in the kernel on a TPU, of a
// device alone and of devices together, and its experts in MXFP4 stay what they are.
func TestSinksForTPU(t *testing.T) {
	testenv.Slow(t)
	for name, devices := range map[string]int{"v5e:1x1": 1, "v6e:2x2": 4} {
		t.Run(name, func(t *testing.T) {
			model := enlarged(t, "gpt-oss", 2304, func(c map[string]any) {
				for key, value := range map[string]any{"head_dim": 64, "num_attention_heads": 64,
					"num_key_value_heads": 8, "sliding_window": 128,
					"quantization_config": map[string]any{"quant_method": "mxfp4"}} {
					c[key] = value
				}
			})
			backend := testenv.Topology(t, name)
			if devices > 1 {
				group, err := backend.Group(0, 1, 2, 3)
				if err != nil {
					t.Fatal(err)
				}
				backend = group
			}
			checkPrograms(t, Config{Model: model, Backend: backend, DType: dtypes.BFloat16, MaxSeqs: 64,
				KVMemory: 1 << 30, Weights: WeightsAuto}, "init", device.Run)
		})
	}
}
