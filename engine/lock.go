package engine

import "sync"

// lock gives exclusive access to the engine, to a run or to an operation between runs. Operations wait for one another
// and refuse to wait for a run, whose end may be up to the very caller. It is acquired before contexts.mu.
type lock struct {
	mu      sync.Mutex
	changed *sync.Cond
	taken   bool
	byRun   bool
}

// acquire waits for the lock. An operation gets [ErrRunning] while a run holds it.
func (l *lock) acquire(byRun bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = sync.NewCond(&l.mu)
	}
	for l.taken {
		if l.byRun && !byRun {
			return ErrRunning
		}
		l.changed.Wait()
	}
	l.taken, l.byRun = true, byRun
	return nil
}

func (l *lock) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = false
	l.changed.Broadcast()
}

// alone does an operation that has no place beside a run.
func (e *Engine) alone(do func() error) error {
	if err := e.lock.acquire(false); err != nil {
		return err
	}
	defer e.lock.release()
	return do()
}
