package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// order watches in which order calls and copies come, and holds some of them up: a copy to the host until the next call
// has begun, and the end of a call until what was staged is on the device. An engine that waited for its copies between
// the calls could not go on.
type order struct {
	t *testing.T
	m *core.Swapper

	mu   sync.Mutex
	wake *sync.Cond
	runs int // begun
	gaps int // blocks gathered since the last run began
	held int // blocks gathered whose copies to the host have not ended
	late bool
	// down and up count copies that had a call beside them; places the blocks that were placed, unstaged those that
	// were not there by then.
	down, up, places, unstaged int
}

func watch(t *testing.T, e *Engine) *order {
	o := &order{t: t, m: e.swapper}
	o.wake = sync.NewCond(&o.mu)
	e.swapper.Observe = o.event
	return o
}

func (o *order) event(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch what {
	case "run begins":
		o.runs, o.gaps = o.runs+1, 0
	case "run ends":
		for _, s := range o.m.Staged() { // the engine's goroutine is in here: nothing but the copies goes on
			select {
			case <-s:
				o.up++
			default:
				o.mu.Unlock()
				select {
				case <-s:
					o.up++
				case <-time.After(time.Minute):
					o.t.Error("a block was not copied to the device while the program ran")
				}
				o.mu.Lock()
			}
		}
	case "gather":
		o.gaps, o.held = o.gaps+1, o.held+1
	case "down ends":
		o.held--
	case "place":
		o.places++
	case "not staged":
		o.unstaged++
		o.gaps = 0 // the engine needs this block now: its copy to the host must not be held up any longer
	case "down begins":
		// Where as many blocks as may be under way wait for this one, it has to go.
		runs := o.runs
		timer := time.AfterFunc(time.Minute, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.late = true
			o.wake.Broadcast()
		})
		for o.gaps > 0 && o.held < config.BlocksInFlight && o.runs == runs && !o.late {
			o.wake.Wait()
		}
		timer.Stop()
		if o.held < config.BlocksInFlight {
			o.down++
		}
	}
	o.wake.Broadcast()
}

// Copies between device and host go on while the program runs, and nobody waits for them but who needs them.
func TestTransfersRunBesideTheProgram(t *testing.T) {
	const page = 16 * 2 * 2 * 3 * 8 * 4
	rng := rand.New(rand.NewPCG(21, 21))
	tokens := func(n int) []int32 {
		x := make([]int32, n)
		for i := range x {
			x[i] = int32(rng.IntN(256))
		}
		return x
	}
	var long, sharing []*Request
	for i := range 16 {
		long = append(long, &Request{ID: fmt.Sprint(i), Tokens: tokens(3 + rng.IntN(40)), N: 1,
			MaxTokens: 60 + rng.IntN(50), Sampling: sampling.Settings{TopP: 1}, IgnoreEOS: true})
	}
	for i := range 60 { // prefixes that come again after others took their room
		of := rand.New(rand.NewPCG(5, uint64(i%15)))
		prompt := make([]int32, 80, 90)
		for j := range prompt {
			prompt[j] = int32(of.IntN(256))
		}
		sharing = append(sharing, &Request{ID: fmt.Sprint("s", i), Tokens: append(prompt, tokens(4)...), N: 2,
			MaxTokens: 5, Sampling: sampling.Settings{TopP: 1}, IgnoreEOS: true})
	}
	for name, c := range map[string]struct {
		change   func(c *Config)
		requests []*Request
	}{
		"sequences": {func(c *Config) { c.Admission = Overcommit }, long},
		"prefixes":  {func(c *Config) { c.HostKVMemory = 32 * 16 * page }, sharing},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Model: testenv.Model(t, "smollm2-like"), Backend: testenv.XLA(t), MaxSeqs: 8, PageSize: 16,
				PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8,
				KVMemory: 22 * page, Debug: true} // smallPool of the other tests, whose programs these are
			c.change(&cfg)
			begin := func() *Engine {
				e, err := New(context.Background(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(e.Close)
				e.runs.inOrder = true
				return e
			}
			run := func(e *Engine) map[string][]int32 {
				got := map[string][]int32{}
				for done, err := range e.Run(t.Context(), slices.Values(c.requests)) {
					if err != nil || done.Err != nil {
						t.Fatal(err, done)
					}
					got[fmt.Sprint(done.Request.ID, "/", done.Generation)] = done.Tokens
				}
				return got
			}
			want := run(begin())
			e := begin()
			o := watch(t, e)
			for range 2 { // what the first run leaves with the host comes back in the second
				if got := run(e); !reflect.DeepEqual(got, want) {
					t.Error("other tokens are drawn when copies take longer")
				}
			}
			e.swapper.WaitCopies()
			s := e.Stats()
			t.Logf(
				"%d calls; copies beside them: %d to the host, %d to the device; %d blocks placed, %d not staged; "+
					"%.4f s of copies, %.4f s waited",
				s.Calls, o.down, o.up, o.places, o.unstaged, s.TransferSeconds, s.TransferWaitSeconds)
			if o.late {
				t.Error("a call waited for a copy to the host")
			}
			if o.down == 0 || o.up == 0 || o.places == 0 || o.unstaged == o.places {
				t.Error("copies are not beside the calls")
			}
			if s.TransferSeconds <= 0 || s.TransferWaitSeconds <= 0 {
				t.Error("the seconds are not counted")
			}
		})
	}
}
