package engine_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/adapter"
)

// adapterCase is a golden of scripts/oracle/adapter_goldens.py.
type adapterCase struct {
	Adapter, Model string
	Rows           []struct {
		Prompt, Tokens []int32
		Logprobs       []float64
	}
}

func adapterCases(t testing.TB) (cases []adapterCase) {
	testenv.ReadGolden(t, "adapters", &cases)
	return cases
}

// openAdapters opens adapters of testdata for a model, by their names.
func openAdapters(t testing.TB, model *models.Checkpoint, names ...string) (list []engine.Adapter) {
	t.Helper()
	for _, name := range names {
		a, err := adapter.Open(testenv.Path("testdata", "adapters", name), &model.Config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() })
		list = append(list, engine.Adapter{Name: name, Adapter: a})
	}
	return list
}

// fastAdapters are the goldens of the fast tests: unfused and fused tensors, stored rotations, an expert model.
var fastAdapters = []string{"llama3-head", "phi3"}

// mergedAdapters are those that rows cannot have, but that can be folded into the weights: of DoRA.
var mergedAdapters = []string{"llama3-dora", "phi3-dora"}

// Tokens and log-probabilities with an adapter are those of transformers with PEFT.
func TestAdaptersEqualPEFT(t *testing.T) {
	for _, c := range adapterCases(t) {
		if slices.Contains(mergedAdapters, c.Adapter) {
			continue
		}
		t.Run(c.Adapter, func(t *testing.T) {
			if !slices.Contains(fastAdapters, c.Adapter) {
				testenv.Slow(t)
			}
			equalsPEFT(t, c, testenv.XLA(t), nil)
		})
		t.Run(c.Adapter+" without kernels", func(t *testing.T) {
			testenv.Slow(t)
			equalsPEFT(t, c, testenv.XLAWithoutKernels(t), nil)
		})
	}
	for name, devices := range map[string]int{"llama3-head": 2, "gemma3-head": 3, "phi3": 4, "glm4": 2,
		"starcoder2": 3, "qwen3-moe": 2} {
		cases := adapterCases(t)
		c := cases[slices.IndexFunc(cases, func(c adapterCase) bool { return c.Adapter == name })]
		for _, kernels := range []string{xla.KernelsAuto, xla.KernelsOff} {
			t.Run(fmt.Sprintf("%s on %d devices, kernels %s", name, devices, kernels), func(t *testing.T) {
				if name != "llama3-head" || kernels == xla.KernelsOff {
					testenv.Slow(t)
				}
				equalsPEFT(t, c, testenv.Group(t, kernels, firstDevices(devices)...), nil)
			})
		}
	}
	for _, c := range adapterCases(t) {
		if c.Adapter != "llama3" && c.Adapter != "llama3-head" {
			continue
		}
		t.Run(c.Adapter+", layers in a loop", func(t *testing.T) {
			if c.Adapter == "llama3" {
				testenv.Slow(t)
			}
			equalsPEFT(t, c, testenv.XLA(t), func(cfg *engine.Config) { cfg.Layers = engine.LayersLoop })
		})
	}
}

func adapterConfig(backend compute.Backend) engine.Config {
	return engine.Config{Backend: backend, MaxSeqs: 8, PageSize: 8, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8}
}

func equalsPEFT(t *testing.T, c adapterCase, backend compute.Backend, change func(*engine.Config)) {
	t.Helper()
	cfg := adapterConfig(backend)
	cfg.Adapters = openAdapters(t, testenv.Model(t, c.Model), c.Adapter)
	if change != nil {
		change(&cfg)
	}
	e := newEngine(t, c.Model, cfg)
	var requests []*engine.Request
	for i, row := range c.Rows {
		r := greedy(fmt.Sprint(i), row.Prompt, len(row.Tokens))
		r.Adapter = c.Adapter
		requests = append(requests, r, greedy(fmt.Sprint("base ", i), row.Prompt, 8)) // beside rows without
	}
	asPEFT(t, c, collect(t, e, requests...))
}

func asPEFT(t *testing.T, c adapterCase, got map[string]*engine.Completion) {
	t.Helper()
	for i, row := range c.Rows {
		d := got[fmt.Sprintf("%d/0", i)]
		if d == nil || d.Err != nil {
			t.Fatalf("prompt %d: %+v", i, d)
		}
		if !slices.Equal(d.Tokens, row.Tokens) {
			t.Errorf("prompt of %d tokens: got %v, want %v", len(row.Prompt), d.Tokens, row.Tokens)
			continue
		}
		for k, want := range row.Logprobs {
			if math.Abs(float64(d.Logprobs[k])-want) > 1e-4 {
				t.Errorf("prompt of %d tokens: logprob %d is %v, want %v", len(row.Prompt), k, d.Logprobs[k], want)
				break
			}
		}
	}
}

