package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// shape is a model with few layers on devices that run it together.
type shape struct {
	model, chip, layers string
	tp, ep              int // ep: 0 is the default
}

func (s shape) String() string {
	return fmt.Sprintf("%s %s tp=%d ep=%d %s", s.model, s.chip, s.tp, s.ep, s.layers)
}

// topologies are where so many devices of a kind are.
var topologies = map[string]map[int]string{
	"v5e":  {1: "v5e:1x1", 2: "v5e:2x2", 4: "v5e:2x2", 8: "v5e:2x4", 16: "v5e:4x4"},
	"v6e":  {1: "v6e:1x1", 2: "v6e:2x2", 4: "v6e:2x2", 8: "v6e:2x4", 16: "v6e:4x4"},
	"v5p":  {1: "v5p:2x2x1", 2: "v5p:2x2x1", 4: "v5p:2x2x1", 8: "v5p:2x2x2", 16: "v5p:2x2x4"},
	"h200": {1: "h200:1", 2: "h200:2", 4: "h200:4", 8: "h200:8"},
}

// some are the shapes that are always compiled; QUIRE_SHAPES=all compiles all.
var some = []shape{
	{"llama-3.1-8b", "v5e", engine.LayersLoop, 8, 0},
	{"qwen3-30b-a3b", "v6e", engine.LayersLoop, 8, 0},
	{"gpt-oss-20b", "v6e", engine.LayersLoop, 8, 0},
	{"llama-3.1-8b", "h200", engine.LayersUnrolled, 1, 0},
}

// known lists faults that remain, by the start of a shape, with the reason: docs/tpu.md has a line for each.
var known = []struct{ shape, fault, reason string }{}

// No plan of a shipped model has a fault that is not known.
func TestShapesForTPU(t *testing.T) { checkShapes(t, "v5e", "v6e", "v5p") }

// TestShapesForGPU is [TestShapesForTPU] for GPUs, on which a loop of layers copies weights: see docs/gpu.md.
func TestShapesForGPU(t *testing.T) { checkShapes(t, "h200") }

func checkShapes(t *testing.T, chips ...string) {
	testenv.Slow(t)
	all := some
	if os.Getenv("QUIRE_SHAPES") == "all" {
		all = allShapes(t, chips)
	}
	for _, s := range all {
		if slices.Contains(chips, s.chip) {
			t.Run(s.String(), func(t *testing.T) { checkShape(t, s) })
		}
	}
}

func allShapes(t *testing.T, chips []string) (all []shape) {
	files, err := filepath.Glob(testenv.Path("configs", "models", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no configs of models", err)
	}
	for _, file := range files {
		for _, chip := range chips {
			for tp := range topologies[chip] {
				for _, layers := range []string{engine.LayersLoop, engine.LayersUnrolled} {
					s := shape{strings.TrimSuffix(filepath.Base(file), ".json"), chip, layers, tp, 0}
					all = append(all, s)
					if s.ep = tp; fewLayers(t, s.model).Config.Layers[0].Experts.Count > 0 {
						all = append(all, s)
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b shape) int { return strings.Compare(a.String(), b.String()) })
	return slices.DeleteFunc(all, func(s shape) bool { return s.chip == "h200" && s.layers == engine.LayersLoop })
}

func checkShape(t *testing.T, s shape) {
	model := fewLayers(t, s.model)
	backend := testenv.Topology(t, topologies[s.chip][s.tp])
	if s.tp > 1 {
		var devices []int
		for i := range s.tp {
			devices = append(devices, i)
		}
		group, err := backend.Group(devices...)
		if err != nil {
			t.Fatal(err)
		}
		backend = group
	}
	c := engine.Config{Model: model, Backend: backend, DType: dtypes.BFloat16, MaxSeqs: 64, MaxModelLen: 8192,
		KVMemory: 1 << 30, Layers: s.layers, ExpertGroups: s.ep}
	if _, err := c.Plan(); err != nil {
		t.Skipf("cannot be: %v", err)
	}
	r := planned(t, c, backend)
	if e := r.Expected; e != nil {
		t.Logf("decoding: %.0f of %.0f tokens/s, prompts: %.0f of %.0f", e.DecodeTokensPerSecond,
			r.Estimate.DecodeTokensPerSecond, e.PrefillTokensPerSecond, r.Estimate.PrefillTokensPerSecond)
	} else if s.chip != "h200" {
		t.Error("nothing is expected of the steps")
	}
	for _, w := range r.Warnings {
		t.Log(w)
	}
	t.Logf("temporaries %s, of the memory %.1f %%", Size(r.Temporary), 100*float64(r.Temporary)/float64(r.DeviceMemory))
	for _, f := range r.Faults() {
		isKnown := false
		for _, k := range known {
			isKnown = isKnown || k.fault == f.Name && strings.HasPrefix(s.String(), k.shape)
		}
		if isKnown {
			t.Logf("known: %s", f.Text)
		} else {
			t.Errorf("%s: %s", f.Name, f.Text)
		}
	}
}

// fewLayers is a shipped model with two layers, or with four if two differ.
func fewLayers(t *testing.T, name string) *models.Checkpoint {
	t.Helper()
	text, err := os.ReadFile(testenv.Path("configs", "models", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	layers := 2
	if types, ok := config["layer_types"].([]any); ok {
		layers = 4
		config["layer_types"] = types[:layers]
	}
	config["num_hidden_layers"] = layers
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	model, err := models.OpenConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	return model
}
