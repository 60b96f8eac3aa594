package engine

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/hlo"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/backend/xla/mosaic"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// An array that is updated in place, in the head of an optimized program.
var updated = regexp.MustCompile(`alias\{output [0-9,]+ = parameter [0-9]+\}`)

// Instructions that write their result anew, and those by which devices get parts of each other's arrays.
var (
	writesAnew = []string{"copy", "copy-start", "transpose", "convert", "gather", "reshape", "dynamic-slice", "slice",
		"concatenate", "pad", "bitcast-convert"}
	exchanges = []string{"all-gather", "all-gather-start", "all-to-all", "collective-permute",
		"collective-permute-start", "reduce-scatter"}
)

// programLimits are what an optimized program may do.
type programLimits struct {
	cache    int  // elements of a layer's cache: nothing as large is written anew
	fused    bool // kernels write keys and values, and nothing is scattered into a cache
	scores   int  // elements of the scores that a device gets: no more is exchanged
	parts    int  // how often devices exchange parts of scores
	gathered int  // elements of what devices compute of the scores: no more is gathered
}

// violations lists where the optimized form of a program breaks the limits.
func (l programLimits) violations(text string) (found []string) {
	program, parts := hlo.Read(text), 0
	// Results of fusions within others are read as they are made, as an operand of a product for instance, and never
	// written.
	within := program.Fused(slices.Collect(maps.Keys(program.Fused()))...)
	for name, ops := range program {
		for _, op := range ops {
			switch {
			case op.Kind == "copy-start" && op.Near: // reads ahead into a core's own memory, in place of the main one
			case slices.Contains(writesAnew, op.Kind) && op.Largest >= l.cache && !within[name]:
				found = append(found, "moves a layer's cache: "+op.Line)
			case l.fused && op.Kind == "scatter" && op.Largest >= l.cache:
				found = append(found, "scatters into a layer's cache: "+op.Line)
			case strings.HasPrefix(op.Kind, "all-gather") && op.Largest > l.gathered:
				found = append(found, "gathers more than the results of rows: "+op.Line)
			case strings.HasPrefix(op.Kind, "all-gather"):
			case op.Kind == "all-to-all":
				if parts++; op.Largest > l.scores {
					found = append(found, "exchanges more than scores: "+op.Line)
				}
			case slices.Contains(exchanges, op.Kind):
				found = append(found, "exchanges what is no sum: "+op.Line)
			}
		}
	}
	if parts != l.parts {
		found = append(found, fmt.Sprintf("exchanges scores %d times, want %d", parts, l.parts))
	}
	return found
}

// checkPrograms holds for a job's programs what no plan may lack: few of them, all of the state updated in place, and
// nothing as large as a layer's cache written anew or kept as a temporary. Of several devices each gets no more than
// the scores of its share of the tokens: see exchangesOf. It holds for all programs, or for those named by only.
func checkPrograms(t *testing.T, cfg Config, only ...string) {
	t.Helper()
	done := precompiled(t, cfg, only...)
	checkKernels(t, cfg, done)
	checkMoves(t, cfg, done)
}

func precompiled(t *testing.T, cfg Config, only ...string) *Precompiled {
	t.Helper()
	done, err := Precompile(context.Background(), cfg, only...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { done.Close() })
	return done
}

// checkMoves is all of checkPrograms but that attention is in the kernels.
func checkMoves(t *testing.T, cfg Config, done *Precompiled) {
	t.Helper()
	checkMovesWithin(t, cfg, done, 0)
}