// A prompt is scored with the adapter of its row: PEFT gives the same log-probabilities to what it generates.
func TestScoresOfAdapters(t *testing.T) {
	cases := adapterCases(t)
	c := cases[slices.IndexFunc(cases, func(c adapterCase) bool { return c.Adapter == "llama3-head" })]
	cfg := adapterConfig(testenv.XLA(t))
	cfg.Adapters, cfg.Features = openAdapters(t, testenv.Model(t, c.Model), c.Adapter, "llama3"), engine.PromptLogprobs
	e := newEngine(t, c.Model, cfg)
	var requests []*engine.Request
	for i, row := range c.Rows {
		for _, name := range []string{c.Adapter, "", "llama3"} {
			prompt := slices.Concat(row.Prompt, row.Tokens)
			r := greedy(fmt.Sprintf("%d %s", i, name), prompt[:min(len(prompt), 150)], 2)
			r.Adapter, r.ScorePrompt = name, true
			requests = append(requests, r)
		}
	}
	got := collect(t, e, requests...)
	for i, row := range c.Rows {
		d := got[fmt.Sprintf("%d %s/0", i, c.Adapter)]
		if d == nil || d.Err != nil {
			t.Fatalf("prompt %d: %+v", i, d)
		}
		for k, score := range d.Prompt.Logprobs[len(row.Prompt):] {
			if math.Abs(float64(score)-row.Logprobs[k]) > 1e-4 {
				t.Errorf("prompt of %d tokens: score %d is %v, want %v", len(row.Prompt), k, score, row.Logprobs[k])
				break
			}
		}
	}
}

// A checkpoint with an adapter folded in generates what transformers with PEFT do.
func TestMergedAdapterEqualsPEFT(t *testing.T) {
	for _, c := range adapterCases(t) {
		if !slices.Contains(append([]string{"llama3", "llama3-head", "phi3", "glm4"}, mergedAdapters...), c.Adapter) {
			continue
		}
		t.Run(c.Adapter, func(t *testing.T) {
			if c.Adapter != "llama3" && c.Adapter != "llama3-dora" {
				testenv.Slow(t)
			}
			model, err := models.Open(testenv.Path("testdata", "models", c.Model))
			if err != nil {
				t.Fatal(err)
			}
			defer model.Close()
			before := model.FingerPrint()
			a := openAdapters(t, model, c.Adapter)[0]
			if err := a.MergeInto(model); err != nil {
				t.Fatal(err)
			}
			if model.FingerPrint() == before {
				t.Error("the fingerprint is the base's")
			}
			cfg := adapterConfig(testenv.XLA(t))
			cfg.Model = model
			withDefaults(t, &cfg)
			e, err := engine.New(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			var requests []*engine.Request
			for i, row := range c.Rows {
				requests = append(requests, greedy(fmt.Sprint(i), row.Prompt, len(row.Tokens)))
			}
			asPEFT(t, c, collect(t, e, requests...))
		})
	}
}

// A row's bytes depend on its adapter, and not on the adapters of others, on how many there is room for, on the order
// of rows, or on what runs beside it; a row without an adapter has the bytes of an engine without adapters.
func TestSameBytesWhateverTheAdapters(t *testing.T) {
	const family = "llama3"
	names := []string{"", "llama3", "llama3-head", "llama3-stable", "llama3-wide"}
	requests := func() []*engine.Request {
		list := contractRequests()
		for i, r := range list {
			r.Adapter = names[i%len(names)]
		}
		return list
	}
	config := func(slots int, dtype dtypes.DType) engine.Config {
		cfg := contractConfig()
		cfg.DType = dtype
		cfg.Adapters = openAdapters(t, testenv.Model(t, family), names[1:]...)
		cfg.AdapterSlots = slots
		return cfg
	}
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		t.Run(dtype.String(), func(t *testing.T) {
			if dtype == dtypes.BFloat16 {
				testenv.Slow(t)
			}
			all := newEngine(t, family, config(len(names)-1, dtype))
			want := collect(t, all, requests()...)
			for _, c := range want {
				if c.Err != nil {
					t.Fatal(c.Err)
				}
			}
			plain := contractConfig()
			plain.DType = dtype
			base := map[string]*engine.Completion{}
			for _, r := range requests() {
				if r.Adapter == "" {
					base[r.ID] = nil
				}
			}
			var without []*engine.Request
			for _, r := range contractRequests() {
				if _, ok := base[r.ID]; ok {
					without = append(without, r)
				}
			}
			sameBytes(t, want, collect(t, newEngine(t, family, plain), without...), false)
			reversed := requests()
			slices.Reverse(reversed)
			sameBytes(t, want, collect(t, all, reversed...), true)
			for i, r := range requests() {
				if i%3 == 0 { // alone
					sameBytes(t, want, collect(t, all, r), false)
				}
			}
			few := newEngine(t, family, config(1, dtype))
			sameBytes(t, want, collect(t, few, requests()...), true)
			if loads := few.Stats().AdapterLoads; loads < len(names)-1 {
				t.Errorf("%d adapters were loaded, into room for one", loads)
			}
			apart := config(2, dtype)
			apart.Backend = memoryApart{testenv.XLA(t)}
			sent := newEngine(t, family, apart)
			sameBytes(t, want, collect(t, sent, requests()...), true)
			if loads := sent.Stats().AdapterLoads; loads < len(names)-1 {
				t.Errorf("%d adapters were sent to the device, into room for two", loads)
			}
			if testing.Short() {
				return
			}
			changed := config(2, dtype)
			changed.NoPrefixCache, changed.MaxSeqs, changed.PrefillTokens = true, 3, 16
			sameBytes(t, want, collect(t, newEngine(t, family, changed), requests()...), true)
		})
	}
}

