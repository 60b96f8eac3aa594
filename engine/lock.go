package engine

import (
	"sync"

	"github.com/quire/quire/engine/schedule"
)

// lock gives exclusive access to the engine, to a run or to an operation. Operations on contexts are done between two
// calls of a run that is under way. Others refuse to wait for it, since its end may be up to the very caller. It is
// acquired before contexts.mu.
type lock struct {
	mu      sync.Mutex
	changed *sync.Cond
	taken   bool
	run     *running // nil: an operation has the lock
	runs    int      // that wait for the lock
	read    int      // runs that are over on the device, whose completions are still being taken
}

// running is a run that has the lock.
type running struct {
	between chan *schedule.Operation
	ended   chan struct{} // closed when it is over on the device
	over    bool          // guarded by the lock
	// brief says that it runs nothing but tokens of contexts, and ends soon: once a run waits it takes no more.
	brief bool
	aside bool // it is beside the one whose figures are asked for
	slack *slack
}

func (l *lock) cond() *sync.Cond {
	if l.changed == nil {
		l.changed = sync.NewCond(&l.mu)
	}
	return l.changed
}

// acquire waits for the lock, for an operation that has no place beside a run: while one is under way it returns
// [ErrRunning].
func (l *lock) acquire() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.taken || l.read > 0 {
		if l.read > 0 || l.run != nil && !l.run.brief {
			return ErrRunning
		}
		l.cond().Wait()
	}
	l.taken = true
	return nil
}

// begin waits for the lock, for a run.
func (l *lock) begin() *running {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs++
	for l.taken || l.read > 0 {
		l.cond().Wait()
	}
	l.runs--
	return l.start(false)
}

func (l *lock) start(brief bool) *running {
	l.taken = true
	l.run = &running{between: make(chan *schedule.Operation), ended: make(chan struct{}), brief: brief,
		aside: l.read > 0, slack: newSlack()}
	return l.run
}

// join returns the run that is under way, or begins one, which is then the caller's to end.
func (l *lock) join(brief bool) (run *running, mine bool) {
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

// takesMore says that a run is under way that does operations between its calls.
func (l *lock) takesMore() bool { return l.run != nil && (!l.run.brief || l.runs == 0) }

// enter waits until an operation can be done: by the caller, who has the lock then, or by the run that is returned.
func (l *lock) enter() *running {
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
func (l *lock) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free()
}

func (l *lock) free() {
	l.taken, l.run = false, nil
	l.cond().Broadcast()
}

// over says that a run has done its last call. Operations on contexts need not wait until its completions are taken,
// which may be up to the very caller.
func (l *lock) over(run *running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	run.over = true
	close(run.ended)
	if !run.brief {
		l.read++
	}
	l.free()
}

// leave gives back what begin or join took.
func (l *lock) leave(run *running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !run.over: // it did not begin
		run.over = true
		close(run.ended)
		l.free()
	case !run.brief:
		l.read--
		l.cond().Broadcast()
	}
}

// alone does an operation that has no place beside a run.
func (e *Engine) alone(do func() error) error {
	if err := e.lock.acquire(); err != nil {
		return err
	}
	defer e.lock.release()
	return do()
}

// exclusive does an operation on contexts: between two calls of the run that is under way, or now. between is nil
// without a run. Where do says later, it is called again after the next call.
func (e *Engine) exclusive(do func(between *schedule.Between) (later bool)) {
	for {
		run := e.lock.enter()
		if run == nil {
			defer e.lock.release()
			do(nil)
			return
		}
		if run.do(do) {
			return
		}
	}
}

// do has the run do an operation. It returns false where the run ended before.
func (r *running) do(do func(between *schedule.Between) (later bool)) bool {
	r.slack.take()
	defer r.slack.give()
	o := schedule.NewOperation(do)
	select {
	case r.between <- o:
		return o.Done()
	case <-r.ended:
		return false
	}
}