// checkMovesWithin is checkMoves of programs that may take so many bytes of temporaries in any case.
func checkMovesWithin(t *testing.T, cfg Config, done *Precompiled, anyway int64) {
	t.Helper()
	enough := 2
	if done.Plan.Transfers {
		enough += 2
	}
	if done.Plan.Contexts > 0 {
		enough += 3
	}
	if len(done.Programs) > enough {
		t.Errorf("an engine has %d programs, %d are enough", len(done.Programs), enough)
	}
	layer := done.Plan.KVBytes / int64(cfg.Model.Config.NumCaches())
	// Layers with states read those of a step's sequences, and write them: as they are, turned around for the
	// operations of each token, and behind it.
	const arraysOfStates, pagesOfTile = 9, 8
	states, padding := int64(0), int64(0)
	for _, l := range done.layouts {
		if l.State > 0 {
			states = max(states, int64(done.Plan.Slots+done.Plan.Holders+done.Plan.Contexts)*l.PageBytes())
			padding += (pagesOfTile - 1) * l.PageBytes()
		}
	}
	// Some arrays of the size of all rows' logits are more than a layer where devices share the caches.
	temporary := max(layer/2, 16*4*int64(done.Plan.Slots*cfg.Model.Config.VocabSize),
		arraysOfStates*states, anyway)
	on := cfg.Backend.(interface{ Platform() string })
	limits := programLimits{cache: int(layer) / done.layouts[0].Shape().DType.Size(),
		fused: on.Platform() == "tpu" && done.layouts[0].Packed > 0}
	vocabulary := done.Plan.Devices * decoder.NewPartition(cfg.Model.Config, done.Plan.Devices).Vocab
	limits.scores = (done.Plan.Slots + done.Plan.Devices - 1) / done.Plan.Devices * vocabulary
	leaves := 0
	for _, program := range done.Programs {
		e := program.Executable.(*xla.Executable)
		if program.Name == "init" {
			leaves = len(e.Outputs())
		}
		m, err := e.Memory()
		if err != nil {
			t.Fatal(err)
		}
		hlo, err := e.OptimizedHLO()
		if err != nil {
			t.Fatal(err)
		}
		inPlace := len(updated.FindAllString(hlo, -1))
		state, arrays := done.StateBytes, leaves+len(program.extras)
		for _, l := range program.extras {
			state += int64(l.Shape.Size()) * int64(l.Shape.DType.Size())
		}
		switch {
		case !program.UpdatesState:
			if m.Aliased != 0 {
				t.Errorf("%s leaves the state as it is, and updates %d bytes in place", program.Name, m.Aliased)
			}
		// TPUs pad small tables, and states to whole tiles of pages.
		case m.Aliased < state, m.Aliased > state+state/100+padding:
			t.Errorf("%s updates %d bytes in place, the state has %d", program.Name, m.Aliased, state)
		case inPlace != arrays:
			t.Errorf("%s updates %d arrays in place, the state has %d", program.Name, inPlace, arrays)
		}
		if m.Temporary >= temporary {
			t.Errorf("%s takes %d bytes of temporaries, want less than %d", program.Name, m.Temporary, temporary)
		}
		limits.parts = exchangesOf(program.Name, cfg.Features, done.Plan.Devices)
		limits.gathered = done.Plan.Slots * feature.WideTops
		if program.Name == device.Pass { // it returns scores
			limits.gathered = device.PassLogits * vocabulary
		}
		for _, v := range limits.violations(hlo) {
			if program.Name == "init" && on.Platform() == "cuda" && strings.Contains(v, " copy(") {
				continue // of two empty caches one is written as a copy of the other, which is no more to write
			}
			t.Errorf("%s %s", program.Name, v)
		}
		t.Logf("%s: %d bytes and %d arrays in place, %d temporary; a layer's cache %d; %.0f s", program.Name, m.Aliased,
			inPlace, m.Temporary, layer, program.Seconds)
	}
}

// exchangesOf is how often the devices of a program exchange the scores of tokens, so that each has all scores of its
// share of the slots. A step does so once, for the rows that sample. If prompts are scored, the scores after their
// tokens are different ones, of other hidden states, as many as a step has tokens. So the program has a second
// exchange, in a loop that only a step with scored prompts enters.
func exchangesOf(program string, features Features, devices int) int {
	switch {
	case devices == 1 || program != device.Run && program != device.Score:
		return 0
	case program == device.Run && features.Has(feature.PromptLogprobs):
		return 2
	}
	return 1
}

