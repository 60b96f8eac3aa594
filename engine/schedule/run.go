package schedule

import (
	"context"
	"fmt"
	"time"
)

// job is one run. The run's goroutine owns it: the one that called Run.
type job struct {
	*Config
	sched  *scheduler
	drain  *drain
	intake <-chan *Request
	open   bool // intake may have more
	out    chan<- *Completion
	// columns is the bound of the next call. It starts at 1 and doubles, so that the first tokens are out soon, and
	// shrinks again while a request receives progress and calls take long.
	columns int
	told    bool // a request that was taken in has Request.Told
	clock   stepClock
	start   time.Time
	called  time.Time // when the last call ended
	// failed has the rows of a call that failed, for Inspect: nil unless one did. The scheduler did not take them over.
	failed *View
	later  []*Operation // could not be done yet, in the order in which they came
	waited bool         // all operations were asked since nothing can be done with the weights that the run has
}

// Run generates the completions of requests until intake is closed, or nil, and all are done, or until an error, or
// until ctx is cancelled. Then it frees the rows and returns ctx.Err() itself: pages keep their names. After any other
// error the device is in the middle of something. Run resets the figures of Stats except the start's. It does not close
// out.
func (c *Config) Run(ctx context.Context, intake <-chan *Request, out chan<- *Completion) error {
	j := &job{Config: c, sched: newScheduler(c), intake: intake, open: true, out: out, columns: 1, start: c.Now()}
	if intake == nil {
		j.open, j.columns = false, c.MaxRounds // tokens of contexts, for which nobody waits
	}
	c.Calls.Store(0)
	*c.Stats = Stats{StartSeconds: c.Stats.StartSeconds, Pages: c.Sizes.Pages}
	j.drain = startDrain(c, out)
	err := j.loop(ctx)
	defer j.leave()
	if err != nil && err == ctx.Err() {
		if failure := j.giveUp(); failure != nil {
			err = fmt.Errorf("ending a run that was cancelled: %w", failure)
		}
	}
	if err != nil && c.Inspect != nil && ctx.Err() == nil {
		err = c.Inspect(j.view, err)
	}
	c.Stats.GeneratedTokens = j.drain.close()
	c.Device.Stage(nil)
	if err == nil {
		err = j.drain.failure()
	}
	return err
}

// loop offers what waits and makes a call, until nothing is left. While a call runs, the drain turns the tokens of the
// last one into completions.
func (j *job) loop(ctx context.Context) error {
	s := j.sched
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.drain.failure(); err != nil {
			return err
		}
		s.removeCancelled()
		j.between()
		end := j.span(HostTrack, "take requests")
		err := j.fill(ctx)
		end("waiting", len(s.queue.groups))
		if err != nil {
			return err
		}
		if !j.open && s.isIdle() {
			return j.finish()
		}
		if s.waitsForWeights() {
			if err := j.awaitWeights(ctx); err != nil {
				return err
			}
			continue
		}
		j.waited = false
		end = j.span(HostTrack, "schedule")
		o, err := s.offer()
		end()
		if err == nil {
			_, err = j.call(o)
		}
		if err != nil {
			return err
		}
	}
}

// giveUp frees all rows and forgets the requests that wait.
func (j *job) giveUp() error {
	if j.sched.err != nil {
		return j.sched.err
	}
	j.sched.abandon()
	return j.finish()
}

// finish checks that all pages are free when all is done.
func (j *job) finish() error {
	s := j.sched
	if s.dropPrefixes(); s.isBare() && s.pool.free == s.pool.idle && !s.prefixes.contextsRun() {
		return nil
	}
	o, err := s.offer()
	if err != nil {
		return err
	}
	free, err := j.call(o)
	if err == nil && free != s.pool.idle {
		err = fmt.Errorf("%w: %d of %d are free on the device", ErrPagesLost, free, s.pool.idle)
	}
	return err
}

