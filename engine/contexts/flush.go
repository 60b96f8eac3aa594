package contexts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/schedule"
)

// Flush runs the tokens that wait of several contexts in the same steps: faster than one context after the other.
func (s *Contexts) Flush(ctx context.Context, contexts ...*Context) error {
	for _, c := range contexts {
		if c.set != s {
			return fmt.Errorf("%w: the context is another engine's", admit.ErrInvalidRequest)
		}
	}
	defer lockContexts(contexts...)()
	return s.flush(ctx, rowsOf(contexts))
}

// flush runs all waiting tokens of contexts.
func (s *Contexts) flush(ctx context.Context, list []*contextRow) error {
	for _, r := range list {
		r.until = len(r.tokens)
	}
	return s.runTokens(ctx, list)
}

// runTokens runs the tokens of contexts, each until its own end, together, except tokens that already have pages. The
// program that runs the prompts of requests runs them, in its calls: so keys and values have the same bytes.
func (s *Contexts) runTokens(ctx context.Context, list []*contextRow) error {
	started := false
	for {
		var scheduled []*contextRow
		err := s.operation(ctx, func() (err error) {
			waiting := slices.DeleteFunc(slices.Clone(list), (*contextRow).flushed)
			for _, r := range list {
				if err := r.usable(); err != nil {
					return err
				}
			}
			if len(waiting) == 0 {
				return nil
			}
			if !started {
				if err := s.table.beginFlush(waiting); err != nil {
					return err
				}
				started = true
			}
			scheduled, err = s.table.scheduleTokens(waiting)
			return err
		})
		if err == nil && len(scheduled) > 0 {
			if err = s.runScheduled(ctx, scheduled); err == nil {
				continue
			}
		}
		if !started {
			return err
		}
		return errors.Join(err, s.operation(context.Background(), func() error { return s.table.endFlush(list) }))
	}
}

// runScheduled waits until calls have run the scheduled tokens of contexts, in the current run or in a run of its own.
// It also returns if that run was cancelled.
func (s *Contexts) runScheduled(ctx context.Context, list []*contextRow) error {
	for {
		s.mu.Lock()
		pending := slices.ContainsFunc(list, func(r *contextRow) bool { return !r.lost && r.done < r.scheduled })
		changed := s.table.watch()
		s.mu.Unlock()
		if !pending {
			return nil
		}
		run, mine := s.lock.Join(true)
		if mine {
			var failed error
			for _, err := range s.runner(ctx, run, nil) {
				failed = err
			}
			if s.lock.Leave(run); failed != nil {
				return failed
			}
			continue
		}
		run.Relay.BeginReadAhead()
		select {
		case <-changed:
		case <-run.Ended:
		case <-ctx.Done():
		}
		run.Relay.EndReadAhead()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// moved notes that a call ran tokens of a context, and took pages for them.
func (s *Contexts) moved(row, done int, pages []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.table.rows[row-s.table.first]
	r.done = done
	s.table.grow(r, ceilDiv(done, s.table.pageSize))
	for place, page := range pages {
		if page != schedule.None {
			s.table.know(row, place, page)
		}
	}
	s.table.name(r)
	s.table.tell()
}
