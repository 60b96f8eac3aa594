package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/promptset"
)

// restartPause is how long the first restart of the engine waits; each further one waits twice as long, up to a minute.
var restartPause = time.Second

// job is one run over a prompt set.
type job struct {
	options *runOptions
	reader  *promptset.Reader
	saved   *savedJob
	builder requestBuilder
	out     *collector
	stderr  io.Writer

	observer *observer

	restarts int
	engines  engine.Stats // of all engines of this run

	// The rows that are not in a published part and were not begun, read across restarts.
	next  func() (*promptset.Row, bool)
	stash *promptset.Row // read, and not begun
	begun int64          // all rows to be done before this one were begun
}

// rows gives the rows of the parts that are missing.
func (j *job) rows(ctx context.Context) iter.Seq[*promptset.Row] {
	return func(yield func(*promptset.Row) bool) {
		for i := 0; i < len(j.saved.missing); i++ {
			from, to := j.saved.parts.Range(j.saved.missing[i])
			// Parts that follow one another are read in one go.
			for i+1 < len(j.saved.missing) && j.saved.missing[i+1] == j.saved.missing[i]+1 {
				i++
				_, to = j.saved.parts.Range(j.saved.missing[i])
			}
			for row := range j.reader.Range(ctx, from, to) {
				if !yield(row) {
					return
				}
			}
			if j.reader.Err() != nil {
				return
			}
		}
	}
}

// run draws the completions of all rows. Where the engine fails, reopen makes another one, which goes on with what was
// in flight. The error is what ended the job early.
func (j *job) run(ctx context.Context, s *session, reopen func() (*session, error), m *meter) (*session, error) {
	next, stop := iter.Pull(j.rows(ctx))
	defer stop()
	j.next = next
	failures := 0
	for {
		_, before, _ := j.out.counts()
		err := j.attempt(ctx, s, m)
		j.engines = j.engines.Then(s.Stats())
		done, drawn, _ := j.out.counts()
		// What several processes do together they begin together, too: the job is started again, not the engine.
		if err == nil || ctx.Err() != nil || j.options.hosts.several() || j.out.failed() != nil ||
			j.reader.Err() != nil {
			m.finish(done, drawn)
			return s, errors.Join(err, j.reader.Err())
		}
		if drawn.Completions > before.Completions {
			failures = 0
		}
		for {
			j.observer.failed(err)
			if failures++; failures > j.options.maxRestarts {
				m.finish(done, drawn)
				return s, j.giveUp(failures, err)
			}
			pause := min(restartPause<<min(failures-1, 6), time.Minute)
			fmt.Fprintf(j.stderr,
				"warning: the device failed: %v; the engine is started again in %s (try %d of %d without a "+
					"completion in between)\n",
				err, pause, failures, j.options.maxRestarts)
			select {
			case <-ctx.Done():
				m.finish(done, drawn)
				return s, ctx.Err()
			case <-time.After(pause):
			}
			j.restarts++
			again, openErr := reopen()
			if openErr == nil {
				s, j.builder.session = again, again
				j.observer.again()
				break
			}
			err = openErr
		}
	}
}

// giveUp is the error for a device that goes on failing.
func (j *job) giveUp(failures int, err error) error {
	var names []string
	rows := j.out.unfinished()
	for _, p := range rows[:min(len(rows), errorExamples)] {
		names = append(names, p.row.Error(fmt.Sprintf("(id %s)", p.row.ID)).Error())
	}
	at := "no row was begun"
	if len(names) > 0 {
		at = fmt.Sprintf("%s in slots or waiting for one, the first: %s", plural.Count(len(rows), "row")+
			plural.Of(len(rows), " was", " were"), strings.Join(names, ", "))
	}
	return fmt.Errorf("the device failed %s without finishing a completion in between, the last time with: %w (%s)",
		plural.Count(failures, "time"), err, at)
}

// attempt runs one engine until the rows are through or it fails.
func (j *job) attempt(ctx context.Context, s *session, m *meter) (err error) {
	ctx, cancel := context.WithCancel(ctx) // lets go of the reading goroutine when the loop is left early
	defer cancel()
	watch := watchDevice(j.stderr, s)
	defer watch.stop()
	for c, runErr := range s.Run(ctx, j.requests(ctx)) {
		watch.alive()
		if runErr != nil {
			err = runErr
			break
		}
		if err = j.out.add(c); err != nil {
			break
		}
		done, drawn, _ := j.out.counts()
		m.update(done, drawn)
	}
	if err == nil {
		err = j.out.failed() // of a row that never reached the engine
	}
	return err
}

// requests yields requests for what was in flight before, then for each row that is good and not done; bad rows and
// those that the journal has whole go straight to the output.
func (j *job) requests(ctx context.Context) iter.Seq[*engine.Request] {
	return func(yield func(*engine.Request) bool) {
		all := func(p *pendingRow) bool {
			for _, r := range j.out.requests(p) {
				if !yield(r) {
					return false
				}
			}
			return true
		}
		for _, p := range j.out.unfinished() {
			if !all(p) {
				return
			}
		}
		for {
			if j.stash == nil {
				var ok bool
				if j.stash, ok = j.next(); !ok {
					j.stash = nil
					return
				}
			}
			p, err := j.begin(ctx, j.stash)
			if err != nil {
				return
			}
			j.begun = j.stash.Index + 1
			j.stash = nil
			if p != nil && !all(p) {
				return
			}
		}
	}
}

// begin takes a row up. It returns the row if completions of it are to be drawn. An error means that it was not begun,
// or that nothing more can be.
func (j *job) begin(ctx context.Context, row *promptset.Row) (*pendingRow, error) {
	if row.Err != nil {
		return nil, j.out.fail(ctx, row, row.Err)
	}
	set := j.builder.parameters(row)
	first, n := set.Generation, set.N
	done, err := j.saved.of(row.Index)
	if err != nil {
		fmt.Fprintf(j.stderr, "warning: %v; it is drawn again\n", err)
		done = nil
	}
	done = slices.DeleteFunc(done, func(r promptset.Result) bool {
		return r.Generation < first ||
			r.Generation-first >= n
	})
	var request *engine.Request
	if n < 1 || len(done) < n {
		if request, err = j.builder.request(row); err != nil {
			return nil, j.out.fail(ctx, row, err)
		}
	}
	p, err := j.out.begin(ctx, row, n)
	if err != nil {
		return nil, err
	}
	p.request = request
	if request != nil {
		j.builder.equal.look(row, request)
	}
	if len(done) > 0 {
		if err := j.out.restore(p, done); err != nil {
			return nil, err
		}
	}
	if request == nil {
		return nil, nil
	}
	return p, nil
}

// rowError names a row and what is wrong with it; the row's own errors do both.
func rowError(row *promptset.Row, failure string) string {
	if row.Err != nil && row.Err.Error() == failure {
		return failure
	}
	return row.Error(fmt.Sprintf("(id %s) %s", row.ID, failure)).Error()
}
