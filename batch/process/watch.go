package process

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/data/setting"
)

// caller is a sampler that counts the calls of its programs as they end. If a sampler does not count, only completions
// show that the device is alive, and long ones may take longer than d.process.Timing.StallAfter.
type caller interface{ Calls() int64 }

// Watchdog warns of a device that stands still, and ends the process when it does for too long.
type Watchdog struct {
	process *Process
	idle    func() bool
	last    atomic.Int64 // when something came, in nanoseconds after start
	from    time.Time
	end     chan struct{}
}

// WatchDevice watches a session until stop. idle reports whether nobody waits for the device.
func WatchDevice(p *Process, s *Session, idle func() bool) *Watchdog {
	d := &Watchdog{process: p, idle: idle, from: time.Now(), end: make(chan struct{})}
	counter, _ := s.Sampler.(caller)
	go d.watch(counter)
	return d
}

func (d *Watchdog) watch(counter caller) {
	every := d.process.Timing.StallAfter
	if timeout := d.process.CallTimeout; timeout > 0 {
		every = min(every, timeout)
	}
	ticker := time.NewTicker(every / 8)
	defer ticker.Stop()
	var calls int64
	limit, what := d.process.Timing.StallAfter, "no completion was finished"
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
				d.Alive()
			}
		}
		if d.process.Observer.Run.Idle() || d.idle() { // a worker waits for a unit, or a stream for a row
			d.Alive()
		}
		quiet := time.Since(d.from) - time.Duration(d.last.Load())
		if timeout := d.process.CallTimeout; timeout > 0 && quiet >= timeout {
			// A worker's units stay taken until the queue notices that it is gone: that counts as a try.
			d.process.Stuck(setting.Errorf("%s for %s (`call-timeout`): the device hangs; what is finished is kept, "+
				"and the same command continues the job", what, timeout))
			return
		}
		switch {
		case quiet < d.process.Timing.StallAfter:
			limit = d.process.Timing.StallAfter
		case quiet >= limit:
			limit = 2 * quiet
			d.process.Printf("warning: %s for %s; the device may be stalled. What is finished is kept: the run can be "+
				"ended and started again", what, quiet.Round(d.process.Timing.StallAfter/100))
		}
	}
}

// Alive notes that something came from the device. The clock is monotonic: changes of the wall clock do not matter.
func (d *Watchdog) Alive() { d.last.Store(int64(time.Since(d.from))) }

func (d *Watchdog) Stop() { close(d.end) }

// EndInTime checks that work ends after ctx has ended, until done is called: a call of the device may never return.
// abandon is called before the process is ended.
func EndInTime(ctx context.Context, p *Process, abandon func()) (done func()) {
	ended := make(chan struct{})
	go func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		select {
		case <-ended:
		case <-time.After(p.Timing.EndGrace):
			abandon()
			p.Stuck(outcome.Errorf(outcome.Interrupted,
				"interrupted, and the call under way did not end within %s; what is finished "+
					"is kept: run the same command again to continue", p.Timing.EndGrace))
		}
	}()
	return func() { close(ended) }
}