// checkKernels finds each layer's attention in the kernel, in both kinds of steps, in the programs for TPUs.
func checkKernels(t *testing.T, cfg Config, done *Precompiled) {
	t.Helper()
	b := cfg.Backend.(*xla.Backend)
	if b.Platform() == "cpu" {
		return
	}
	if cfg.KVDType == dtypes.Int8 || cfg.KVDType == dtypes.F8E4M3FN && b.Platform() != "tpu" {
		if used := b.KernelUses(); len(used) != 1 || used[0].Kernel != "" ||
			!strings.Contains(used[0].Reason, "kernels read floats only") {
			t.Errorf("the kernels are %+v", used)
		}
		return
	}
	if b.Platform() != "tpu" {
		return
	}
	for _, use := range b.KernelUses() {
		t.Logf("%+v", use)
		if use.Kernel == "" {
			t.Errorf("attention has its plain form for %s: %s", use.For, use.Reason)
		}
	}
	for _, program := range done.Programs {
		want := cfg.Model.Config.NumLayers
		if cfg.Layers == LayersLoop {
			loop, err := decoder.LoopOf(cfg.Model.Config)
			if err != nil {
				t.Fatal(err)
			}
			want = loop.Bodies(want)
		}
		switch program.Name {
		case device.Run:
			want *= 2
		case device.Score:
		default:
			continue
		}
		hlo, err := program.Executable.(*xla.Executable).OptimizedHLO()
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(hlo, `custom_call_target="tpu_custom_call"`); n != want {
			t.Errorf("%s calls %d kernels, want %d", program.Name, n, want)
		}
	}
}

// The checks see each kind of thing that they are for, in the text of a program.
func TestViolations(t *testing.T) {
	l := programLimits{cache: 4096 * 16 * 8 * 128, scores: 64 * 1024, parts: 1, gathered: 1024}
	const scores = "  %g.1 = f32[64,1024]{1,0} all-to-all(%x), custom_call_target=\"\"\n"
	for line, want := range map[string]string{
		"": "",
		"  %u = bf16[4096,16,8,128]{3,2,1,0} dynamic-update-slice(%c, %x, %i)\n":                  "",
		"  %s = bf16[65536,8,128]{2,1,0} scatter(%c, %i, %x), calls=%f\n":                         "",
		"  %c.1 = bf16[4095,16,8,128]{3,2,1,0} copy(%x)\n":                                        "",
		"  %c.2 = bf16[4096,16,8,128]{3,2,1,0} copy(%x)\n":                                        "moves",
		"  ROOT %c.3 = f32[4096,16,8,128]{3,2,1,0} convert(%x)\n":                                 "moves",
		"  %c.4 = (bf16[4096,16,1024]{2,1,0}, bf16[4096,16,1024]{2,1,0}, u32[]) copy-start(%x)\n": "moves",
		"  %c.8 = (s8[65536,1024]{1,0:S(1)}, s8[65536,1024]{1,0}, u32[]) copy-start(%x)\n":        "",
		"  %c.5 = bf16[1,4096,16,8,128]{4,3,2,1,0} dynamic-slice(%x, %i)\n":                       "moves",
		"  %c.6 = bf16[16,8,128,4096]{3,2,1,0} transpose(%x)\n":                                   "moves",
		"  %c.7 = bf16[4096,16,8,128]{3,2,1,0} gather(%x, %i)\n":                                  "moves",
		"  %g.2 = bf16[1024,4096]{1,0} all-gather(%w)\n":                                          "gathers more",
		"  %g.3 = (bf16[512,4096]{1,0}, bf16[1024,4096]{1,0}) all-gather-start(%w)\n":             "gathers more",
		"  %g.4 = f32[64,8]{1,0} all-gather(%w)\n":                                                "",
		"  %e.1 = f32[64,8]{1,0} all-to-all(%w)\n":                                                "scores 2 times",
		"  %e.2 = f32[64,2048]{1,0} all-to-all(%w)\n":                                             "exchanges more",
		"  %p = bf16[64,8]{1,0} collective-permute(%w)\n":                                         "exchanges",
		"  %a = f32[64,4096]{1,0} all-reduce(%w), calls=%sum\n" +
			"  %b = bf16[4096,16,8,128]{3,2,1,0} parameter(0)\n": "",
	} {
		found := strings.Join(l.violations("HloModule run\n\nENTRY %main {\n"+scores+line+"}\n"), "; ")
		if (want == "") != (found == "") || !strings.Contains(found, want) {
			t.Errorf("%q gives %q, want %q", line, found, want)
		}
	}
	l.fused = true
	const scatter = "  %s = bf16[65536,8,128]{2,1,0} scatter(%c, %i, %x), calls=%f\n"
	if found := l.violations("HloModule run\n\nENTRY %main {\n" + scores + scatter + "}\n"); len(found) != 1 ||
		!strings.HasPrefix(found[0], "scatters into a layer's cache") {
		t.Errorf("a scatter where kernels write gives %q", found)
	}
	const copies = "%c {\n  ROOT %x = bf16[4096,16,8,128]{3,2,1,0} copy(%i)\n}\n"
	const called = "  %f = bf16[4096,16,8,128]{3,2,1,0} fusion(%i), kind=kLoop, calls=%c, metadata={}\n"
	for _, within := range []bool{false, true} {
		hlo := copies + "ENTRY %main {\n" + scores + called + "}\n"
		if within {
			hlo = copies + "%d {\n" + called + "}\nENTRY %main {\n" + scores + "  %y = f32[8] fusion(%i), calls=%d\n}\n"
		}
		if found := l.violations(hlo); (len(found) == 0) != within {
			t.Errorf("a copy in a fusion within another, %t, gives %q", within, found)
		}
	}
}

