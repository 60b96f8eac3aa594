package engine_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// Most of a test's time goes into making an engine: tests share those of the same configuration, where a run leaves
// nothing behind for the next one.

var shared = struct {
	mu      sync.Mutex
	engines map[string]*kept
	models  map[string]*models.Checkpoint
	uses    int
}{engines: map[string]*kept{}, models: map[string]*models.Checkpoint{}}

// kept is an engine that tests share.
type kept struct {
	*engine.Engine
	tests int // that have it now
	last  int // when a test last took it, counted in uses
}

// mostKept bounds the engines that no test has. Compiled programs take thousands of memory mappings, of which a process
// has 65,530.
const mostKept = 12

// release gives an engine back, and closes those used longest ago where too many are kept.
func (k *kept) release() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	k.tests--
	for {
		idle, oldest := 0, ""
		for key, other := range shared.engines {
			if other.tests > 0 {
				continue
			}
			if idle++; oldest == "" || other.last < shared.engines[oldest].last {
				oldest = key
			}
		}
		if idle <= mostKept {
			return
		}
		shared.engines[oldest].Close()
		delete(shared.engines, oldest)
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, k := range shared.engines {
		k.Close()
	}
	for _, c := range shared.models {
		_ = c.Close()
	}
	os.Exit(code)
}

// leavesNothing says that an engine of the configuration is after a run as it was before: contexts and what is kept
// with the host stay, and what a test gave is the test's.
func leavesNothing(c engine.Config) bool {
	return c.Contexts == 0 && c.HostKVMemory == 0 && c.Log == nil && c.Tokenizer == nil && c.Hosts == nil
}

// sharedEngine is newEngine, or the engine that another test got for the same.
func sharedEngine(t testing.TB, family string, cfg engine.Config) *engine.Engine {
	t.Helper()
	if !leavesNothing(cfg) {
		return newEngine(t, family, cfg)
	}
	withDefaults(t, &cfg)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	key := fmt.Sprintf("%s on %p: %+v", family, cfg.Backend, sizesOf(cfg))
	take := func(k *kept) *engine.Engine {
		shared.uses++
		k.tests, k.last = k.tests+1, shared.uses
		t.Cleanup(k.release)
		return k.Engine
	}
	if k := shared.engines[key]; k != nil {
		return take(k)
	}
	if shared.models[family] == nil {
		model, err := models.Open(testenv.Path("testdata", "models", family))
		if err != nil {
			t.Fatal(err)
		}
		shared.models[family] = model
	}
	cfg.Model = shared.models[family]
	e, err := engine.New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{Engine: e}
	shared.engines[key] = k
	return take(k)
}

// sizesOf is the configuration without what it points to.
func sizesOf(c engine.Config) engine.Config {
	c.Backend, c.Model = nil, nil
	return c
}

// contractWant and longWant are what the contract's engine draws for contractRequests and for longRequests(16), which
// most tests compare with.
var contractWant, longWant drawnOnce

// drawnOnce are completions that are drawn when a test first wants them.
type drawnOnce struct {
	mu  sync.Mutex
	all map[string]*engine.Completion
}

func (d *drawnOnce) of(t testing.TB, requests []*engine.Request) map[string]*engine.Completion {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = collect(t, contractEngine(t, nil), requests...)
	}
	return d.all
}

func wantOfContract(t testing.TB) map[string]*engine.Completion {
	t.Helper()
	return contractWant.of(t, contractRequests())
}

func wantOfLong(t testing.TB) map[string]*engine.Completion {
	t.Helper()
	return longWant.of(t, longRequests(16))
}