// The same holds on devices that run the model together, whose bytes may be others than one device's.
func TestSameBytesWhateverTheAdaptersOnDevices(t *testing.T) {
	testenv.Slow(t)
	const family = "llama3"
	names := []string{"", "llama3", "llama3-head", "llama3-stable"}
	for _, kernels := range []string{xla.KernelsAuto, xla.KernelsOff} {
		config := func(slots int) engine.Config {
			cfg := contractConfig()
			cfg.Backend, cfg.AdapterSlots = testenv.Group(t, kernels, firstDevices(3)...), slots
			cfg.Adapters = openAdapters(t, testenv.Model(t, family), names[1:]...)
			return cfg
		}
		requests := contractRequests()
		for i, r := range requests {
			r.Adapter = names[i%len(names)]
		}
		want := collect(t, newEngine(t, family, config(len(names)-1)), requests...)
		few := newEngine(t, family, config(1))
		slices.Reverse(requests)
		sameBytes(t, want, collect(t, few, requests...), true)
		if loads := few.Stats().AdapterLoads; loads < len(names)-1 {
			t.Errorf("%d adapters were loaded, into room for one", loads)
		}
	}
}

// memoryApart is a backend whose device memory the host cannot write, as that of accelerators.
type memoryApart struct{ *xla.Backend }

func (memoryApart) HostWritable() bool { return false }

// Prompts share pages only if they run with the same adapter.
func TestPrefixesOfAdapters(t *testing.T) {
	cfg := contractConfig()
	cfg.Adapters = openAdapters(t, testenv.Model(t, "llama3"), "llama3", "llama3-stable")
	e := newEngine(t, "llama3", cfg)
	prompt := contractRequests()[13].Tokens // several pages
	run := func(name string) (*engine.Completion, int) {
		r := greedy("row", prompt, 8)
		r.Adapter = name
		c := collectInOrder(t, e, r)["row/0"]
		return c, e.Stats().HitTokens
	}
	tokens := map[string][]int32{}
	for _, name := range []string{"", "llama3", "llama3-stable", "", "llama3", "llama3-stable"} {
		c, hits := run(name)
		_, again := tokens[name]
		if (hits > 0) != again {
			t.Errorf("adapter %q, again %t: %d tokens were there", name, again, hits)
		}
		if again && !slices.Equal(c.Tokens, tokens[name]) {
			t.Errorf("adapter %q: %v, then %v", name, tokens[name], c.Tokens)
		}
		tokens[name] = c.Tokens
	}
}

// What a request cannot have is its own error, or the engine's before it starts.
func TestAdaptersRefuse(t *testing.T) {
	cfg := contractConfig()
	cfg.Adapters = openAdapters(t, testenv.Model(t, "llama3"), "llama3", "llama3-stable")
	cfg.Backend, cfg.Model = testenv.XLA(t), testenv.Model(t, "llama3")
	checker := engine.NewChecker(cfg)
	r := greedy("row", []int32{1, 2}, 3)
	r.Adapter = "other"
	err := checker.Check(r)
	if err == nil || !strings.Contains(err.Error(), `adapter is "other", which is not one of the job's: llama3, `) {
		t.Errorf("an unknown adapter: %v", err)
	}
	merged := cfg
	merged.Adapters = openAdapters(t, cfg.Model, "llama3-dora")
	if _, err := merged.Plan(); err == nil || !strings.Contains(err.Error(),
		"is of DoRA (use_dora), which rows cannot have") {
		t.Errorf("DoRA: %v", err)
	}
	without := cfg
	without.Adapters = nil
	if err := engine.NewChecker(without).Check(r); err == nil || !strings.Contains(err.Error(), "has no adapters") {
		t.Errorf("no adapters: %v", err)
	}
	without.AdapterSlots = 2
	if _, err := without.Plan(); err == nil || !strings.Contains(err.Error(), "there are no adapters") {
		t.Errorf("room for none: %v", err)
	}
}
