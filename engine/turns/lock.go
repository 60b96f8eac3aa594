// Package turns gives exclusive access to an engine's device, to one run or one operation at a time.
package turns

import (
	"errors"
	"sync"

	"github.com/quire/quire/engine/schedule"
)

// ErrRunning means that a run is under way; pinned prefixes are for the time between runs.
var ErrRunning = errors.New("not while Run is under way")

// Lock gives exclusive access to the engine, to a run or to an operation. Operations on contexts are done between two
// calls of a run that is under way. Others refuse to wait for it, since its end may be up to the very caller. It is
// acquired before contexts.mu.
type Lock struct {
	mu      sync.Mutex
	changed *sync.Cond
	taken   bool
	run     *Run // nil: an operation has the lock
	runs    int  // runs that wait for the lock
	read    int  // runs that are over on the device, whose completions are still being taken
}

// Run is a run that has the lock.
type Run struct {
	Between chan *schedule.Operation
	Ended   chan struct{} // closed when it is over on the device
	over    bool          // guarded by the lock
	// Brief means that the run runs nothing but tokens of contexts, and ends soon: once another run waits it takes no
	// more.
	Brief bool
	Aside bool // it runs while another is read, whose figures are asked for
	Relay *Relay
}

func (l *Lock) cond() *sync.Cond {
	if l.changed == nil {
		l.changed = sync.NewCond(&l.mu)
	}
	return l.changed
}

// acquire waits for the lock, for an operation that cannot be done during a run: while one is under way it returns
// [ErrRunning].
func (l *Lock) acquire() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.taken || l.read > 0 {
		if l.read > 0 || l.run != nil && !l.run.Brief {
			return ErrRunning
		}
		l.cond().Wait()
	}
	l.taken = true
	return nil
}

// Begin waits for the lock, for a run.
func (l *Lock) Begin() *Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs++
	for l.taken || l.read > 0 {
		l.cond().Wait()
	}
	l.runs--
	return l.start(false)
}

func (l *Lock) start(brief bool) *Run {
	l.taken = true
	l.run = &Run{Between: make(chan *schedule.Operation), Ended: make(chan struct{}), Brief: brief,
		Aside: l.read > 0, Relay: NewRelay()}
	return l.run
}

// Join returns the run that is under way, or begins one, which is then the caller's to end.
func (l *Lock) Join(brief bool) (run *Run, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.taken && !l.takesMore() {
		l.cond().Wait()
	}
	if l.taken {
		return l.run, false
	}
	return l.start(brief), true
}

// takesMore reports whether a run is under way that does operations between its calls.
func (l *Lock) takesMore() bool { return l.run != nil && (!l.run.Brief || l.runs == 0) }

// enter waits until an operation can be done: by the caller, who has the lock then, or by the run that is returned.
func (l *Lock) enter() *Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.taken && !l.takesMore() {
		l.cond().Wait()
	}
	if l.taken {
		return l.run
	}
	l.taken = true
	return nil
}

// release gives back what acquire or enter took.
func (l *Lock) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free()
}

func (l *Lock) free() {
	l.taken, l.run = false, nil
	l.cond().Broadcast()
}

// Over notes that a run has done its last call. Operations on contexts need not wait until its completions are taken,
// which may be up to the very caller.
func (l *Lock) Over(run *Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	run.over = true
	close(run.Ended)
	if !run.Brief {
		l.read++
	}
	l.free()
}

// Leave gives back what begin or join took.
func (l *Lock) Leave(run *Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !run.over: // it did not start
		run.over = true
		close(run.Ended)
		l.free()
	case !run.Brief:
		l.read--
		l.cond().Broadcast()
	}
}

// Alone does an operation that cannot be done during a run.
func (l *Lock) Alone(do func() error) error {
	if err := l.acquire(); err != nil {
		return err
	}
	defer l.release()
	return do()
}

// Exclusive does an operation on contexts: between two calls of the run that is under way, or now. between is nil
// without a run. If do returns later, it is called again after the next call.
func (l *Lock) Exclusive(do func(between *schedule.Between) (later bool)) {
	for {
		run := l.enter()
		if run == nil {
			defer l.release()
			do(nil)
			return
		}
		if run.Do(do) {
			return
		}
	}
}

// Do has the run do an operation. It returns false if the run ended before.
func (r *Run) Do(do func(between *schedule.Between) (later bool)) bool {
	r.Relay.BeginReadAhead()
	defer r.Relay.EndReadAhead()
	o := schedule.NewOperation(do)
	select {
	case r.Between <- o:
		return o.Done()
	case <-r.Ended:
		return false
	}
}
