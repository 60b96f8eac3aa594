package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/quire/quire/tree"
)

// Run draws the completions of requests and yields them as they finish.
//
// A request that can't be run yields a completion with Err set, and the job goes on. An error beside a nil completion
// ends it: the device failed, or ctx was cancelled. Requests are taken as there is room for them, from another
// goroutine than the caller's. Stopping the iteration stops the engine's work on it.
func (e *Engine) Run(ctx context.Context, requests iter.Seq[*Request]) iter.Seq2[*Completion, error] {
	return func(yield func(*Completion, error) bool) {
		if err := e.turn.take(true); err != nil {
			yield(nil, err)
			return
		}
		defer e.turn.give()
		e.runAlone(ctx, requests)(yield)
	}
}

// runAlone is Run for those whose turn it is.
func (e *Engine) runAlone(ctx context.Context, requests iter.Seq[*Request]) iter.Seq2[*Completion, error] {
	return func(yield func(*Completion, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		intake := make(chan *Request, lookAhead/4)
		out := make(chan *Completion, 4*e.plan.MaxSeqs)
		go func() {
			defer close(intake)
			for r := range requests {
				select {
				case intake <- r:
				case <-ctx.Done():
					return
				}
			}
		}()
		failed := make(chan error, 1)
		go func() {
			defer close(out)
			failed <- e.run(ctx, intake, out)
		}()
		end := func() { // what was begun here ends before Run does
			cancel()
			for range out {
			}
			for range intake {
			}
		}
		defer end() // should yield panic
		stopped := false
		for c := range out {
			if !stopped && !yield(c, nil) {
				stopped = true
				cancel()
			}
		}
		end()
		if err := <-failed; err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// job is one Run.
type job struct {
	e       *Engine
	sched   *scheduler
	intake  <-chan *Request
	open    bool // intake may have more
	out     chan<- *Completion
	drawn   chan *result
	columns int // of the next call
	start   time.Time
}

func (e *Engine) run(ctx context.Context, intake <-chan *Request, out chan<- *Completion) error {
	if e.inStep != nil && !e.inStep.leads() {
		return fmt.Errorf("%w: process 0 runs, and this one follows", ErrSeveralHosts)
	}
	if e.state == nil {
		err := e.inStep.announce(e.programs["init"], nil, nil)
		if err == nil {
			err = e.reset()
		}
		if err != nil {
			return err
		}
	}
	e.contexts.mu.Lock()
	err := e.sweep()
	e.contexts.mu.Unlock()
	if err != nil {
		return err
	}
	j := &job{e: e, sched: newScheduler(e), intake: intake, open: true, out: out, drawn: make(chan *result, 2),
		columns: 1, start: e.now()}
	e.calls.Store(0)
	e.stats = Stats{StartSeconds: e.stats.StartSeconds, Pages: e.plan.Pages}
	kept := make(chan int, 1)
	go func() {
		tokens := 0
		for r := range j.drawn {
			e.drain(r, func(done *Completion) {
				tokens += len(done.Tokens)
				out <- done
			})
		}
		kept <- tokens
	}()
	err = j.loop(ctx)
	e.inStep.fail(ctx, err)
	close(j.drawn)
	e.stats.GeneratedTokens = <-kept
	e.moves.stage(nil)
	e.stats.TransferSeconds, e.stats.TransferWaitSeconds = e.moves.seconds()
	e.stats.WallSeconds = e.now().Sub(j.start).Seconds()
	e.stats.HostSeconds = max(0, e.stats.WallSeconds-e.stats.DeviceSeconds)
	if err != nil {
		e.clearRows() // the state is in the middle of something
	}
	return err
}

// loop offers what waits and makes a call, until nothing is left. While a call runs, the drain turns the last one's
// tokens into completions.
func (j *job) loop(ctx context.Context) error {
	s := j.sched
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.settle()
		if err := j.fill(ctx); err != nil {
			return err
		}
		if !j.open && s.idle() {
			return j.finish()
		}
		c, err := s.plan()
		if err == nil {
			_, err = j.call(c)
		}
		if err != nil {
			return err
		}
	}
}

// ErrPagesLost says that pages were not free at the end of a run, when nothing holds them: a fault of the engine.
var ErrPagesLost = errors.New("pages were lost, please report this")

// finish gives up the prefixes that are kept, and checks that all pages are free then.
func (j *job) finish() error {
	if err := j.sched.keepOnHost(j.e.keep); err != nil {
		return err
	}
	j.sched.dropAll()
	c, err := j.sched.plan()
	if err != nil {
		return err
	}
	free, err := j.call(c)
	if want := j.e.plan.Pages - j.e.contexts.used; err == nil && free != want {
		err = fmt.Errorf("%w: %d of %d are free on the device", ErrPagesLost, free, want)
	}
	return err
}

// fill takes requests in: what is there, or the next one if there is nothing else to do.
func (j *job) fill(ctx context.Context) error {
	for j.open && j.sched.wants() > 0 {
		var r *Request
		if j.sched.idle() || j.e.inOrder {
			select {
			case r, j.open = <-j.intake:
			case <-ctx.Done():
				return ctx.Err()
			}
		} else {
			select {
			case r, j.open = <-j.intake:
			default:
				return nil
			}
		}
		if !j.open {
			break
		}
		j.e.stats.Requests++
		f := &family{asked: r}
		var err error
		if f.req, f.context, err = j.e.resolve(r); err == nil {
			err = j.e.check(f.req)
		}
		if err == nil {
			err = j.sched.fits(f)
		}
		if err != nil {
			j.out <- &Completion{Request: r, Generation: r.FirstGeneration, PromptTokens: len(r.Tokens),
				FinishReason: FinishError, Err: err, refused: true}
			continue
		}
		j.e.stats.PromptTokens += len(f.req.Tokens)
		j.sched.add(f)
	}
	return nil
}

// call runs the program once, hands what was drawn to the drain, and returns how many pages are free on the device.
func (j *job) call(c *callPlan) (freePages int, err error) {
	e, s := j.e, j.sched
	p := e.programs["run"]
	s.stage()
	e.moves.note("run begins")
	got, err := execute[hostOutput](e, p, tree.Arrays(s.input(c, j.columns, j.enoughFree())))
	e.moves.note("run ends")
	if err != nil {
		return 0, err
	}
	e.calls.Add(1)
	j.account(got, e.ran.Seconds())
	if err := got.Status.check(got.Rules, e.plan.Pages-s.pool); err != nil {
		return 0, fmt.Errorf("program %s: %w", p.name, err)
	}
	r, err := s.apply(c, got)
	if err != nil {
		return 0, err
	}
	j.columns = min(2*j.columns, e.plan.MaxRounds) // the first calls are short: their tokens are wanted soon
	j.drawn <- r
	return int(got.EndFree), nil
}

// enoughFree is at how many free slots a call should return where its line is empty, so that the host can bring others.
func (j *job) enoughFree() int {
	if len(j.sched.out) > 0 { // come back when there may be room for those
		return j.e.plan.MaxSeqs - j.sched.active + max(1, j.sched.active/8)
	}
	if !j.open && len(j.sched.waiting) == 0 {
		return j.e.plan.slots + 1
	}
	return max(1, j.e.plan.MaxSeqs/8)
}

// account adds what a call came to, for which the device ran so long.
func (j *job) account(got *hostOutput, seconds float64) {
	st := &j.e.stats
	tokens := 0
	for _, id := range got.Owners {
		if id >= 0 {
			tokens++
		}
	}
	if tokens > 0 && st.FirstTokenSeconds == 0 {
		st.FirstTokenSeconds = j.e.now().Sub(j.start).Seconds()
	}
	prefillSteps, decodeSteps := int(got.PrefillSteps), int(got.DecodeSteps)
	st.Calls++
	st.DrawnTokens += tokens
	st.PrefillSteps += prefillSteps
	st.DecodeSteps += decodeSteps
	st.PrefillTokens += int(got.PrefillTokens)
	st.DecodeTokens += int(got.DecodeTokens)
	st.DeviceSeconds += seconds
	st.PrefillSeconds += clocked(got.Clock, prefill).Seconds()
	st.DecodeSeconds += clocked(got.Clock, decode).Seconds()
	st.PeakPages = max(st.PeakPages, j.e.plan.Pages-int(got.MinFree))
	j.e.observe(Call{PrefillSteps: prefillSteps, DecodeSteps: decodeSteps, Tokens: tokens, Seconds: seconds,
		Active: j.sched.active, Waiting: len(j.sched.waiting), FreePages: int(got.EndFree),
		FewestFree: int(got.MinFree)}, got.FreePages[:got.Columns])
}
