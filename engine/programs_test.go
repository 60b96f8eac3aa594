package engine

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
)

// Every program updates all of the device state in place, and has no temporary as large as a layer's cache.
func TestStateIsUpdatedInPlace(t *testing.T) {
	t.Run("alone", func(t *testing.T) { stateIsUpdatedInPlace(t, func(*Config) {}) })
	t.Run("with a draft model", func(t *testing.T) {
		testenv.Slow(t)
		stateIsUpdatedInPlace(t, func(c *Config) {
			c.Speculate, c.DraftModel = SpeculateAuto, testenv.Model(t, "smollm2-like")
		})
	})
}

func stateIsUpdatedInPlace(t *testing.T, change func(*Config)) {
	cfg := Config{Model: testenv.Model(t, "smollm2-like"), Backend: testenv.XLA(t), MaxSeqs: 64, PageSize: 16,
		PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8, KVMemory: 64 << 20, Contexts: 8}
	change(&cfg)
	e, err := New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	all, _ := e.core.State()
	var state int64
	for _, s := range all {
		shape, err := s.Shape()
		if err != nil {
			t.Fatal(err)
		}
		state += int64(shape.Size()) * int64(shape.DType.Size())
	}
	gr := e.core.Graphs()
	layer := e.plan.KVBytes / int64(len(gr.Layouts))
	if gr.Drafter != nil {
		layer = e.plan.KVBytes / int64(len(gr.Layouts)+len(gr.Drafter.Layouts)) // layers of one size
	}
	for _, name := range []string{"run", "context", "score"} {
		stats, err := e.core.Program(name).Executable.(*xla.Executable).MemoryStats()
		if err != nil {
			t.Fatal(err)
		}
		if stats.Aliases != state {
			t.Errorf("%s updates %d bytes in place, the state has %d", name, stats.Aliases, state)
		}
		if stats.Temporary >= layer {
			t.Errorf("%s takes %d bytes of temporaries, a layer's cache is %d", name, stats.Temporary, layer)
		}
		t.Logf("%s: %d bytes in place, %d temporary; a layer's cache %d", name, stats.Aliases, stats.Temporary, layer)
	}
}

// A step runs the form of the model that it takes, and no part of the other one; nor does it look for drafts where it
// takes none. The compiler may move what does not depend on a loop's state before the loop: see [control.Hold].
func TestStepsRunWhatTheyTake(t *testing.T) {
	kernel := regexp.MustCompile(`\bquire_(linear|rms_norm|rope|draft_\w+)\b`)
	for _, speculate := range []int{0, SpeculateAuto} {
		calls := 0
		for _, computation := range computations(t, Config{Speculate: speculate}) {
			found := kernel.FindAllString(computation, -1)
			calls += len(found)
			if len(found) > 0 && strings.Contains(computation, " while(") {
				t.Errorf("speculate %d: beside loops stand %v", speculate, found)
			}
		}
		if calls == 0 {
			t.Error("there are no kernels in the program")
		}
	}
}

// Where no row has penalties or biases, a step takes none of the numbers of the whole vocabulary that are kept for
// them: the operands of a branch are computed before it.
func TestStepsTakeNoUnusedVocabularies(t *testing.T) {
	cfg := Config{Features: Penalties | Biases}
	vocabulary := testenv.Model(t, "smollm2-like").Config.VocabSize
	taken := regexp.MustCompile(fmt.Sprintf(`= \w+\[\d+,(1,)?%d\]\S* (fusion|gather)\(`, vocabulary))
	branches := 0
	for _, computation := range computations(t, cfg) {
		if !strings.Contains(computation, "quire_linear") || !strings.Contains(computation, " conditional(") {
			continue
		}
		branches++
		if found := taken.FindAllString(computation, -1); len(found) > 0 {
			t.Errorf("beside branches stand %v", found)
		}
	}
	if branches == 0 {
		t.Error("logits stand beside no branch")
	}
}

// computations are those of the optimized program run of a small model and cfg.
func computations(t *testing.T, cfg Config) []string {
	t.Helper()
	cfg.Model, cfg.Backend, cfg.MaxSeqs, cfg.PageSize = testenv.Model(t, "smollm2-like"), testenv.XLA(t), 4, 16
	cfg.PrefillTokens, cfg.MaxModelLen, cfg.MaxRounds, cfg.KVMemory = 64, 160, 8, 8<<20
	e, err := New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	hlo, err := e.core.Program("run").Executable.(*xla.Executable).OptimizedHLO()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(hlo, "\n}\n")
}
