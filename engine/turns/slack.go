package turns

import (
	"sync"

	"github.com/quire/quire/engine/schedule"
)

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

// Relay passes completions on, but for those that take takes. It reads no further ahead of the consumer than the buffer
// of in holds, except while somebody waits.
func (s *Slack) Relay(in <-chan *schedule.Completion, out chan<- *schedule.Completion,
	take func(*schedule.Completion) bool) {
	var list []*schedule.Completion
	for in != nil || len(list) > 0 {
		waiting, changed := s.State()
		from, to := in, out
		var first *schedule.Completion
		if len(list) == 0 {
			to = nil
		} else if first = list[0]; !waiting {
			from = nil
		}
		select {
		case c, ok := <-from:
			switch {
			case !ok:
				in = nil
			case !take(c):
				list = append(list, c)
			}
		case to <- first:
			list = list[1:]
		case <-changed:
		}
	}
}