// fill takes the requests that are available or, if there is nothing else to do, waits for the next one.
func (j *job) fill(ctx context.Context) error {
	for j.open && j.sched.queue.space() > 0 {
		var r *Request
		if j.sched.isIdle() || j.sched.waitsForWeights() || j.InOrder {
			select {
			case r, j.open = <-j.intake:
			case o := <-j.Between:
				if j.do(o); !j.sched.isIdle() || len(j.later) > 0 {
					return nil
				}
				continue
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
		j.take(r)
	}
	return nil
}

// take takes a request in, or refuses it.
func (j *job) take(r *Request) {
	j.Stats.Requests++
	if r.Err == nil && j.Short != nil {
		if need, pool := j.sched.prefixes.need(r), j.sched.pool.size; need > pool {
			r.Err = j.Short(need, pool)
		}
	}
	if r.Err != nil {
		j.out <- &Completion{Request: r, Generation: r.First, Refused: true}
		return
	}
	j.Stats.PromptTokens += len(r.Tokens)
	j.told = j.told || r.Told != nil
	j.sched.add(r)
}

// call runs the device once, hands the tokens to the drain, and returns how many pages are free on the device.
func (j *job) call(o *offer) (freePages int, err error) {
	s := j.sched
	s.stage()
	o.Columns, o.EnoughFree = s.columnsOfWeights(o, j.columns), j.enoughFree()
	j.note("run begins")
	end := j.span(HostTrack, "call")
	output, spent, err := j.Device.Run(&o.Input)
	end("offered", len(o.Waiting), "ahead", len(o.Ahead))
	j.note("run ends")
	if err != nil {
		if j.Inspect != nil {
			view := s.view(o, output)
			j.failed = &view
		}
		return 0, err
	}
	j.Calls.Add(1)
	j.account(output, spent)
	end = j.span(HostTrack, "settle")
	owners, err := s.apply(o, output)
	end()
	if err != nil {
		return 0, err
	}
	if j.Inspect != nil {
		_ = j.Inspect(j.view, nil)
	}
	j.columns = j.nextColumns(spent)
	j.drain.pass(&result{owners: owners, output: output, weights: s.weights.version})
	return int(output.EndFree), nil
}

// longTold is how long a call may take while a request has Request.Told.
const longTold = 200 * time.Millisecond

// nextColumns returns the columns of the call after one that took that long.
func (j *job) nextColumns(spent Spent) int {
	if j.told && spent.Device > longTold/2 {
		if spent.Device <= longTold {
			return j.columns
		}
		return max(1, j.columns/2)
	}
	return min(2*j.columns, j.MaxRounds)
}

// view describes the rows, as the last call left them or as the one that failed did.
func (j *job) view() View {
	if j.failed != nil {
		return *j.failed
	}
	return j.sched.view(nil, nil)
}

func (j *job) note(event string) {
	if j.Note != nil {
		j.Note(event)
	}
}

// enoughFree returns at how many free slots a call should return if nothing waits, so that the host can offer others.
func (j *job) enoughFree() int {
	active := j.sched.slots.active
	if j.sched.swap.continues() { // return when there may be pages for them
		return j.MaxSeqs - active + max(1, active/8)
	}
	if !j.open && len(j.sched.queue.groups) == 0 {
		return j.Slots + 1
	}
	return max(1, j.MaxSeqs/8)
}

// account adds the figures of a call.
func (j *job) account(output *Output, spent Spent) {
	st := j.Stats
	tokens := 0
	for _, id := range output.Owners {
		if id >= 0 {
			tokens++
		}
	}
	if tokens > 0 && st.FirstTokenSeconds == 0 {
		st.FirstTokenSeconds = j.Now().Sub(j.start).Seconds()
	}
	st.Calls++
	st.DrawnTokens += tokens
	st.PrefillSteps += int(output.PrefillSteps)
	st.DecodeSteps += int(output.DecodeSteps)
	st.PrefillTokens += int(output.PrefillTokens)
	st.DecodeTokens += int(output.DecodeTokens)
	if len(output.Drafts) > 0 {
		st.DraftedTokens += int(output.Drafts[0])
		st.AcceptedTokens += int(output.Drafts[1])
	}
	st.DeviceSeconds += spent.Device.Seconds()
	if spent.Clocked {
		st.PrefillSeconds += spent.Prefill.Seconds()
		st.DecodeSeconds += spent.Decode.Seconds()
	} else {
		j.clock.add(output.PrefillSteps, output.DecodeSteps, spent.Device.Seconds())
		st.PrefillSeconds, st.DecodeSeconds = j.clock.divide()
		st.FittedSeconds = st.PrefillSeconds + st.DecodeSeconds
	}
	st.PeakPages = max(st.PeakPages, j.Sizes.Pages-int(output.MinFree))
	if j.Trace != nil {
		j.count(output, tokens)
	}
	if j.Observe != nil {
		j.Observe(Call{PrefillSteps: int(output.PrefillSteps), DecodeSteps: int(output.DecodeSteps), Tokens: tokens,
			Seconds: spent.Device.Seconds(), Active: j.sched.slots.active, Waiting: len(j.sched.queue.groups),
			FreePages: int(output.EndFree), FewestFree: int(output.MinFree)}, output.FreePages[:output.Columns])
	}
}

// count passes the values of the counters after a call to the tracer.
func (j *job) count(output *Output, tokens int) {
	now, before := j.Now(), j.called
	if j.called = now; before.IsZero() {
		before = j.start
	}
	j.Trace.Counter("sequences", now, "active", j.sched.slots.active, "swapped out",
		len(j.sched.swap.sequences))
	j.Trace.Counter("requests that wait", now, "waiting", len(j.sched.queue.groups))
	j.Trace.Counter("pages", now, "free", output.EndFree, "fewest free in the call", output.MinFree)
	if passed := now.Sub(before).Seconds(); passed > 0 {
		j.Trace.Counter("tokens/s", now, "tokens/s", float64(tokens)/passed)
	}
}
