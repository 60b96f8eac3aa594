package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// slowCompiler compiles the programs that move pages when it may, or not at all.
type slowCompiler struct {
	*xla.Backend
	may   chan struct{}
	fail  error
	asked *atomic.Int32 // how many of them were wanted
}

func (b slowCompiler) Builder(name string) compute.Builder {
	return b.slow(name, b.Backend.Builder(name))
}

func (b slowCompiler) Donating(alias map[string]int) compute.Backend {
	return slowDonating{b.Backend.Donating(alias).(*xla.View), b}
}

type slowDonating struct {
	*xla.View
	of slowCompiler
}

func (v slowDonating) Builder(name string) compute.Builder {
	return v.of.slow(name, v.View.Builder(name))
}

func (b slowCompiler) slow(name string, builder compute.Builder) compute.Builder {
	if name != device.Save && name != device.Load {
		return builder
	}
	return slowBuilder{builder, b}
}

type slowBuilder struct {
	compute.Builder
	of slowCompiler
}

// Compile implements [compute.Builder].
func (b slowBuilder) Compile() (compute.Executable, error) {
	b.of.asked.Add(1)
	select {
	case <-b.of.may:
	case <-time.After(time.Minute):
		return nil, errors.New("the engine waits for it")
	}
	if b.of.fail != nil {
		return nil, b.of.fail
	}
	return b.Builder.Compile()
}

// A job begins before the programs that move pages are compiled, and waits for them when it first needs one. Where one
// can't be compiled, it ends with that error then.
func TestJobBeginsBeforePagesCanMove(t *testing.T) {
	var requests []*Request
	for i := range 12 {
		requests = append(requests, &Request{ID: fmt.Sprint(i), Tokens: []int32{5, int32(i), 7}, N: 1, MaxTokens: 90,
			Sampling: sampling.Settings{TopP: 1}, IgnoreEOS: true})
	}
	run := func(fail error) (map[string][]int32, Stats, error) {
		slow := slowCompiler{testenv.XLA(t), make(chan struct{}), fail, new(atomic.Int32)}
		calls := 0
		e, err := New(t.Context(), Config{Model: testenv.Model(t, "smollm2-like"), Backend: slow, MaxSeqs: 8,
			PageSize: 16, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8, KVMemory: 22 * 16 * 2 * 2 * 3 * 8 * 4,
			Admission: Overcommit, Observe: func(Call) {
				if calls++; calls == 1 {
					close(slow.may)
				}
			}, Debug: true})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		got := map[string][]int32{}
		for done, err := range e.Run(t.Context(), slices.Values(requests)) {
			if err != nil {
				return nil, e.Stats(), err
			}
			got[done.Request.ID] = done.Tokens
		}
		if n := len(e.Executables()); n != len(e.Plan().Programs) {
			t.Errorf("%d of %d programs are there", n, len(e.Plan().Programs))
		}
		return got, e.Stats(), nil
	}
	got, stats, err := run(nil)
	if err != nil {
		t.Fatal(err)
	}
	if stats.Preemptions == 0 {
		t.Error("no pages moved: the test shows nothing")
	}
	for id, tokens := range got {
		if len(tokens) != 90 {
			t.Errorf("%s has %d tokens", id, len(tokens))
		}
	}
	_, _, err = run(errors.New("no room for it"))
	if err == nil || !strings.Contains(err.Error(), "no room for it") {
		t.Errorf("a program that moves pages can't be compiled, and the job ends with: %v", err)
	}
}

