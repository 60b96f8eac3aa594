package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/prefixes"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/turns"
	"github.com/quire/quire/ops/sampling"
)

// runs runs requests on the device.
type runs struct {
	core      *core.Core
	swapper   *core.Swapper
	checker   *admit.Checker
	prefixes  *prefixes.Prefixes
	lock      *turns.Lock
	beside    beside
	inspector inspector
	stats     Stats
	calls     atomic.Int64
	// inOrder has each call wait until it has all the requests that there is room for; for tests, whose figures it
	// makes the same each time.
	inOrder bool
	watch   func(schedule.Device) schedule.Device // replaces the device of a run, if not nil: for tests
}

// beside takes part in runs, in addition to their requests: contexts do.
type beside interface {
	// Begin prepares its part in a run. turn is nil for a run that an operation of the engine needs.
	Begin(turn *turns.Run, run *schedule.Config) error
	// End ends its part. A run that failed leaves the device in the middle of something.
	End(failed bool) error
	// Relay passes on the completions of a run.
	Relay(turn *turns.Run, in <-chan *schedule.Completion) <-chan *schedule.Completion
}

// nothingBeside is a job without contexts.
type nothingBeside struct{}

func (nothingBeside) Begin(*turns.Run, *schedule.Config) error { return nil }
func (nothingBeside) End(bool) error                           { return nil }
func (nothingBeside) Relay(turn *turns.Run, in <-chan *schedule.Completion) <-chan *schedule.Completion {
	if turn == nil {
		return in
	}
	out := make(chan *schedule.Completion)
	go func() {
		defer close(out)
		turn.Relay.Pass(in, out, func(*schedule.Completion) bool { return false })
	}()
	return out
}

// run runs requests for callers that hold the lock: as a run, or without one for an operation. requests is nil if only
// tokens of contexts are to be run.
func (r *runs) run(ctx context.Context, turn *turns.Run, requests iter.Seq[*Request]) iter.Seq2[*Completion, error] {
	return func(yield func(*Completion, error) bool) {
		run, err := r.prepare(turn)
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		intake := r.intake(ctx, requests)
		generated := make(chan *schedule.Completion, 4*r.core.Settled.Sizes.MaxSeqs)
		failed := make(chan error, 1)
		go func() {
			defer close(generated)
			err := r.generate(ctx, run, intake, generated)
			if turn != nil {
				r.lock.Over(turn)
			}
			failed <- err
		}()
		out := r.beside.Relay(turn, generated)
		end := func() { // what was started here ends before Run does
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
			if !stopped && !yield(admit.NewCompletion(c), nil) {
				stopped = true
				cancel()
			}
		}
		cancel()
		if err := <-failed; err != nil && !stopped {
			yield(nil, err) // before waiting for the intake: the source of requests may wait for completions
		}
	}
}

// intake checks requests and gives them to the scheduler; it is nil if there are none.
func (r *runs) intake(ctx context.Context, requests iter.Seq[*Request]) <-chan *schedule.Request {
	if requests == nil {
		return nil
	}
	intake := make(chan *schedule.Request, schedule.LookAhead/4)
	go func() {
		defer close(intake)
		for one := range requests {
			checked := r.checker.Schedule(one)
			r.checker.Adapters().Expect(checked)
			select {
			case intake <- checked:
			case <-ctx.Done():
				return
			}
		}
	}()
	return intake
}

// prepare returns what a run works with.
func (r *runs) prepare(turn *turns.Run) (*schedule.Config, error) {
	c := r.core
	if c.Follows() {
		return nil, fmt.Errorf("%w: process 0 runs, and this one follows", ErrSeveralHosts)
	}
	if !c.HasState() {
		if err := c.Renew(); err != nil {
			return nil, err
		}
	}
	z := c.Settled.Schedule()
	run := &schedule.Config{
		Sizes: z, Host: r.prefixes.Host, Index: r.prefixes.Index, FreePages: z.Pages, Pool: z.Pages,
		PrefixSeed: r.prefixes.Seed, Weights: c.Version(), Stats: &r.stats, Calls: &r.calls, Now: c.Now,
		Note: r.swapper.Note, Observe: r.observe, InOrder: r.inOrder, Trace: c.Trace, Inspect: r.inspector.hook(),
		Debug: c.Settled.Config.Debug,
	}
	if turn != nil {
		run.Between = turn.Between
	}
	if err := r.beside.Begin(turn, run); err != nil {
		return nil, err
	}
	on := newOnDevice(c, r.swapper, r.checker, &r.stats)
	if on.room.Arena != nil || on.room.Adapters != nil {
		run.Stops, run.ByAdapter = on.room, on.room.Adapters.IsShort()
	}
	run.Device = on
	if r.watch != nil {
		run.Device = r.watch(run.Device)
	}
	if t := c.Settled.Config.Tokenizer; t != nil {
		run.NewStream = func(r *schedule.Request) schedule.Stream {
			if r.KeepSpecial {
				return t.NewWholeStream()
			}
			return t.NewStream()
		}
	}
	return run, nil
}

// generate runs the scheduler until the intake is closed and all is done, and settles the run's figures.
func (r *runs) generate(ctx context.Context, run *schedule.Config, intake <-chan *schedule.Request,
	out chan<- *schedule.Completion) error {
	start := r.core.Now()
	err := run.Run(ctx, intake, out)
	r.core.FailHosts(ctx.Err() != nil, err)
	st := run.Stats
	st.TransferSeconds, st.TransferWaitSeconds = r.swapper.Seconds()
	st.WallSeconds = r.core.Now().Sub(start).Seconds()
	st.HostSeconds = max(0, st.WallSeconds-st.DeviceSeconds)
	broken := err != nil && err != ctx.Err() // the state is in the middle of something
	if broken {
		r.core.DropState()
		r.prefixes.Forget()
	}
	if failure := r.beside.End(broken); failure != nil {
		return failure
	}
	return err
}

// runPrefix runs the tokens of a prefix for the holder of the lock.
func (r *runs) runPrefix(ctx context.Context, tokens []int32, long bool) error {
	one := &Request{ID: "prefix", Tokens: tokens, N: 1, MaxTokens: 1, Sampling: sampling.Settings{TopP: 1},
		IgnoreEOS: true, LongRope: long}
	for c, err := range r.run(ctx, nil, slices.Values([]*Request{one})) {
		if err == nil {
			err = c.Err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// observe reports a call to the observers.
func (r *runs) observe(c Call, freePages []int32) {
	if observe := r.core.Settled.Config.Observe; observe != nil {
		observe(c)
	}
	r.core.Log.Debug("call", "prefill_steps", c.PrefillSteps, "decode_steps", c.DecodeSteps, "tokens", c.Tokens,
		"seconds", c.Seconds, "active", c.Active, "waiting", c.Waiting, "free_pages", freePages)
}
