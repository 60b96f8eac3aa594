package generate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/conversation"
	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/batch/observe"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/results"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/versions"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/engine"
)

// Bounds of what is read and not written: rows that run, and rows that wait for an earlier one.
const (
	rowsInFlight = 8192
	bytesWaiting = 128 << 20
)

// rowWriter puts finished rows into the order of the input and writes them; *promptset.Writer is the real one.
type rowWriter interface {
	Add(row *promptset.Row, results []completion.Result) error
	Pending() (rows int, bytes int64)
}

// recorder keeps completions of rows that are not written for good; *journal.Journal is the real one.
type recorder interface {
	Put(row int64, b []byte) (journal.Position, error)
}

// collector gathers the completions of each row and hands rows that are finished to the writer. One goroutine begins
// rows and another one adds completions.
type collector struct {
	w       rowWriter
	journal recorder
	collecting

	mu           sync.Mutex
	room         sync.Cond
	running      map[*pendingRow]struct{} // started and not finished
	waiting      int                      // rows that the writer holds back
	waitingBytes int64                    // about how much they take
	// what earlier processes did: parts, completions restored, and rows of nothing else
	before    tally.Counts
	generated tally.Counts // what this process did; with before and copied it is what the job has come to
	copied    tally.Counts // what it copied: of other outputs, and of equal rows
	ofOthers  int64        // completions of other outputs among copied
	idle      int          // rows in running that wait for completions of other rows alone
	repeats   *repeats
	errors    []setting.Text // the first few
	waves     waves
	turns     turns
	err       error // error of the writer or the journal; nothing is written after it
	record    []byte
}

// collecting describes how completions are gathered.
type collecting struct {
	results  results.Maker
	inFlight int // bound of rows
	// Rows are started up to so many from the first that is not written, as long as enough of them run: so that parts
	// are whole soon, and no slot waits. 0 is no such bound.
	window, enough int
	format         string
	observer       *observe.Observer
	lineage        stage              // nil if no row continues another one
	notes          *reuse.Notes       // nil if nothing is noted
	store          *reuse.StoreWriter // nil if there is none
	room           int                // bytes for completions that equal rows are copied from, if there is no journal
	judging        *judging           // nil if completions are not judged
	conversing     *conversing        // nil if completions call no tools
	underWay       *versions.Log      // nil if the weights stay
}

// stage is the part of the rows' lineage that the collector uses. The collector's lock is taken before the stage's.
type stage interface {
	// Ready reports whether rows that were started can continue, which come first.
	Ready() bool
	// Finish takes a row that is finished. An early one is not written yet.
	Finish(row int64, p *lineage.Parent, early bool, generated int) error
}

// wakeWith lets those look up that wait for room, when ctx ends. The caller holds the lock.
func (c *collector) wakeWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.room.Broadcast()
	})
}

func newCollector(w rowWriter, j recorder, how collecting) *collector {
	c := &collector{w: w, journal: j, collecting: how, running: map[*pendingRow]struct{}{},
		repeats: newRepeats(how.room)}
	if how.judging != nil {
		c.waves.slots = how.judging.slots
	}
	c.room.L = &c.mu
	return c
}

// begin starts the next row, which gets n completions. It waits while too much is in flight; if ctx ends the wait, the
// row is not started. It returns nil if rows that were started can continue: these come first.
func (c *collector) begin(ctx context.Context, row *promptset.Row, n int, early bool) (*pendingRow, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wakeWith(ctx)()
	// With nothing running no completion would ever make room.
	for len(c.running) > 0 && ctx.Err() == nil && c.err == nil {
		if c.mayBegin() {
			break
		}
		if c.lineage != nil && c.lineage.Ready() || len(c.waves.wanting) > 0 || len(c.turns.ready) > 0 {
			return nil, nil
		}
		c.room.Wait()
	}
	if err := cmp.Or(ctx.Err(), c.err); err != nil {
		return nil, err
	}
	p := &pendingRow{row: row, left: n, started: time.Now(), early: early}
	c.running[p] = struct{}{}
	return p, nil
}

// await waits until something is so that changes as rows are finished, ctx ends, or nothing can be written any more.
func (c *collector) await(ctx context.Context, condition func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wakeWith(ctx)()
	for !condition() && ctx.Err() == nil && c.err == nil {
		c.room.Wait()
	}
}

// reach has a row written when it is finished, whose place is reached. It returns false if the row is finished.
func (c *collector) reach(p *pendingRow) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.early = false
	return !p.ended
}

// mayBegin reports whether another row may be started. The caller holds the lock.
func (c *collector) mayBegin() bool {
	rows, busy := len(c.running)+c.waiting, len(c.running)-c.idle
	switch { // rows that wait for verdicts or tools leave slots to others
	case c.conversing != nil:
		busy = c.turns.asked
	case c.judging != nil:
		busy = c.waves.asked
	}
	if c.window > 0 && c.lineage == nil && rows >= c.window && busy >= c.enough {
		return false
	}
	return rows < c.inFlight && c.waitingBytes < bytesWaiting
}

