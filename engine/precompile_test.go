package engine

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/xla"
)

// writtenAnew finds instructions that write their result anew, with its dtype and dimensions.
var writtenAnew = regexp.MustCompile(`= \w+\[([0-9,]+)\]\S* (copy|transpose|convert|gather|reshape)\(`)

// gathered finds what devices get of each other, with its dtype and dimensions.
var gathered = regexp.MustCompile(`= \(?\w+\[([0-9,]+)\].* all-gather(-start)?\(`)

// checkPrograms holds for a job's programs what no plan may lack: few of them, all of the state updated in place, and nothing as large as a
// layer's cache written anew. Of several devices no more is gathered than the scores of tokens.
func checkPrograms(t *testing.T, cfg Config) {
	t.Helper()
	done, err := Precompile(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer done.Close()
	enough := 2
	if done.Plan.Transfers {
		enough = 4
	}
	if len(done.Programs) > enough {
		t.Errorf("an engine has %d programs, %d are enough", len(done.Programs), enough)
	}
	layer := done.Plan.KVBytes / int64(cfg.Model.Config.NumLayers)
	elements := int(layer) / done.Plan.layout.DType.Size()
	for _, program := range done.Programs {
		if !program.UpdatesState {
			continue
		}
		e := program.Executable.(*xla.Executable)
		m, err := e.Memory()
		if err != nil {
			t.Fatal(err)
		}
		// TPUs pad small tables.
		if m.Aliased < done.StateBytes || m.Aliased > done.StateBytes+done.StateBytes/100 {
			t.Errorf("%s updates %d bytes in place, the state has %d", program.Name, m.Aliased, done.StateBytes)
		}
		if m.Temporary >= layer {
			t.Errorf("%s takes %d bytes of temporaries, a layer's cache is %d", program.Name, m.Temporary, layer)
		}
		hlo, err := e.OptimizedHLO()
		if err != nil {
			t.Fatal(err)
		}
		gathers := 0
		for line := range strings.Lines(hlo) {
			if found := gathered.FindStringSubmatch(line); found != nil {
				gathers++
				if size := elementsOf(found[1]); size > done.Plan.slots*(cfg.Model.Config.VocabSize+done.Plan.Devices) {
					t.Errorf("%s gathers more than scores: %s", program.Name, strings.TrimSpace(line))
				}
			}
			found := writtenAnew.FindStringSubmatch(line)
			if found == nil {
				continue
			}
			if elementsOf(found[1]) >= elements {
				t.Errorf("%s moves a layer's cache: %s", program.Name, strings.TrimSpace(line))
			}
		}
		if want := min(1, done.Plan.Devices-1); program.Name == "run" && gathers != want {
			t.Errorf("%s gathers %d times, want %d", program.Name, gathers, want)
		}
		t.Logf("%s: %d bytes in place, %d temporary; a layer's cache %d; %.0f s", program.Name, m.Aliased, m.Temporary, layer, program.Seconds)
	}
}

// elementsOf is how many elements an array of these dimensions has.
func elementsOf(dimensions string) int {
	size := 1
	for d := range strings.SplitSeq(dimensions, ",") {
		n, _ := strconv.Atoi(d)
		size *= n
	}
	return size
}

func TestProgramsForTPU(t *testing.T) {
	testenv.Slow(t)
	for _, name := range []string{"v5e:1x1", "v6e:1x1"} {
		for _, model := range []models.Config{
			{HiddenSize: 512, IntermediateSize: 1024, NumHeads: 8, NumKVHeads: 4, HeadDim: 128},
			{HiddenSize: 576, IntermediateSize: 1536, NumHeads: 9, NumKVHeads: 3, HeadDim: 64}, // SmolLM2's
		} {
			model.Architecture, model.ModelType, model.VocabSize, model.NumLayers, model.MaxPositions = "LlamaForCausalLM", "llama", 1024, 2, 4096
			model.RMSNormEps, model.RopeTheta, model.EOS, model.DType = 1e-5, 5e5, []int32{2}, dtypes.BFloat16
			t.Run(fmt.Sprintf("%s head_dim %d", name, model.HeadDim), func(t *testing.T) {
				checkPrograms(t, Config{Model: models.Dummy(model, 0), Backend: testenv.Topology(t, name), DType: dtypes.BFloat16, MaxSeqs: 64, KVMemory: 256 << 20})
			})
		}
	}
}

func TestProgramsForTheCPU(t *testing.T) {
	checkPrograms(t, Config{Model: testenv.Model(t, "smollm2-like"), Backend: testenv.XLA(t), MaxSeqs: 64, PageSize: 16, PrefillTokens: 64, MaxModelLen: 160, KVMemory: 64 << 20})
}

func TestProgramsOfDevicesTogether(t *testing.T) {
	checkPrograms(t, Config{Model: testenv.Model(t, "smollm2-like"), Backend: testenv.Group(t, xla.KernelsAuto, 0, 1, 2, 3), MaxSeqs: 64, PageSize: 16, PrefillTokens: 64, MaxModelLen: 160, KVMemory: 64 << 20})
}

// Eight devices of a topology run a model together: KV heads that divide, with the kernel, and that do not.
func TestProgramsForTPUsTogether(t *testing.T) {
	testenv.Slow(t)
	for _, model := range []models.Config{
		{HiddenSize: 1024, IntermediateSize: 2048, NumHeads: 32, NumKVHeads: 8, HeadDim: 128},
		{HiddenSize: 576, IntermediateSize: 1536, NumHeads: 9, NumKVHeads: 3, HeadDim: 64}, // SmolLM2's
	} {
		model.Architecture, model.ModelType, model.VocabSize, model.NumLayers, model.MaxPositions = "LlamaForCausalLM", "llama", 1027, 2, 4096
		model.RMSNormEps, model.RopeTheta, model.EOS, model.DType = 1e-5, 5e5, []int32{2}, dtypes.BFloat16
		t.Run(fmt.Sprintf("head_dim %d", model.HeadDim), func(t *testing.T) {
			group, err := testenv.Topology(t, "v5e:2x4").Group(0, 1, 2, 3, 4, 5, 6, 7)
			if err != nil {
				t.Fatal(err)
			}
			checkPrograms(t, Config{Model: models.Dummy(model, 0), Backend: group, DType: dtypes.BFloat16, MaxSeqs: 64, KVMemory: 256 << 20})
			for _, k := range group.TPUKernels() {
				t.Logf("%+v", k)
			}
		})
	}
}
