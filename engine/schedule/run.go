package schedule

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quire/quire/prefix"
)

// Config says what a run works with.
type Config struct {
	Sizes
	Device    Device
	Host      *HostCache    // nil: pages that are taken for others are forgotten
	Index     *prefix.Index // names of the device's pages; nil without Sizes.PrefixCache
	Stops     Stops         // nil: requests have none that need room
	Contexts  []*Context    // the rows that stay as they are
	FreePages int           // on the device, when nothing runs
	Pool      int           // pages that the run may use: contexts hold the others, or have them reserved
	// Between gives what is to be done between two calls; nil for nothing. Whoever gives an operation must see to it
	// that completions are read meanwhile.
	Between <-chan *Operation
	// Moved is told where a call ran tokens of a context: how many it has now, and the pages that it took, by place;
	// None where it took none.
	Moved func(row, done int, pages []int32)
	// Short makes the error of a request that needs more pages than the pool has.
	Short func(need, pool int) error

	PrefixSeed prefix.Hash // begins the names of pages
	// NewStream turns the tokens of a completion of r into text; nil: completions have none.
	NewStream func(r *Request) Stream

	Stats   *Stats
	Calls   *atomic.Int64                   // counts calls while the run goes on
	Observe func(c Call, freePages []int32) // told of each call, with the free pages after each step that drew
	Note    func(event string)              // told when a call begins and ends
	Trace   Tracer                          // told what takes time; nil for nobody
	// Inspect is called after each call, and with the failure when the run fails: then its result takes the place of
	// the failure. view describes the rows as they are. nil for nobody.
	Inspect func(view func() View, failure error) error
	Now     func() time.Time
	// InOrder lets each call wait until it has all the requests that there is room for, and until what the last one
	// drew is read: for tests, whose figures it makes the same each time.
	InOrder bool
	// Debug lets the drain look for stop strings that the device finds, too, and compare.
	Debug bool
}

// Call is what one call of the device came to.
type Call struct {
	PrefillSteps, DecodeSteps int
	Tokens                    int     // drawn
	Seconds                   float64 // in which the device ran the program
	Active, Waiting           int     // sequences in slots, and requests that wait for one
	FreePages, FewestFree     int     // when the call ended, and after any of its steps
}

// job is one run.
type job struct {
	*Config
	sched   *scheduler
	intake  <-chan *Request
	open    bool // intake may have more
	out     chan<- *Completion
	drawn   chan *result
	read    chan struct{}         // after each result, with InOrder
	columns int                   // of the next call
	told    bool                  // of completions as they are drawn: see Request.Told
	fault   atomic.Pointer[error] // of the drain: it ends the run
	start   time.Time
	called  time.Time // when the last call ended
	failed  View      // rows when a call failed
	fails   bool
	later   []*Operation // that were called and could not be done yet
}

