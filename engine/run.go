package engine

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/stopping"
)

// Run draws the completions of requests and yields them as they finish.
//
// A request that can't be run yields a completion with Err set, and the job goes on. An error beside a nil completion
// ends it: the device failed, or ctx was cancelled. Requests are taken as there is room for them, from another
// goroutine than the caller's. Stopping the iteration stops the engine's work on it.
func (e *Engine) Run(ctx context.Context, requests iter.Seq[*Request]) iter.Seq2[*Completion, error] {
	return func(yield func(*Completion, error) bool) {
		run := e.lock.begin()
		defer e.lock.leave(run)
		e.runAlone(ctx, run, requests)(yield)
	}
}

// runAlone is Run for those who hold the lock: as a run, or for an operation, without one. requests is nil where only
// tokens of contexts are to be run.
func (e *Engine) runAlone(ctx context.Context, of *running, requests iter.Seq[*Request]) iter.Seq2[*Completion, error] {
	return func(yield func(*Completion, error) bool) {
		run, err := e.prepare(of)
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		intake := e.intake(ctx, requests)
		drawn, out := make(chan *schedule.Completion, 4*e.plan.MaxSeqs), make(chan *schedule.Completion)
		failed := make(chan error, 1)
		go func() {
			defer close(drawn)
			err := e.run(ctx, run, intake, drawn)
			if of != nil {
				e.lock.over(of)
			}
			failed <- err
		}()
		slack := newSlack()
		if of != nil {
			slack = of.slack
		}
		go slack.relay(drawn, out)
		end := func() { // what was begun here ends before Run does
			cancel()
			for range out {
			}
			for intake != nil {
				if _, ok := <-intake; !ok {
					break
				}
			}
		}
		defer end() // should yield panic
		stopped := false
		for c := range out {
			if !stopped && !yield(completion(c), nil) {
				stopped = true
				cancel()
			}
		}
		cancel()
		if err := <-failed; err != nil && !stopped {
			yield(nil, err) // before the intake is waited for: whoever gives requests may wait for completions
		}
	}
}

// intake are requests as the scheduler takes them; nil where there are none.
func (e *Engine) intake(ctx context.Context, requests iter.Seq[*Request]) <-chan *schedule.Request {
	if requests == nil {
		return nil
	}
	intake := make(chan *schedule.Request, schedule.LookAhead/4)
	go func() {
		defer close(intake)
		for r := range requests {
			select {
			case intake <- e.scheduled(r):
			case <-ctx.Done():
				return
			}
		}
	}()
	return intake
}

// prepare says what a run works with.
func (e *Engine) prepare(of *running) (*schedule.Config, error) {
	if e.inStep != nil && !e.inStep.leads() {
		return nil, fmt.Errorf("%w: process 0 runs, and this one follows", ErrSeveralHosts)
	}
	if e.state == nil {
		err := e.inStep.announce(e.program(device.Init), nil, nil)
		if err == nil {
			err = e.reset()
		}
		if err != nil {
			return nil, err
		}
	}
	e.contexts.mu.Lock()
	defer e.contexts.mu.Unlock()
	if err := e.sweep(nil); err != nil {
		return nil, err
	}
	run := &schedule.Config{
		Sizes: e.graphs.Sizes.Sizes.Sizes, Host: e.hostCache, Index: e.index, Contexts: e.contextsOfRun(),
		FreePages: e.plan.Pages - e.contexts.used, Pool: e.freePages(), PrefixSeed: e.prefixSeed,
		Stats: &e.stats, Calls: &e.calls, Now: e.now, Note: e.swapper.note, Observe: e.observe, InOrder: e.inOrder,
		Trace: e.trace, Inspect: e.inspect(), Debug: e.cfg.Debug, Moved: e.moved, Short: func(need, pool int) error {
			return e.enoughOf(pool, need, pool, "contexts hold pages")
		},
	}
	if of != nil {
		run.Between = of.between
		if of.brief || of.aside { // nobody asks for its figures
			run.Stats, run.Calls, run.Observe = &schedule.Stats{}, &atomic.Int64{}, func(schedule.Call, []int32) {}
		}
	}
	e.masks.rows = make([]*masked, e.graphs.Slots)
	on := onDevice{e: e}
	if e.stops.states > 0 {
		on.stops = room{stopping.NewArena(e.stops.states)}
		run.Stops = on.stops
	}
	run.Device = on
	if e.watch != nil {
		run.Device = e.watch(run.Device)
	}
	if t := e.cfg.Tokenizer; t != nil {
		run.NewStream = func(r *schedule.Request) schedule.Stream {
			if r.KeepSpecial {
				return t.NewWholeStream()
			}
			return t.NewStream()
		}
	}
	return run, nil
}

