package turns

import "sync"

// Slack reads the completions of a run although nobody takes them yet, while a caller waits for an operation that the
// run does. That caller may be the one that should take them.
type Slack struct {
	mu      sync.Mutex
	waiting int
	changed chan struct{} // closed when somebody begins to wait
}

func NewSlack() *Slack { return &Slack{changed: make(chan struct{})} }

func (s *Slack) Take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting++
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Slack) Give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
}

func (s *Slack) State() (waiting bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting > 0, s.changed
}
