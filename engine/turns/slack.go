package turns

import "sync"

// Slack says when completions of a run are read though nobody takes them yet: while somebody waits for an operation
// that the run does, who may be the very one that should take them.
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