// fail gives a row that was started one result: an error.
func (c *collector) fail(p *pendingRow, err error) error {
	r := results.Failed(p.row, err)
	r.Generation = p.row.Overrides.Values().Generation
	c.mu.Lock()
	defer c.mu.Unlock()
	p.counted, p.failed = p.early, err
	c.count(p, &r, reuse.Generated)
	return c.finish(p)
}

// restore adds completions to a row that were generated before.
func (c *collector) restore(p *pendingRow, before []completion.Result) error {
	if p.judged != nil {
		return c.judgingOf(p).restore(before)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.repeats.restored(p, before)
	for i := range before {
		c.count(p, &before[i], reuse.Kept)
	}
	if p.left > 0 {
		return c.err
	}
	return c.finish(p)
}

// add adds one completion to its row, and hands the row to the writer when it is the last one. It does the same with
// rows that wait for the completion.
func (c *collector) add(p *pendingRow, done *engine.Completion) error {
	r := c.results.Of(p.row, done)
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.dialogs != nil {
		return p.dialogs.add(&r, done)
	}
	return c.take(p, &r, done)
}

// take adds what the engine gave to its row. The caller holds the lock.
func (c *collector) take(p *pendingRow, r *completion.Result, done *engine.Completion) error {
	switch {
	case p.judged != nil:
		return c.judgingOf(p).add(r, done)
	case !p.ended && done.Err == nil:
		return c.lead(p, r, reuse.Generated)
	}
	waiting := c.repeats.drop(p, done)
	if _, err := c.put(p, r, done.Request, done.Err, reuse.Generated); err != nil {
		return err
	}
	return c.serve(waiting, *r, done)
}

// lead adds a completion without an error to its row, and to those that wait for it. The caller holds the lock.
func (c *collector) lead(p *pendingRow, r *completion.Result, origin uint8) error {
	first := c.repeats.led(p, r.Generation) // before its part is published
	at, err := c.put(p, r, nil, nil, origin)
	if err != nil {
		return err
	}
	return c.serve(c.repeats.finish(first, at, c.record), *r, nil)
}

// put journals a completion, and counts it. A request that the engine refuses as a whole has one completion, regardless
// of its n; otherwise the request does not matter. The caller holds the lock.
func (c *collector) put(p *pendingRow, r *completion.Result, request *engine.Request, failed error, origin uint8) (
	at journal.Position, err error) {
	if p.ended || c.err != nil {
		return at, unlessEnded(c.err)
	}
	if p.failed == nil {
		p.failed = failed
	}
	whole := ask.Refused(failed)
	// A refusal costs nothing to repeat, and its text may depend on the available memory.
	if !whole {
		if at, err = c.append(p, r); err != nil {
			return at, err
		}
	}
	p.counted = p.early && whole
	c.count(p, r, origin)
	if whole && len(p.requests) > 1 { // the others are generated, so that the row does not depend on which came first
		for range request.N - 1 {
			r.Generation++
			c.count(p, r, origin)
		}
	} else if whole {
		p.left = 0
	}
	if p.left > 0 {
		return at, nil
	}
	defer c.observer.Span("write a row")("row", p.row.Index)
	return at, c.finish(p)
}

// serve gives the rows that wait for a completion their own copies of it. An error is worded for each row. The caller
// holds the lock.
func (c *collector) serve(waiting []follower, r completion.Result, done *engine.Completion) error {
	for _, f := range waiting {
		if f.row.has(f.generation) { // its request was refused as a whole
			continue
		}
		own, request := r, f.row.requestOf(f.generation)
		own.Generation = f.generation
		var failed error
		if done != nil && done.Err != nil {
			again := *done
			again.Request, again.Generation, failed = request, f.generation, done.Err
			own = c.results.Of(f.row.row, &again)
		} else {
			c.results.Dress(&own, f.row.row, request, f.extras)
		}
		if _, err := c.put(f.row, &own, request, failed, reuse.Repeated); err != nil {
			return err
		}
	}
	return nil
}

// append puts a completion into the journal. The caller holds the lock.
func (c *collector) append(p *pendingRow, r *completion.Result) (at journal.Position, err error) {
	c.record, _ = r.AppendBinary(c.record[:0])
	end := c.observer.Span("journal a completion")
	at, c.err = c.journal.Put(p.row.Index, c.record)
	end("bytes", len(c.record))
	c.underWay.End(p.row.Index, r.Generation)
	if c.err != nil {
		c.room.Broadcast()
	}
	return at, c.err
}

// count adds a completion to its row.
func (c *collector) count(p *pendingRow, r *completion.Result, origin uint8) {
	p.results = append(p.results, *r)
	p.left--
	if p.origin |= origin; origin == reuse.Generated {
		p.generated++
	}
	if p.counted {
		return
	}
	if c.results.Versions != nil {
		c.results.Versions.Add(r)
	}
	to := &c.before
	switch origin {
	case reuse.Copied:
		c.ofOthers++
		to = &c.copied
	case reuse.Repeated:
		to = &c.copied
	case reuse.Generated:
		to = &c.generated
		if c.observer != nil {
			c.observer.Run.Completed(r.FinishReason, r.CompletionTokens, r.Err != "")
		}
	}
	to.Completion(r.FinishReason, r.CompletionTokens, r.Err != "")
}

// finish hands a row to the writer and counts it.
func (c *collector) finish(p *pendingRow) error {
	if c.err != nil {
		return c.err
	}
	p.ended = true
	delete(c.running, p)
	if p.idle {
		c.idle--
	}
	if p.judged != nil && p.dialogs != nil {
		c.judgingOf(p).abandon()
	}
	c.waves.end(p)
	c.turns.end(p)
	slices.SortFunc(p.results, func(a, b completion.Result) int { return cmp.Compare(a.Generation, b.Generation) })
	p.results = promptset.Settled(c.format, p.results)
	if c.lineage != nil {
		parent := &lineage.Parent{Results: p.results}
		if len(p.requests) > 0 {
			parent.Prompt = p.requests[0].Tokens
		}
		c.err = c.lineage.Finish(p.row.Index, parent, p.early, p.generated)
		if c.err != nil || p.early { // an early row is written at its place
			c.room.Broadcast()
			return c.err
		}
	}
	failure := ""
	for _, r := range p.results {
		if failure == "" {
			failure = r.Err
		}
	}
	counts := &c.generated
	switch {
	case p.generated > 0:
	case p.origin&(reuse.Copied|reuse.Repeated) != 0:
		counts = &c.copied
	default: // all of it was in the journal
		counts = &c.before
	}
	counts.Row(completion.PromptTokens(p.row, p.results), failure != "")
	if failure != "" && len(c.errors) < outcome.ErrorExamples {
		err := p.failed
		if err == nil || err.Error() != failure { // the journal keeps only the text
			err = errors.New(failure)
		}
		c.errors = append(c.errors, setting.Textf("%v", outcome.RowError(p.row, err)))
	}
	switch {
	case c.observer == nil:
	case p.generated == 0:
		c.observer.Run.Restored()
	default:
		c.observer.Finished(p.row, p.started, p.results, failure)
	}
	names := p.names
	if c.conversing != nil && names != nil && slices.ContainsFunc(p.results, conversation.Failing) {
		names = nil // another time its tools may answer
		c.notes.Name(p.row.Index, nil)
	}
	c.notes.Finish(p.row.Index, p.results, p.origin, p.source)
	if p.origin&(reuse.Generated|reuse.Kept) != 0 { // the store may lack what a killed process had
		for i := range names {
			if c.err = c.store.Add(&names[i], p.results); c.err != nil {
				c.room.Broadcast()
				return c.err
			}
		}
	}
	c.err = c.w.Add(p.row, p.results)
	c.waiting, c.waitingBytes = c.w.Pending()
	c.room.Broadcast()
	return c.err
}

// unfinished returns the rows that were started and are not finished, in order. It forgets what a closed engine
// was asked for.
func (c *collector) unfinished() []*pendingRow {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waves.askAgain()
	c.repeats.askAgain()
	c.turns.askAgain(c.running)
	var all []*pendingRow
	for p := range c.running {
		if len(p.requests) > 0 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *pendingRow) int { return cmp.Compare(a.row.Index, b.row.Index) })
	return all
}

// requests returns what generates the completions that the row lacks: one request for each run of them.
func (c *collector) requests(p *pendingRow) []*engine.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.ended {
		return nil
	}
	have := make([]int, len(p.results), len(p.results)+len(p.follows))
	for i, r := range p.results {
		have[i] = r.Generation
	}
	for g := range p.follows {
		have = append(have, g)
	}
	slices.Sort(have)
	var all []*engine.Request
	for _, request := range p.requests {
		next, end := request.FirstGeneration, request.FirstGeneration+request.N
		for _, g := range append(have, end) {
			if g > next && next < end {
				r := *request
				r.FirstGeneration, r.N = next, min(g, end)-next
				all = append(all, &r)
			}
			next = max(next, g+1)
		}
	}
	return all
}

// give notes the requests of a row.
func (c *collector) give(p *pendingRow, requests []*engine.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.requests = requests
}

// end lets nothing be started or written any more.
func (c *collector) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.room.Broadcast()
}

// unlessEnded is an error of the collector; that the unit has ended is no error.
func unlessEnded(err error) error {
	if err == errEnded {
		return nil
	}
	return err
}

// failed returns why nothing can be written any more; nil while it can.
func (c *collector) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