// checkedModel is a small model with the heads of others.
func checkedModel(model models.Config, vocabulary int) *models.Checkpoint {
	model.Architecture, model.ModelType, model.VocabSize, model.NumLayers, model.MaxPositions = "LlamaForCausalLM",
		"llama", vocabulary, 2, 4096
	model.RMSNormEps, model.Ropes, model.EOS, model.DType = 1e-5, []models.Rope{{Theta: 5e5}}, []int32{2},
		dtypes.BFloat16
	model.SetLayers(model.LlamaLayer())
	return models.Dummy(model, 0)
}

var (
	heads128 = models.Config{HiddenSize: 512, IntermediateSize: 1024, NumHeads: 8, NumKVHeads: 4, HeadDim: 128}
	// Llama-3.1-8B's and Qwen3-30B-A3B's
	heads8B  = models.Config{HiddenSize: 4096, IntermediateSize: 14336, NumHeads: 32, NumKVHeads: 8, HeadDim: 128}
	heads30B = models.Config{HiddenSize: 2048, IntermediateSize: 6144, NumHeads: 32, NumKVHeads: 4, HeadDim: 128}
	// SmolLM2's
	heads64 = models.Config{HiddenSize: 576, IntermediateSize: 1536, NumHeads: 9, NumKVHeads: 3, HeadDim: 64}
)

func TestProgramsForTPU(t *testing.T) {
	testenv.Slow(t)
	for _, c := range []struct {
		topology, layers string
		model            models.Config
		contexts         int
	}{
		{"v5e:1x1", LayersUnrolled, heads128, 0},
		{"v5e:1x1", LayersUnrolled, heads64, 0},
		{"v5e:1x1", LayersLoop, heads64, 0},
		{"v6e:1x1", LayersUnrolled, heads128, 4},
		{"v6e:1x1", LayersUnrolled, heads64, 0},
		{"v6e:1x1", LayersLoop, heads128, 0},
		{"v5p:1x1x1", LayersUnrolled, heads128, 0},
		{"v5e:1x1", LayersUnrolled, heads8B, 0},
		{"v6e:1x1", LayersUnrolled, heads8B, 0},
		{"v5e:1x1", LayersUnrolled, heads30B, 0},
		{"v6e:1x1", LayersLoop, heads30B, 0},
	} {
		heads := fmt.Sprintf("%dx%dx%d", c.model.NumHeads, c.model.NumKVHeads, c.model.HeadDim)
		t.Run(fmt.Sprintf("%s %s %s", c.topology, heads, c.layers), func(t *testing.T) {
			topology := testenv.Topology(t, c.topology)
			checkPrograms(t, Config{Model: checkedModel(c.model, 1024), Backend: topology, DType: dtypes.BFloat16,
				MaxSeqs: 64, KVMemory: int64(c.model.HiddenSize) << 19, Layers: c.layers, Contexts: c.contexts})
			for _, use := range topology.KernelUses() {
				if use.Composite != mosaic.PagedAttentionUpdate {
					t.Errorf("keys and values are not stored by the kernel: %+v", use)
				}
			}
		})
	}
}

