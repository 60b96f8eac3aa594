package contexts

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/turns"
)

// Begin prepares the part that contexts have in a run: run gets their rows, and the pages that they leave. of is nil
// for a run that an operation of the engine needs.
func (s *Contexts) Begin(of *turns.Run, run *schedule.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.sweep(nil); err != nil {
		return err
	}
	t := &s.table
	run.Contexts, run.FreePages, run.Pool = t.contextsOfRun(), t.pages-t.used, t.freePages()
	run.Moved = s.moved
	run.Short = func(need, pool int) error { return t.enoughOf(pool, need, pool, "contexts hold pages") }
	if of != nil && (of.Brief || of.Aside) { // nobody asks for its figures
		run.Stats, run.Calls, run.Observe = &schedule.Stats{}, &atomic.Int64{}, func(schedule.Call, []int32) {}
	}
	return nil
}

// End ends the part that contexts have in a run. After a failure the device is in the middle of something, and contexts
// are lost.
func (s *Contexts) End(failed bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed {
		s.table.lose()
		return nil
	}
	return s.table.endScheduled()
}

// Relay passes on the completions of a run, and gives guests theirs. While somebody waits for an operation that the run
// does, it reads completions that nobody takes yet.
func (s *Contexts) Relay(of *turns.Run, in <-chan *schedule.Completion) <-chan *schedule.Completion {
	relay := turns.NewRelay()
	if of != nil {
		relay = of.Relay
	}
	out := make(chan *schedule.Completion)
	go s.guests.relay(of, relay, in, out)
	return out
}

// ReplaceWeights notes that other weights compute keys and values from now on, and begins the names of pages with
// another seed. Contexts and snapshots keep what they have. The caller has the engine's lock, or between is not nil.
func (s *Contexts) ReplaceWeights(seed prefix.Hash, between *schedule.Between) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.table
	t.seed = seed
	for _, r := range t.open() {
		if r.done > 0 {
			r.mixed = t.mark()
		}
	}
	for _, saved := range t.saved {
		saved.mixed = t.mark()
	}
	if between != nil {
		between.Contexts(t.contextsOfRun(), t.pages-t.used, t.freePages())
	}
}

// PinnedPages is how many pages contexts hold or were promised, which give way to nobody. It is for the goroutine that
// uses the device.
func (s *Contexts) PinnedPages() int { return s.table.pinnedPages() }

// Close ends all contexts: they are the device state's.
func (s *Contexts) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// generate generates the completions of a request in the run that is under way, or in one of its own.
func (s *Contexts) generate(ctx context.Context, r *admit.Request) (all []*admit.Completion, err error) {
	for {
		run, mine := s.lock.Join(false)
		if !mine {
			all, ended, err := s.visit(ctx, run, r)
			if ended {
				continue
			}
			return all, err
		}
		defer s.lock.Leave(run)
		for completion, err := range s.runner(ctx, run, slices.Values([]*admit.Request{r})) {
			if err == nil {
				err = completion.Err
			}
			if err != nil {
				return nil, err
			}
			all = append(all, completion)
		}
		return all, nil
	}
}

// visit generates the completions of a request in a run of others. ended reports whether the run ended before.
func (s *Contexts) visit(ctx context.Context, run *turns.Run, r *admit.Request) (all []*admit.Completion, ended bool,
	err error) {
	scheduled := s.checker.Schedule(r)
	if scheduled.Err != nil {
		return nil, false, scheduled.Err
	}
	guest := s.guests.invite(run, scheduled)
	if !run.Do(func(between *schedule.Between) bool { between.Add(scheduled); return false }) {
		s.guests.dismiss(scheduled)
		return nil, true, nil
	}
	run.Relay.BeginReadAhead()
	defer run.Relay.EndReadAhead()
	for len(all) < scheduled.N {
		var c *schedule.Completion
		select {
		case c = <-guest:
		case <-run.Ended:
			if len(guest) == 0 { // what came out is there already
				return nil, true, nil
			}
			continue
		case <-ctx.Done():
			return nil, false, ctx.Err() // its completions go nowhere: the channel has room for them
		}
		done := admit.NewCompletion(c)
		if done.Err != nil {
			return nil, false, done.Err
		}
		all = append(all, done)
	}
	s.guests.dismiss(scheduled)
	return all, false, nil
}
