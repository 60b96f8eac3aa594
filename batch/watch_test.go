package batch

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// countedSampler has calls that end when it is told.
type countedSampler struct {
	Sampler
	calls int64
}

func (s *countedSampler) Calls() int64 { return s.calls }

// stuckTask notes why its process should end.
func stuckTask(timeout time.Duration) (t *Task, stuck *error, messages *bytes.Buffer) {
	stuck, messages = new(error), &bytes.Buffer{}
	t = &Task{Options: Options{CallTimeout: timeout, Messages: messages, Stuck: func(err error) { *stuck = err }}}
	t.Options = t.withDefaults()
	return t, stuck, messages
}

// A device without calls is warned of, ever more seldom, and ends the process after --call-timeout; not while a worker
// waits for a unit, nor while calls end.
func TestDeviceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task, stuck, messages := stuckTask(30 * time.Minute)
		sampler := &countedSampler{}
		d := task.watchDevice(&Session{Sampler: sampler})
		defer d.stop()
		step := func(minutes int) {
			time.Sleep(time.Duration(minutes) * time.Minute)
			synctest.Wait()
		}
		for range 4 {
			step(29)
			sampler.calls++
		}
		task.Observer.Run.Waiting()
		step(180)
		task.Observer.Run.Working()
		if step(29); *stuck != nil {
			t.Fatal(*stuck)
		}
		// After 2, 4, 8 and 16 minutes.
		if n := strings.Count(messages.String(), "no call of the device has ended"); n != 5*4 {
			t.Errorf("%d warnings", n)
		}
		if step(2); *stuck == nil || !strings.Contains((*stuck).Error(), "has ended for 30m0s (--call-timeout)") ||
			OutcomeOf(*stuck) != Failed {
			t.Errorf("%v", *stuck)
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
			task, stuck, _ := stuckTask(0)
			ctx, cancel := context.WithCancel(t.Context())
			abandoned := ""
			done := task.endInTime(ctx, func() { abandoned = "abandoned" })
			if c.interrupted {
				cancel()
			}
			time.Sleep(Timing.EndGrace / 2)
			if c.ends {
				done()
			}
			time.Sleep(Timing.EndGrace)
			synctest.Wait()
			if abandoned != c.want || (*stuck != nil) != (c.want != "") || *stuck != nil &&
				OutcomeOf(*stuck) != Interrupted {
				t.Errorf("%+v: %q, %v", c, abandoned, *stuck)
			}
			if !c.ends {
				done()
			}
			cancel()
		}
	})
}