// On GPUs attention has its kernels in both forms, and the scatter and gather of copied pages stay two operations.
func TestProgramsForGPU(t *testing.T) {
	testenv.Slow(t)
	for _, c := range []struct {
		topology, layers string
		model            models.Config
		contexts         int
	}{
		{"h200:1", LayersUnrolled, heads128, 4},
		{"h200:1", LayersLoop, heads128, 0},
		{"a100:1", LayersUnrolled, heads64, 0},
		{"b200:1", LayersLoop, heads64, 0},
	} {
		t.Run(fmt.Sprintf("%s head_dim %d %s", c.topology, c.model.HeadDim, c.layers), func(t *testing.T) {
			topology := testenv.Topology(t, c.topology)
			checkPrograms(t, Config{Model: checkedModel(c.model, 1024), Backend: topology, DType: dtypes.BFloat16,
				MaxSeqs: 64, KVMemory: 256 << 20, Layers: c.layers, Contexts: c.contexts})
			forms := map[string]bool{}
			for _, use := range topology.KernelUses() {
				t.Logf("%+v", use)
				forms[strings.Split(use.Kernel, ",")[0]] = true
			}
			if want := map[string]bool{"Triton prefill": true, "Triton decode": true}; !maps.Equal(forms, want) {
				t.Errorf("attention has the forms %v, want %v", forms, want)
			}
		})
	}
}

// Programs with features are as those without: in place, nothing of the size of a layer's cache written anew, attention
// in the kernels. The vocabulary is as large as that of a model of today, so that what features have of its size shows.
// All features together are compiled for six topologies, each alone for one of two.
func TestFeaturesForAccelerators(t *testing.T) {
	testenv.Slow(t)
	var all Features
	var alone []Features
	for i := range FeatureNames() {
		alone = append(alone, 1<<i)
		all |= 1 << i
	}
	for i, name := range []string{"v6e:1x1", "h200:1", "v5e:1x1", "b200:1", "v6e:2x2", "h100:4"} {
		topology := testenv.Topology(t, name)
		sets := []Features{all}
		for k, one := range alone {
			if k%2 == i {
				sets = append(sets, one)
			}
		}
		for _, features := range sets {
			t.Run(name+" "+features.String(), func(t *testing.T) {
				backend, vocabulary := topology, 128256
				if n := topology.NumDevices(); n > 1 {
					group, err := topology.Group([]int{0, 1, 2, 3}[:n]...)
					if err != nil {
						t.Fatal(err)
					}
					backend, vocabulary = group, vocabulary+3
				}
				checkPrograms(t, Config{Model: checkedModel(wide, vocabulary), Backend: backend,
					DType: dtypes.BFloat16, MaxSeqs: 64, KVMemory: 4 << 30, Layers: LayersLoop, Features: features},
					"init", device.Run)
				for _, use := range backend.KernelUses() {
					if use.Kernel == "" {
						t.Errorf("attention has its plain form for %s: %s", use.For, use.Reason)
					}
				}
			})
		}
	}
}

func TestProgramsForGPUsTogether(t *testing.T) {
	testenv.Slow(t)
	topology := testenv.Topology(t, "h100:4")
	group, err := topology.Group(0, 1, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	checkPrograms(t, Config{Model: checkedModel(heads128, 1027), Backend: group, DType: dtypes.BFloat16, MaxSeqs: 64,
		KVMemory: 256 << 20})
}

func TestProgramsForTheCPU(t *testing.T) {
	for _, layers := range []string{LayersUnrolled, LayersLoop} {
		t.Run(layers, func(t *testing.T) {
			if layers != LayersUnrolled {
				testenv.Slow(t)
			}
			// The programs are those of TestStateIsUpdatedInPlace, compiled once.
			checkPrograms(t, Config{Model: testenv.Model(t, "smollm2-like"), Backend: testenv.XLA(t), MaxSeqs: 64,
				PageSize: 16, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8,
				KVMemory: 64 << 20, Layers: layers, Contexts: 8})
		})
	}
}

func TestProgramsOfDevicesTogether(t *testing.T) {
	checkPrograms(t, Config{Model: testenv.Model(t, "smollm2-like"), Backend: testenv.Group(t, xla.KernelsAuto, 0, 1, 2,
		3), MaxSeqs: 64, PageSize: 16, PrefillTokens: 64, MaxModelLen: 160, KVMemory: 64 << 20})
}
