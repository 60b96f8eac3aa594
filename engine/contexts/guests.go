package contexts

import (
	"maps"
	"sync"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/turns"
)

// guests are the requests that came to the run of others.
type guests struct {
	mu   sync.Mutex // guards list
	list map[*schedule.Request]guest
}

// guest gets the completions of its request.
type guest struct {
	run *turns.Run
	out chan *schedule.Completion // has room for all of them
}

// invite makes a request of a run a guest.
func (g *guests) invite(run *turns.Run, r *schedule.Request) <-chan *schedule.Completion {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.list == nil {
		g.list = map[*schedule.Request]guest{}
	}
	out := make(chan *schedule.Completion, r.N)
	g.list[r] = guest{run, out}
	return out
}

// dismiss forgets a guest to whom no completion comes any more.
func (g *guests) dismiss(r *schedule.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.list, r)
}

// dismissAll forgets the guests of a run that is over.
func (g *guests) dismissAll(run *turns.Run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.list, func(_ *schedule.Request, one guest) bool { return one.run == run })
}

// pass gives a completion to the guest whose it is. It reports false if that is nobody.
func (g *guests) pass(c *schedule.Completion) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	one, ok := g.list[c.Request]
	if ok {
		one.out <- c
	}
	return ok
}

// relay passes completions on, the completions of guests to them.
func (g *guests) relay(run *turns.Run, relay *turns.Relay, in <-chan *schedule.Completion,
	out chan<- *schedule.Completion) {
	defer close(out)
	defer g.dismissAll(run)
	relay.Pass(in, out, g.pass)
}
