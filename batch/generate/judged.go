package generate

import (
	"cmp"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// judging describes how a unit has completions judged.
type judging struct {
	settings *verdict.Settings
	judge    *verdict.Judge
	slots    int
	told     func(error) // is called after each verdict, with the error of the writer or the journal
}

// note gives a completion its verdict, or the error that it is for the lack of one.
func (j *judging) note(r *completion.Result, v verdict.Verdict, failure error) {
	switch {
	case failure != nil:
		r.Err, r.FinishReason = failure.Error(), string(engine.FinishError)
	case !j.settings.Verifies(): // the row's other completions decide
		r.Verdict = v.Text
	case v.Accepted:
		r.Judgment, r.Verdict = completion.Accepted, v.Text
	default:
		r.Judgment, r.Verdict = completion.Rejected, v.Text
	}
}

// question is what the verifier of a row's completion reads.
func question(row *promptset.Row, r *completion.Result) *verdict.Completion {
	return &verdict.Completion{Row: row, Generation: r.Generation, Text: r.Text, Messages: r.Messages}
}

// judgeRow has the completions of a started row judged: at most most of them, from generation first on.
func (c *collector) judgeRow(p *pendingRow, first, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.judged = &judgedRow{rule: verdict.NewRule(c.judging.settings, most), first: first, most: most,
		origins: map[int]uint8{}, asked: map[int]bool{}, follows: map[int]bool{}, waiting: map[int]bool{}}
	p.judged.least = p.judged.rule.Least(nil)
	c.waves.begin(p)
}

// rowJudging is a row whose completions are judged.
type rowJudging struct {
	c *collector
	p *pendingRow
	*judgedRow
}

// judgingOf returns what judges the completions of a row.
func (c *collector) judgingOf(p *pendingRow) rowJudging { return rowJudging{c, p, p.judged} }

// restore adds completions to a row that were generated before. Those without a verdict are judged now, unless
// the row is decided without them: then an earlier process may have had them judged in vain, and kept no verdict.
func (j rowJudging) restore(results []completion.Result) error {
	j.c.mu.Lock()
	defer j.c.mu.Unlock()
	j.c.repeats.restored(j.p, results)
	for i := range results {
		if !lacksVerdict(&results[i]) {
			j.insert(&results[i], reuse.Kept)
		}
	}
	if j.rule.Decided(j.prefix()) == 0 {
		for i := range results {
			if lacksVerdict(&results[i]) {
				j.submit(&results[i], reuse.Kept)
			}
		}
	}
	return j.advance()
}

// add adds a completion to a row, which is judged first unless it has an error. The caller holds the collector's lock.
func (j rowJudging) add(r *completion.Result, done *engine.Completion) error {
	c, p := j.c, j.p
	whole := ask.Refused(done.Err)
	first, n := done.Generation, 1
	if whole {
		first, n = done.Request.FirstGeneration, done.Request.N
	}
	c.waves.given(j.judgedRow, first, n)
	c.room.Broadcast()
	for g := first; done.Err != nil && g < first+n; g++ {
		j.release(g)
	}
	if p.ended || c.err != nil {
		if done.Err == nil && c.err == nil {
			j.share(c.repeats.forget(p, r.Generation), r)
		}
		return unlessEnded(c.err)
	}
	if p.failed == nil {
		p.failed = done.Err
	}
	switch {
	case whole && len(p.requests) == 1:
		_, err := c.put(p, r, done.Request, done.Err, reuse.Generated)
		return err
	case whole: // each completion of the prompt has the error
		for range n {
			j.insert(r, reuse.Generated)
			r.Generation++
		}
		return j.advance()
	}
	return j.addWhole(r)
}

// addWhole has a completion judged that was generated, unless it has an error. The caller holds the collector's lock.
func (j rowJudging) addWhole(r *completion.Result) error {
	c := j.c
	if r.Err != "" || c.judging.settings.Costs() {
		at, err := c.append(j.p, r)
		if err != nil {
			return err
		}
		if r.Err == "" {
			j.share(c.repeats.finish(c.repeats.led(j.p, r.Generation), at, c.record), r)
		}
	}
	if r.Err == "" {
		j.submit(r, reuse.Generated)
		return nil
	}
	j.insert(r, reuse.Generated)
	return j.advance()
}

// asks takes the generations that a row asks for next.
func (c *collector) asks(p *pendingRow) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.ended {
		return nil
	}
	return c.waves.ask(p.judged)
}

