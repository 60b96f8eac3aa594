package engine

import (
	"strings"
	"testing"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/internal/testenv"
)

// A program without features has no array of them, and those that it has are updated in place.
func TestExtrasOfFeatures(t *testing.T) {
	const drafts = Features(1 << 30) // stands for drafts, which are none
	sets := []Features{0, Penalties | Biases | Filters | TopLogprobs | PromptLogprobs | WideLogprobs, drafts}
	if !testing.Short() {
		sets = append(sets, Penalties, Biases, Filters, TopLogprobs, PromptLogprobs)
	}
	for _, features := range sets {
		cfg := Config{Model: testenv.Model(t, "smollm2-like"), Backend: testenv.XLA(t), MaxSeqs: 64, PageSize: 16,
			PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8, KVMemory: 64 << 20, Features: features &^ drafts}
		if features == drafts {
			cfg.Speculate = SpeculateAuto
		}
		e, err := New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		run := e.core.Program(device.Run)
		names := []string{}
		for _, l := range run.Extras {
			names = append(names, l.Name)
		}
		for _, l := range run.Input.Leaves() {
			names = append(names, l.Name)
		}
		for _, name := range names {
			if features == 0 && (strings.HasPrefix(name, "Extras.") || strings.HasPrefix(name, "Asked.")) {
				t.Errorf("a program without features has %s", name)
			}
		}
		bytes := int64(0)
		state, own := e.core.State()
		for _, s := range append(state, own...) {
			shape, err := s.Shape()
			if err != nil {
				t.Fatal(err)
			}
			bytes += int64(shape.Size()) * int64(shape.DType.Size())
		}
		stats, err := run.Executable.(*xla.Executable).MemoryStats()
		if err != nil {
			t.Fatal(err)
		}
		if stats.Aliases != bytes {
			t.Errorf("with %q the program updates %d bytes in place, state and extras have %d", features, stats.Aliases,
				bytes)
		}
		extras := int64(0)
		for _, l := range run.Extras {
			extras += int64(l.Shape.Memory())
		}
		if said := e.core.Graphs().ExtraBytes(); extras != said {
			t.Errorf("the extras of %q take %d bytes, and are said to take %d", features, extras, said)
		}
		t.Logf("%q: extras of %d bytes, %d bytes of temporaries", features, extras, stats.Temporary)
	}
}
