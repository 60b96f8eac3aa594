package turns

import (
	"sync"

	"github.com/quire/quire/engine/schedule"
)

// Relay passes the completions of a run on to its consumer. It reads ahead of the consumer while a caller waits for an
// operation that the run does: that caller may be the consumer itself.
type Relay struct {
	mu      sync.Mutex    // protects the fields below
	waiting int           // callers
	changed chan struct{} // closed when another caller begins to wait
}

// NewRelay returns a relay that does not read ahead.
func NewRelay() *Relay { return &Relay{changed: make(chan struct{})} }

// BeginReadAhead is called by a caller before it waits, and EndReadAhead after it.
func (r *Relay) BeginReadAhead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting++
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Relay) EndReadAhead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
}

func (r *Relay) state() (waiting bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting > 0, r.changed
}

// Pass passes completions on until in is closed and all are received. It omits a completion for which withhold returns
// true. It reads no further ahead of the consumer than the buffer of in holds, except while a caller waits.
func (r *Relay) Pass(in <-chan *schedule.Completion, out chan<- *schedule.Completion,
	withhold func(*schedule.Completion) bool) {
	var read []*schedule.Completion
	for in != nil || len(read) > 0 {
		waiting, changed := r.state()
		from, to := in, out
		var first *schedule.Completion
		if len(read) == 0 {
			to = nil
		} else if first = read[0]; !waiting {
			from = nil
		}
		select {
		case c, ok := <-from:
			switch {
			case !ok:
				in = nil
			case !withhold(c):
				read = append(read, c)
			}
		case to <- first:
			read = read[1:]
		case <-changed:
		}
	}
}