// claim looks for completions of equal rows among those that the row has asked for.
func (j rowJudging) claim(k *reuse.Named, asked []int) (found claimed) {
	c := j.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if j.p.ended {
		return claimed{missing: asked}
	}
	for _, g := range asked {
		first, waits := c.repeats.claim(j.p, k, g)
		switch {
		case first == nil:
			found.missing = append(found.missing, g)
		case waits:
			c.waves.given(j.judgedRow, g, 1)
			j.follows[g] = true
		default:
			found.there = append(found.there, foundFirst{first, g, c.repeats.bytes[first]})
		}
	}
	return found
}

// share has copies of a completion judged for those that waited for it. The caller holds the collector's lock.
func (j rowJudging) share(waiting []follower, r *completion.Result) {
	for _, f := range waiting {
		other := j.c.judgingOf(f.row)
		delete(other.follows, f.generation)
		if !f.row.ended {
			own := *r
			own.Generation = f.generation
			j.c.results.Dress(&own, f.row.row, f.row.requestOf(f.generation), f.extras)
			other.submit(&own, reuse.Repeated)
		}
	}
}

// release has those ask for a completion of their own that waited for one that is not to come. The caller holds the
// collector's lock.
func (j rowJudging) release(generation int) {
	for _, f := range j.c.repeats.forget(j.p, generation) {
		delete(f.row.judged.follows, f.generation)
		if !f.row.ended && j.c.waves.queue(f.row) {
			j.c.room.Broadcast()
		}
	}
}

// abandon releases those that wait for conversations of a decided row, which do not continue. The caller holds the
// collector's lock.
func (j rowJudging) abandon() {
	for g := range j.asked {
		j.release(g)
	}
}

// judgeCopy has a completion judged that was generated for another row or output.
func (c *collector) judgeCopy(p *pendingRow, r *completion.Result, extras reuse.Extras, origin, source uint8) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.ended || p.dialogs == nil { // else nothing counts any more what it asked for
		c.waves.given(p.judged, r.Generation, 1)
	}
	if !p.ended {
		c.results.Dress(r, p.row, p.requestOf(r.Generation), extras)
		if origin == reuse.Copied {
			p.source = source
		}
		c.judgingOf(p).submit(r, origin)
	}
}

// submit has a completion judged by other goroutines. The caller holds the collector's lock.
func (j rowJudging) submit(r *completion.Result, origin uint8) {
	j.waiting[r.Generation] = true
	result, judging := *r, j.c.judging
	judging.judge.Submit(question(j.p.row, r),
		func(v verdict.Verdict, err error) { judging.told(j.tell(&result, origin, v, err)) })
}

// tell takes the verdict on a completion. The error is the writer's or the journal's.
func (j rowJudging) tell(r *completion.Result, origin uint8, v verdict.Verdict, failure error) error {
	c, p := j.c, j.p
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(j.waiting, r.Generation)
	judged := *r // without the verdict
	if p.ended || c.err != nil {
		if c.err == nil {
			j.share(c.repeats.forget(p, r.Generation), &judged)
		}
		return unlessEnded(c.err)
	}
	if c.judging.note(r, v, failure); failure != nil && p.failed == nil {
		p.failed = failure
	}
	at, err := c.append(p, r)
	if err != nil {
		return err
	}
	if failure == nil {
		j.share(c.repeats.finish(c.repeats.led(p, r.Generation), at, c.record), &judged)
	} else {
		j.share(c.repeats.forget(p, r.Generation), &judged)
	}
	j.insert(r, origin)
	return j.advance()
}

// advance finishes a row that is decided, and queues one that needs more completions. The caller holds the collector's
// lock.
func (j rowJudging) advance() error {
	c, p := j.c, j.p
	prefix := j.prefix()
	decided := j.rule.Decided(prefix)
	if decided == 0 {
		c.waves.weigh(j.judgedRow)
		c.waves.keep(j.judgedRow, len(prefix))
		if c.waves.queue(p) {
			c.room.Broadcast()
		}
		return c.err
	}
	results := prefix[:decided]
	j.rule.Conclude(results)
	c.waves.keep(j.judgedRow, decided)
	c.waves.vain += len(j.known) - decided + len(j.asked) + len(j.waiting)
	p.left = decided
	for i := range results {
		c.count(p, &results[i], cmp.Or(j.origins[results[i].Generation], reuse.Kept))
	}
	return c.finish(p)
}

// severalPrompts is what is wrong with a row of several prompts in a job whose verdicts end rows.
func severalPrompts(row *promptset.Row) error {
	return row.Error("it has several prompts, and verdicts end a row of one prompt: give each prompt a row of its own")
}