func (e *Engine) run(ctx context.Context, run *schedule.Config, intake <-chan *schedule.Request,
	out chan<- *schedule.Completion) error {
	start := e.now()
	err := run.Run(ctx, intake, out)
	e.inStep.fail(ctx, err)
	st := run.Stats
	st.TransferSeconds, st.TransferWaitSeconds = e.swapper.seconds()
	st.WallSeconds = e.now().Sub(start).Seconds()
	st.HostSeconds = max(0, st.WallSeconds-st.DeviceSeconds)
	e.contexts.mu.Lock()
	defer e.contexts.mu.Unlock()
	if err != nil && err != ctx.Err() { // the state is in the middle of something
		e.dropState()
	} else if failure := e.endRides(); failure != nil {
		err = failure
	}
	return err
}

// scheduled is a request as the scheduler takes it: checked, and with all of its prompt.
func (e *Engine) scheduled(r *Request) *schedule.Request {
	s := &schedule.Request{Tokens: r.Tokens, N: r.N, First: r.FirstGeneration, Stop: r.Stop,
		IncludeStop: r.IncludeStop, KeepSpecial: r.KeepSpecialTokens, MinTokens: r.Sampling.MinTokens,
		Told: r.Progress, Context: schedule.None, Leaf: r.Leaf}
	whole, context, err := e.resolve(r)
	if err == nil && whole.MaxTokens == 0 {
		whole = scoresOnly(whole)
		s.Stop, s.MinTokens = nil, 0
	}
	t := tag{asked: r, whole: whole}
	if err == nil {
		err = e.admit(&t)
	}
	s.Recalls = t.features != 0
	t.features |= r.scoring()
	s.Tag, s.OnDevice = t, t.stops[stopping.OfText] != nil
	if err == nil {
		s.Tokens, s.MaxLen = whole.Tokens, e.maxLen(whole)
		if e.setScoring(s, whole); s.Score > 0 {
			context = nil // its tokens were not scored
		}
		if context != nil {
			s.Context = context.row
		}
		s.Short = context == nil && !whole.long && e.settled.IsShort(s.MaxLen)
	}
	s.Err = err
	return s
}

// tag is what the engine keeps with a request of the scheduler's.
type tag struct {
	asked *Request // what the caller gave
	whole *Request // has the context's tokens too
	stops stopSets
	// guest gets the completions of a request that came to the run of others; nil for those of Run.
	guest chan *schedule.Completion

	features Features
	masks    *maskedRequest // nil without masks
	biases   []feature.Bias
	breakers *sampling.Breakers // nil without DRY
}

// completion is a completion as the caller gets it.
func completion(c *schedule.Completion) *Completion {
	asked := c.Request.Tag.(tag).asked
	out := &Completion{Request: asked, Generation: c.Generation, PromptTokens: len(c.Request.Tokens), Tokens: c.Tokens,
		Text: c.Text, Logprobs: c.Logprobs, ProcessedLogprobs: c.ProcessedLogprobs,
		TopIDs: c.TopIDs, TopLogprobs: c.TopLogprobs, Prompt: c.Prompt}
	switch {
	case c.Refused:
		out.PromptTokens = len(asked.Tokens)
		out.FinishReason, out.Err, out.refused = FinishError, c.Request.Err, true
	case c.Finish == schedule.NotANumber:
		out.FinishReason = FinishError
		if m := c.Request.Tag.(tag).masks; m != nil {
			if err, ok := m.deadEnds.Load(c.Generation); ok {
				out.Err = err.(error)
				break
			}
		}
		out.Err = fmt.Errorf("%w after %d tokens: the weights may not fit the dtype, try `dtype` float32",
			ErrNotANumber, len(c.Tokens))
	case c.Finish == schedule.AtLength:
		out.FinishReason = FinishLength
	default:
		out.FinishReason = FinishStop
	}
	return out
}

// Call is what one call of the device came to, for [Config.Observe].
type Call = schedule.Call

// observe tells those who watch of a call.
func (e *Engine) observe(c Call, freePages []int32) {
	if e.cfg.Observe != nil {
		e.cfg.Observe(c)
	}
	e.log.Debug("call", "prefill_steps", c.PrefillSteps, "decode_steps", c.DecodeSteps, "tokens", c.Tokens, "seconds",
		c.Seconds, "active", c.Active, "waiting", c.Waiting, "free_pages", freePages)
}

// Errors of a run that are faults of the engine.
var (
	// ErrPagesLost says that pages were not free at the end of a run, when nothing holds them.
	ErrPagesLost = schedule.ErrPagesLost
	// ErrStops says that the device ended a completion at a stop string that its text does not have, or went on past
	// one.
	ErrStops = schedule.ErrStops
	// ErrStalled says that a call had work and did none of it.
	ErrStalled = schedule.ErrStalled
)

// Stats says what a run did.
type Stats = schedule.Stats

// Calls is how many calls of the device have ended in this run: a heartbeat, which may be read at any time.
func (e *Engine) Calls() int64 { return e.calls.Load() }

// Stats returns the figures of the last run, or of the one under way as far as it came when it ends.
func (e *Engine) Stats() Stats { return e.stats }
