package process

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire/quire/batch/outcome"
)

// countedSampler has calls that end when it is told.
type countedSampler struct {
	Sampler
	calls atomic.Int64
}

func (s *countedSampler) Calls() int64 { return s.calls.Load() }

// stuckProcess notes why it should end, and what it says.
func stuckProcess(timeout time.Duration) (p *Process, said *lastWords) {
	said = &lastWords{}
	options := Options{CallTimeout: timeout, Messages: said, Stuck: said.stuckBy}
	return &Process{Options: options.WithDefaults()}, said
}

// lastWords are messages, and the error with which a process is ended.
type lastWords struct {
	mu    sync.Mutex
	text  strings.Builder
	stuck error
}

func (w *lastWords) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *lastWords) stuckBy(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stuck = err
}

func (w *lastWords) get() (text string, stuck error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String(), w.stuck
}

// A device without calls is warned of, ever more seldom, and ends the process after --call-timeout; not while a worker
// waits for a unit, nor while calls end.
func TestDeviceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, said := stuckProcess(30 * time.Minute)
		sampler := &countedSampler{}
		d := WatchDevice(p, &Session{Sampler: sampler}, func() bool { return false })
		defer d.Stop()
		step := func(minutes int) {
			time.Sleep(time.Duration(minutes) * time.Minute)
			synctest.Wait()
		}
		for range 4 {
			step(29)
			sampler.calls.Add(1)
		}
		p.Observer.Run.Waiting()
		step(180)
		p.Observer.Run.Working()
		step(29)
		messages, stuck := said.get()
		if stuck != nil {
			t.Fatal(stuck)
		}
		// After 2, 4, 8 and 16 minutes.
		if n := strings.Count(messages, "no call of the device has ended"); n != 5*4 {
			t.Errorf("%d warnings", n)
		}
		step(2)
		if _, stuck := said.get(); stuck == nil || outcome.Of(stuck) != outcome.Failed ||
			!strings.Contains(stuck.Error(), "has ended for 30m0s (`call-timeout`)") {
			t.Errorf("%v", stuck)
		}
	})
}

// What does not come to its end after the context has is ended, as interrupted; what does is left alone.
func TestEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			interrupted, ends bool
			want              string
		}{{true, false, "abandoned"}, {true, true, ""}, {false, false, ""}} {
			p, said := stuckProcess(0)
			ctx, cancel := context.WithCancel(t.Context())
			done := EndInTime(ctx, p, func() { _, _ = said.Write([]byte("abandoned")) })
			if c.interrupted {
				cancel()
			}
			time.Sleep(p.Timing.EndGrace / 2)
			if c.ends {
				done()
			}
			time.Sleep(p.Timing.EndGrace)
			synctest.Wait()
			abandoned, stuck := said.get()
			if abandoned != c.want || (stuck != nil) != (c.want != "") || stuck != nil &&
				outcome.Of(stuck) != outcome.Interrupted {
				t.Errorf("%+v: %q, %v", c, abandoned, stuck)
			}
			if !c.ends {
				done()
			}
			cancel()
		}
	})
}
