package generate

import (
	"slices"
	"time"

	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/engine"
)

// pendingRow is a row whose completions are not all there.
type pendingRow struct {
	row       *promptset.Row
	requests  []*engine.Request // requests of its completions, one for each prompt; none if no completions are to come
	results   []completion.Result
	left      int
	generated int   // results that this process generated
	origin    uint8 // how the results came to be: see package reuse
	source    uint8 // of those that were copied
	ended     bool
	failed    error // the first error of this process; guarded by collector.mu
	started   time.Time

	names   []reuse.Named // of the completions of each request
	follows map[int]bool  // generations that come from equal completions under way
	idle    bool          // it is one of collector.idle

	judged  *judgedRow          // nil if its completions are not judged
	dialogs *dialogs            // nil if its completions call no tools
	done    []completion.Result // earlier results, until the row is launched
	old     bool                // some are of an earlier version of the row's part
	early   bool                // started before its place, for its children: it is not written when it is finished
	counted bool                // its results are: before its place, or at it
}

// named returns the names of the completions of the request that has a generation; nil if there are none.
func (p *pendingRow) named(generation int) *reuse.Named {
	for i := range p.names {
		if p.names[i].Has(generation) {
			return &p.names[i]
		}
	}
	return nil
}

// has reports whether a row has the result of a generation.
func (p *pendingRow) has(generation int) bool {
	return slices.ContainsFunc(p.results, func(r completion.Result) bool { return r.Generation == generation })
}

// requestOf returns the request that has a generation.
func (p *pendingRow) requestOf(generation int) *engine.Request {
	i := slices.IndexFunc(p.requests, func(r *engine.Request) bool {
		return generation >= r.FirstGeneration && generation < r.FirstGeneration+r.N
	})
	return p.requests[max(0, i)]
}

// served is how many of the completions that a row waits for it has got. The caller holds the collector's lock.
func (p *pendingRow) served() (n int) {
	for _, r := range p.results {
		if p.follows[r.Generation] {
			n++
		}
	}
	return n
}

// partialRows is how many rows have some of their completions, and not all.
func (c *collector) partialRows() (rows int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.running {
		if len(p.results)+len(p.done) > 0 || p.judged != nil && len(p.judged.known) > 0 {
			rows++
		}
	}
	return rows
}

// Counts returns what is done of the job so far, the part of it that this process generated, and how many rows are
// started and not finished. Most of these wait for a slot.
func (c *collector) Counts() (done, drawn tally.Counts, running int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.before.Plus(c.generated).Plus(c.copied), c.generated, int64(len(c.running))
}

// Copied returns the part that this process copied, and how many of its completions came from other outputs; the others
// are equal to one of this job.
func (c *collector) Copied() (all tally.Counts, ofOthers int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.copied, c.ofOthers
}
