package engine

import "sync"

// turn is whose the engine is: a run's, or an operation's between runs. Operations wait for one another, and refuse to
// wait for a run, whose end may be up to the very caller. It is taken before contexts.mu.
type turn struct {
	mu      sync.Mutex
	changed *sync.Cond
	taken   bool
	byRun   bool
}

// take waits for the turn. An operation gets [ErrRunning] while a run has it.
func (t *turn) take(byRun bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = sync.NewCond(&t.mu)
	}
	for t.taken {
		if t.byRun && !byRun {
			return ErrRunning
		}
		t.changed.Wait()
	}
	t.taken, t.byRun = true, byRun
	return nil
}

func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = false
	t.changed.Broadcast()
}

// alone does an operation that has no place beside a run.
func (e *Engine) alone(do func() error) error {
	if err := e.turn.take(false); err != nil {
		return err
	}
	defer e.turn.give()
	return do()
}