// Programs that move pages are compiled once half of the pages are taken, or at once where pages are kept on the host
// or held by contexts.
func TestProgramsThatMovePagesAreCompiledWhenNeeded(t *testing.T) {
	may := make(chan struct{})
	close(may)
	const pages = 16 // two rows of full length would have 20
	for _, c := range []struct {
		name   string
		tokens int // of each of two rows, with 16 a page
		change func(*Config)
		want   int32
	}{
		{"few pages are taken", 60, func(*Config) {}, 0},
		{"most pages are taken", 90, func(*Config) {}, 2},
		{"nothing is ever moved", 90, func(c *Config) { c.Admission = Reserve }, 0},
		{"pages are kept on the host", 20, func(c *Config) { c.HostKVMemory = 1 << 20 }, 2},
		{"contexts hold pages", 20, func(c *Config) { c.Contexts = 1 }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.HasSuffix(c.name, "taken") {
				testenv.Slow(t)
			}
			cfg := Config{Model: testenv.Model(t, "smollm2-like"), MaxSeqs: 2, PageSize: 16, PrefillTokens: 64,
				Backend: slowCompiler{testenv.XLA(t), may, nil, new(atomic.Int32)}, MaxModelLen: 160, MaxRounds: 8,
				KVMemory: pages * 16 * 2 * 2 * 3 * 8 * 4, Admission: Overcommit}
			c.change(&cfg)
			e, err := New(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			var requests []*Request
			for i := range 2 {
				requests = append(requests, &Request{ID: fmt.Sprint(i), Tokens: []int32{5, int32(i), 7}, N: 1,
					MaxTokens: c.tokens, Sampling: sampling.Settings{TopP: 1}, IgnoreEOS: true})
			}
			for done, err := range e.Run(t.Context(), slices.Values(requests)) {
				if err != nil || len(done.Tokens) != c.tokens {
					t.Fatalf("%d tokens: %v", len(done.Tokens), err)
				}
			}
			e.core.WaitCompiled()
			if n := cfg.Backend.(slowCompiler).asked.Load(); n != c.want {
				t.Errorf("%d programs were compiled for %d pages, want %d", n, e.Plan().Pages, c.want)
			}
			if n := len(e.Executables()); n != len(e.Plan().Programs) {
				t.Errorf("%d of %d programs can be looked at", n, len(e.Plan().Programs))
			}
		})
	}
}

// tunedBackend tunes programs, and counts how many are compiled at the same time.
type tunedBackend struct {
	slowCompiler
	compiling, most *atomic.Int32
}

func (b tunedBackend) Traits() backend.Traits {
	traits := b.Backend.Traits()
	traits.TunesOnDevice = true
	return traits
}

func (b tunedBackend) Builder(name string) compute.Builder {
	return tunedBuilder{b.Backend.Builder(name), b}
}

func (b tunedBackend) Donating(alias map[string]int) compute.Backend {
	return tunedDonating{b.Backend.Donating(alias).(*xla.View), b}
}

type tunedDonating struct {
	*xla.View
	of tunedBackend
}

func (v tunedDonating) Builder(name string) compute.Builder {
	return tunedBuilder{v.View.Builder(name), v.of}
}

type tunedBuilder struct {
	compute.Builder
	of tunedBackend
}

// Compile implements [compute.Builder].
func (b tunedBuilder) Compile() (compute.Executable, error) {
	n := b.of.compiling.Add(1)
	defer b.of.compiling.Add(-1)
	for most := b.of.most.Load(); n > most && !b.of.most.CompareAndSwap(most, n); most = b.of.most.Load() {
	}
	b.of.asked.Add(1)
	return b.Builder.Compile()
}

// spansOf notes when spans begin and end.
type spansOf struct {
	mu    sync.Mutex
	spans map[string][2]time.Time
}

func (s *spansOf) Span(_, name string, begin, end time.Time, _ ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans[name] = [2]time.Time{begin, end}
}

func (s *spansOf) Counter(string, time.Time, ...any) {}

// Programs that are tuned on the device are compiled one after the other, all of them, and before the weights come.
func TestTunedProgramsComeBeforeWeights(t *testing.T) {
	b := tunedBackend{slowCompiler{testenv.XLA(t), nil, nil, new(atomic.Int32)}, new(atomic.Int32), new(atomic.Int32)}
	times := &spansOf{spans: map[string][2]time.Time{}}
	e, err := New(t.Context(), Config{Model: testenv.Model(t, "smollm2-like"), MaxSeqs: 2, PageSize: 16,
		PrefillTokens: 64, Backend: b, MaxModelLen: 160, MaxRounds: 8, KVMemory: 16 * 16 * 2 * 2 * 3 * 8 * 4,
		Admission: Overcommit, Trace: func(int) schedule.Tracer { return times }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if n, all := int(b.asked.Load()), len(e.Plan().Programs); n != all || b.most.Load() != 1 {
		t.Errorf("%d of %d programs are compiled, up to %d at a time", n, all, b.most.Load())
	}
	compiled, loaded := times.spans["compile"], times.spans["load weights"]
	if loaded[0].IsZero() || loaded[0].Before(compiled[1]) {
		t.Errorf("weights are loaded from %v on, and programs compiled until %v", loaded[0], compiled[1])
	}
}
