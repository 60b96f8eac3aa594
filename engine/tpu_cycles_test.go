package engine

import (
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"

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
		layers, draw, around int // thousands of cycles at most
	}{
		{"llama-3.1-8b", "v6e:1x1", 1, 20_500, 2_000, 400},
		{"llama-3.1-8b", "v6e:2x4", 8, 4_700, 700, 400},
		{"qwen3-30b-a3b", "v6e:2x2", 4, 30_000, 800, 400},
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
			hlo, err := done.Programs[0].Executable.(*xla.Executable).OptimizedHLO()
			if err != nil {
				t.Fatal(err)
			}
			layers, draw, around := decodeStep(t, hlo, model.Config.NumLayers)
			t.Logf("thousands of cycles: layers %d, drawing %d, the rest of a step %d", layers/1000, draw/1000,
				around/1000)
			if layers > 1000*c.layers || draw > 1000*c.draw || around > 1000*c.around {
				t.Errorf("want at most %d, %d, %d", c.layers, c.draw, c.around)
			}
		})
	}
}

// decodeStep adds up what the compiler expects of a decode step, in cycles: of its layers; of what draws tokens, where
// no row has a filter; and of the rest.
func decodeStep(t *testing.T, hlo string, numLayers int) (layers, draw, around int) {
	t.Helper()
	all := testenv.ReadProgram(hlo)
	// hasKernel tells of computations with attention's kernel in them or in their loops.
	var hasKernel func(name string) bool
	hasKernel = func(name string) bool {
		return slices.ContainsFunc(all[name], func(op testenv.Operation) bool {
			return op.Kernel || op.Kind == "while" && hasKernel(op.Calls[0])
		})
	}
	// cycles are those of a computation where each condition asks for less.
	var cycles func(name string) int
	cycles = func(name string) int {
		sum := 0
		for _, op := range all[name] {
			switch op.Kind {
			case "while":
				times := 1
				if hasKernel(op.Calls[0]) {
					times = numLayers
				}
				sum += times * cycles(op.Calls[0])
			case "conditional":
				sum += min(cycles(op.Calls[0]), cycles(op.Calls[1]))
			default:
				sum += op.Cycles
			}
		}
		return sum
	}
	for _, ops := range all {
		var kinds []testenv.Operation // of prompt steps, and of decode steps
		for _, op := range ops {
			if op.Kind == "while" && hasKernel(op.Calls[0]) {
				kinds = append(kinds, op)
			}
		}
		if len(kinds) != 2 {
			continue
		}
		layers = cycles(kinds[1].Calls[0])
		for _, op := range ops {
			switch op.Kind {
			case "while": // of the layers, or of sequences that end
			case "conditional":
				draw += max(cycles(op.Calls[0]), cycles(op.Calls[1]))
			default:
				around += op.Cycles
			}
		}
	}
	if layers == 0 {
		t.Fatal("the program has no step of the two kinds")
	}
	return layers, draw, around
}
