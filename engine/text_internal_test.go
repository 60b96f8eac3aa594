package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models/adapter"
)

// texts keeps the programs that are built, as StableHLO, and compiles none.
type texts struct {
	*xla.Backend
	all [][]byte
}

func (b *texts) Builder(name string) compute.Builder { return textBuilder{b.Backend.Builder(name), b} }

func (b *texts) Donating(map[string]int) compute.Backend { return b }

type textBuilder struct {
	compute.Builder
	to *texts
}

var errNotCompiled = errors.New("only the text is wanted")

// Compile implements [compute.Builder].
func (b textBuilder) Compile() (compute.Executable, error) {
	text, err := b.Builder.(interface{ Text() ([]byte, error) }).Text()
	if err != nil {
		return nil, err
	}
	b.to.all = append(b.to.all, text)
	return nil, errNotCompiled
}

// textsOf returns the texts of an engine's programs.
func textsOf(t *testing.T, backend *xla.Backend, cfg Config) *texts {
	t.Helper()
	built := &texts{Backend: backend}
	cfg.Backend = built
	settled, err := config.Settle(cfg)
	if err != nil {
		t.Fatal(err)
	}
	gr := settled.Graphs()
	for _, p := range gr.Programs() {
		if _, err := gr.Compile(built, p); !errors.Is(err, errNotCompiled) {
			t.Fatal(err)
		}
	}
	return built
}

// An engine's programs have the same text whenever they are built: caches find compiled ones by it, those that another
// machine compiled too, and processes that run one model together have to have the same.
func TestProgramsHaveOneText(t *testing.T) {
	const all = 2*feature.NoRepeat - 1 // features
	for name, backend := range map[string]*xla.Backend{"kernels": testenv.XLA(t),
		"plain": testenv.XLAWithoutKernels(t)} {
		for _, family := range []string{"llama32-tied", "gemma3", "mixtral", "gemma4-large", "deepseek-v3",
			"qwen35-moe", "granite4"} {
			for _, layers := range []string{LayersUnrolled, LayersLoop} {
				t.Run(fmt.Sprint(family, " ", layers, " ", name), func(t *testing.T) {
					if testing.Short() && family != "llama32-tied" && (layers != LayersLoop || name == "plain") {
						t.Skip("part of make test-slow")
					}
					var built [2]*texts
					for i := range built {
						built[i] = textsOf(t, backend, Config{Model: testenv.Model(t, family), MaxSeqs: 4,
							KVMemory: 8 << 20, Layers: layers, Contexts: 2, Features: all})
					}
					for i, text := range built[0].all {
						if !bytes.Equal(text, built[1].all[i]) {
							t.Errorf("program %d of %d has two texts", i, len(built[0].all))
						}
					}
				})
			}
		}
	}
}

// A program that reports no experts and no hidden states has no array of them: the text of a mixture's program is that
// without the features.
func TestProgramsWithoutNotes(t *testing.T) {
	// By layer, the experts of each token of a step: 2 of 48 prompt tokens, and of 16 that decode; and the hidden
	// states of three places.
	experts, states := []byte("tensor<2x128xi32>"), []byte("tensor<3x64x32xf32>")
	for features, array := range map[Features][]byte{0: nil, feature.Experts: experts, feature.Hidden: states} {
		built := textsOf(t, testenv.XLA(t), Config{Model: testenv.Model(t, "mixtral"), MaxSeqs: 4, KVMemory: 8 << 20,
			PrefillTokens: 48, Features: features, Hidden: HiddenStates{Layers: []int{0, 1, 2}}})
		for _, one := range [][]byte{experts, states} {
			has := slices.ContainsFunc(built.all, func(text []byte) bool { return bytes.Contains(text, one) })
			if want := bytes.Equal(one, array); has != want {
				t.Errorf("features %q: an array %s: %v, want %v", features, one, has, want)
			}
		}
	}
}

// Programs of an engine without adapters have nothing of them: no kernel, no operand, and no slot in the table.
func TestProgramsWithoutAdapters(t *testing.T) {
	model := testenv.Model(t, "llama3")
	a, err := adapter.Open(testenv.Path("testdata", "adapters", "llama3"), &model.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	programs := func(adapters []Adapter) [][]byte {
		return textsOf(t, testenv.XLA(t), Config{Model: model, MaxSeqs: 4, KVMemory: 8 << 20, Adapters: adapters}).all
	}
	without, empty, with := programs(nil), programs([]Adapter{}), programs([]Adapter{{Name: "llama3", Adapter: a}})
	if !slices.EqualFunc(without, empty, bytes.Equal) {
		t.Error("an empty list of adapters changes programs")
	}
	kernel := []byte("low_rank")
	has := func(text []byte) bool { return bytes.Contains(text, kernel) }
	if slices.ContainsFunc(without, has) {
		t.Errorf("programs without adapters have the kernel %s", kernel)
	}
	if !slices.ContainsFunc(with, has) {
		t.Errorf("no program with adapters has the kernel %s", kernel)
	}
}
