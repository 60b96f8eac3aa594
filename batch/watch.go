package batch

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// caller is a sampler that counts the calls of its programs as they end. Of one that does not, only completions tell
// that the device is alive, and long ones may take longer than Timing.StallAfter.
type caller interface{ Calls() int64 }

// watchdog warns of a device that stands still.
type watchdog struct {
	last atomic.Int64 // when something came, in nanoseconds after start
	from time.Time
	end  chan struct{}
}

// watchDevice watches a session until stop.
func watchDevice(w io.Writer, s *Session) *watchdog {
	d := &watchdog{from: time.Now(), end: make(chan struct{})}
	counter, _ := s.Sampler.(caller)
	go d.watch(w, counter)
	return d
}

func (d *watchdog) watch(w io.Writer, counter caller) {
	ticker := time.NewTicker(Timing.StallAfter / 8)
	defer ticker.Stop()
	var calls int64
	limit, what := Timing.StallAfter, "no completion was finished"
	if counter != nil {
		what = "no call of the device has ended"
	}
	for {
		select {
		case <-d.end:
			return
		case <-ticker.C:
		}
		if counter != nil {
			if n := counter.Calls(); n != calls {
				calls = n
				d.alive()
			}
		}
		switch quiet := time.Since(d.from) - time.Duration(d.last.Load()); {
		case quiet < Timing.StallAfter:
			limit = Timing.StallAfter
		case quiet >= limit:
			limit = 2 * quiet
			fmt.Fprintf(w,
				"warning: %s for %s; the device may be stalled. What is finished is kept: the run can be ended and "+
					"started again\n",
				what, quiet.Round(Timing.StallAfter/100))
		}
	}
}

// alive notes that something came from the device. The clock is monotonic: changes of the wall clock do not matter.
func (d *watchdog) alive() { d.last.Store(int64(time.Since(d.from))) }

func (d *watchdog) stop() { close(d.end) }