// Run draws the completions of requests until intake is closed, or nil, and all are done, or there is an error, or ctx
// is cancelled. Then it frees the rows and returns ctx.Err() itself: pages keep their names. After any other error the
// device is in the midst of something. Stats begin anew, but for the start's. It does not close out.
func (c *Config) Run(ctx context.Context, intake <-chan *Request, out chan<- *Completion) error {
	j := &job{Config: c, sched: newScheduler(c), intake: intake, open: true, out: out, drawn: make(chan *result, 2),
		read: make(chan struct{}), columns: 1, start: c.Now()}
	if intake == nil {
		j.open, j.columns = false, c.MaxRounds // tokens of contexts, and nothing that is waited for
	}
	c.Calls.Store(0)
	*c.Stats = Stats{StartSeconds: c.Stats.StartSeconds, Pages: c.Sizes.Pages}
	kept := make(chan int, 1)
	go func() {
		tokens := 0
		for r := range j.drawn {
			end, completions := j.span(DrainTrack, "drain"), 0
			err := r.drain(c.Debug, func(done *Completion) {
				tokens += len(done.Tokens)
				completions++
				out <- done
			})
			end("completions", completions)
			if err != nil {
				j.fault.Store(&err)
			}
			if c.InOrder {
				j.read <- struct{}{}
			}
		}
		kept <- tokens
	}()
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
	close(j.drawn)
	c.Stats.GeneratedTokens = <-kept
	c.Device.Stage(nil)
	if fault := j.fault.Load(); err == nil && fault != nil {
		err = *fault
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
		if fault := j.fault.Load(); fault != nil {
			return *fault
		}
		s.settle()
		j.between()
		end := j.span(HostTrack, "take requests")
		err := j.fill(ctx)
		end("waiting", len(s.waiting))
		if err != nil {
			return err
		}
		if !j.open && s.idle() {
			return j.finish()
		}
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

// giveUp ends all that runs and forgets all that waits.
func (j *job) giveUp() error {
	if j.sched.err != nil {
		return j.sched.err
	}
	j.sched.giveUp()
	return j.finish()
}

// finish checks that all pages are free when all is done.
func (j *job) finish() error {
	if j.sched.dropAll(); j.sched.bare() && j.sched.freePages == j.FreePages && !j.sched.rides() {
		return nil
	}
	o, err := j.sched.offer()
	if err != nil {
		return err
	}
	free, err := j.call(o)
	if err == nil && free != j.FreePages {
		err = fmt.Errorf("%w: %d of %d are free on the device", ErrPagesLost, free, j.FreePages)
	}
	return err
}

// fill takes requests in: what is there, or the next one if there is nothing else to do.
func (j *job) fill(ctx context.Context) error {
	for j.open && j.sched.wants() > 0 {
		var r *Request
		if j.sched.idle() || j.InOrder {
			select {
			case r, j.open = <-j.intake:
			case o := <-j.Between:
				if j.do(o); !j.sched.idle() || len(j.later) > 0 {
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
		if need := j.sched.need(r); need > j.Pool {
			r.Err = j.Short(need, j.Pool)
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

// call runs the device once, hands what was drawn to the drain, and returns how many pages are free on the device.
func (j *job) call(o *offer) (freePages int, err error) {
	s := j.sched
	s.stage()
	o.Columns, o.EnoughFree = j.columns, j.enoughFree()
	j.note("run begins")
	end := j.span(HostTrack, "call")
	got, spent, err := j.Device.Run(&o.Input)
	end("offered", len(o.Waiting), "ahead", len(o.Ahead))
	j.note("run ends")
	if err != nil {
		if j.fails = j.Inspect != nil; j.fails {
			j.failed = s.view(o, got)
		}
		return 0, err
	}
	j.Calls.Add(1)
	j.account(got, spent)
	end = j.span(HostTrack, "settle")
	owners, err := s.apply(o, got)
	end()
	if err != nil {
		return 0, err
	}
	if j.Inspect != nil {
		_ = j.Inspect(j.view, nil)
	}
	j.columns = j.nextColumns(spent)
	j.drawn <- &result{owners: owners, got: got}
	if j.InOrder {
		<-j.read
	}
	return int(got.EndFree), nil
}

// longTold is how long a call may take while somebody is told what is drawn.
const longTold = 200 * time.Millisecond

// nextColumns is of the call after one that took so long. The first calls are short: their tokens are wanted soon.
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
	if j.fails {
		return j.failed
	}
	return j.sched.view(nil, nil)
}

func (j *job) note(event string) {
	if j.Note != nil {
		j.Note(event)
	}
}

// enoughFree is at how many free slots a call should return where nothing waits, so that the host can bring others.
func (j *job) enoughFree() int {
	if len(j.sched.swapped) > 0 { // come back when there may be pages for those
		return j.MaxSeqs - j.sched.active + max(1, j.sched.active/8)
	}
	if !j.open && len(j.sched.waiting) == 0 {
		return j.Slots + 1
	}
	return max(1, j.MaxSeqs/8)
}

// account adds what a call came to.
func (j *job) account(got *Output, spent Spent) {
	st := j.Stats
	tokens := 0
	for _, id := range got.Owners {
		if id >= 0 {
			tokens++
		}
	}
	if tokens > 0 && st.FirstTokenSeconds == 0 {
		st.FirstTokenSeconds = j.Now().Sub(j.start).Seconds()
	}
	st.Calls++
	st.DrawnTokens += tokens
	st.PrefillSteps += int(got.PrefillSteps)
	st.DecodeSteps += int(got.DecodeSteps)
	st.PrefillTokens += int(got.PrefillTokens)
	st.DecodeTokens += int(got.DecodeTokens)
	if len(got.Drafts) > 0 {
		st.DraftedTokens += int(got.Drafts[0])
		st.AcceptedTokens += int(got.Drafts[1])
	}
	st.DeviceSeconds += spent.Device.Seconds()
	st.PrefillSeconds += spent.Prefill.Seconds()
	st.DecodeSeconds += spent.Decode.Seconds()
	st.PeakPages = max(st.PeakPages, j.Sizes.Pages-int(got.MinFree))
	if j.Trace != nil {
		j.count(got, tokens)
	}
	if j.Observe != nil {
		j.Observe(Call{PrefillSteps: int(got.PrefillSteps), DecodeSteps: int(got.DecodeSteps), Tokens: tokens,
			Seconds: spent.Device.Seconds(), Active: j.sched.active, Waiting: len(j.sched.waiting),
			FreePages: int(got.EndFree), FewestFree: int(got.MinFree)}, got.FreePages[:got.Columns])
	}
}

// count gives the tracer what counters show after a call.
func (j *job) count(got *Output, tokens int) {
	now, before := j.Now(), j.called
	if j.called = now; before.IsZero() {
		before = j.start
	}
	j.Trace.Counter("sequences", now, "active", j.sched.active, "swapped out", len(j.sched.swapped))
	j.Trace.Counter("requests that wait", now, "waiting", len(j.sched.waiting))
	j.Trace.Counter("pages", now, "free", got.EndFree, "fewest free in the call", got.MinFree)
	if passed := now.Sub(before).Seconds(); passed > 0 {
		j.Trace.Counter("tokens/s", now, "tokens/s", float64(tokens)/passed)
	}
}
