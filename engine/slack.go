package engine

import (
	"sync"

	"github.com/quire/quire/engine/schedule"
)

// slack says when completions of a run are read though nobody takes them yet: while somebody waits for an operation
// that the run does, who may be the very one that should take them.
type slack struct {
	mu      sync.Mutex
	waiting int
	changed chan struct{} // closed when somebody begins to wait
}

func newSlack() *slack { return &slack{changed: make(chan struct{})} }

func (s *slack) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting++
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *slack) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
}

func (s *slack) state() (waiting bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting > 0, s.changed
}

// relay passes completions on, those of guests to these. It reads as many as the buffer of in holds ahead of those who
// take them, and more while somebody waits.
func (s *slack) relay(in <-chan *schedule.Completion, out chan<- *schedule.Completion) {
	defer close(out)
	var list []*schedule.Completion
	for in != nil || len(list) > 0 {
		waiting, changed := s.state()
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
			case c.Request.Tag.(tag).guest != nil:
				c.Request.Tag.(tag).guest <- c // it has room for all
			default:
				list = append(list, c)
			}
		case to <- first:
			list = list[1:]
		case <-changed:
		}
	}
}
