package generate

import (
	"cmp"
	"slices"

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

// external reports whether verdicts cost so much that completions are kept while they wait for one.
func (j *judging) external() bool { return j.settings.Command != "" }

// judgedRow is what is known of a row whose completions are judged. The collector's lock protects it.
type judgedRow struct {
	rule        verdict.Rule
	first, most int                 // generations first to first+most-1
	known       []completion.Result // judged, or failed; in order of generation
	drawn       map[int]bool        // generations that this process generated
	asked       map[int]bool        // generations that the engine was asked for and has not given
	waiting     map[int]bool        // generations that wait for a verdict
	kept        int                 // of known, those that the row has for sure
	least       int                 // how many it needed at least when it was begun
	risk        float64             // how many of those ahead are expected to be in vain
	nextRisk    float64             // the same of one more
	ahead       int                 // how many more than the row needs at least may be asked for
	queued      bool                // in waves.wanting
}

// judgeRow has the completions of a row judged that was begun: most of them at most, from generation first on.
func (c *collector) judgeRow(p *pendingRow, first, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.judged = &judgedRow{rule: verdict.NewRule(c.judging.settings, most), first: first, most: most,
		drawn: map[int]bool{}, asked: map[int]bool{}, waiting: map[int]bool{}}
	p.judged.least = p.judged.rule.Least(nil)
	c.waves.begin(p)
}

// lacksVerdict reports whether a completion is yet to be judged.
func lacksVerdict(r *completion.Result) bool {
	return r.Err == "" && r.Judgment == completion.Unjudged && r.Verdict == ""
}

// decidedBy reports whether a row is decided by completions from before.
func (j *judgedRow) decidedBy(done []completion.Result) bool {
	if slices.ContainsFunc(done, func(r completion.Result) bool { return lacksVerdict(&r) }) {
		return false
	}
	row := judgedRow{first: j.first}
	for i := range done {
		row.insert(&done[i], false)
	}
	return j.rule.Decided(row.prefix()) > 0
}

// insert adds a completion that is judged, or has an error.
func (j *judgedRow) insert(r *completion.Result, drawn bool) {
	i, there := slices.BinarySearchFunc(j.known, r.Generation,
		func(k completion.Result, generation int) int { return cmp.Compare(k.Generation, generation) })
	if !there {
		j.known = slices.Insert(j.known, i, *r)
	}
	if drawn {
		j.drawn[r.Generation] = true
	}
}

// prefix returns the known completions from the first generation up to the first gap.
func (j *judgedRow) prefix() []completion.Result {
	n := 0
	for n < len(j.known) && j.known[n].Generation == j.first+n {
		n++
	}
	return j.known[:n]
}

// missing returns how many generations the row is yet to ask for.
func (j *judgedRow) missing() int {
	under := len(j.asked) + len(j.waiting)
	return min(j.rule.Least(j.known)+j.ahead-under, j.most-len(j.known)-under)
}

// restoreJudged adds completions to a row that were generated before. Those without a verdict are judged now.
func (c *collector) restoreJudged(p *pendingRow, results []completion.Result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range results {
		if r := &results[i]; lacksVerdict(r) {
			c.submit(p, r, false)
		} else {
			p.judged.insert(r, false)
		}
	}
	return c.advance(p)
}

// addJudged adds a completion to a row, which is judged first unless it has an error. The caller holds the lock.
func (c *collector) addJudged(p *pendingRow, r *completion.Result) error {
	if r.Err != "" || c.judging.external() {
		if err := c.append(p, r); err != nil {
			return err
		}
	}
	if r.Err == "" {
		c.submit(p, r, true)
		return nil
	}
	p.judged.insert(r, true)
	return c.advance(p)
}

// submit has a completion judged by other goroutines. The caller holds the lock.
func (c *collector) submit(p *pendingRow, r *completion.Result, drawn bool) {
	p.judged.waiting[r.Generation] = true
	result := *r
	c.judging.judge.Submit(&verdict.Completion{Row: p.row, Generation: r.Generation, Text: r.Text},
		func(v verdict.Verdict, err error) { c.judging.told(c.tell(p, &result, drawn, v, err)) })
}

// tell takes the verdict on a completion. The error is the writer's or the journal's.
func (c *collector) tell(p *pendingRow, r *completion.Result, drawn bool, v verdict.Verdict, failure error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(p.judged.waiting, r.Generation)
	if p.ended || c.err != nil {
		return c.failure()
	}
	switch {
	case failure != nil:
		r.Err, r.FinishReason = failure.Error(), string(engine.FinishError)
		if p.failed == nil {
			p.failed = failure
		}
	case !c.judging.settings.Verifies(): // the row's other completions decide
		r.Verdict = v.Text
	case v.Accepted:
		r.Judgment, r.Verdict = completion.Accepted, v.Text
	default:
		r.Judgment, r.Verdict = completion.Rejected, v.Text
	}
	if err := c.append(p, r); err != nil {
		return err
	}
	p.judged.insert(r, drawn)
	return c.advance(p)
}

// advance finishes a row that is decided, and queues one that needs more completions. The caller holds the lock.
func (c *collector) advance(p *pendingRow) error {
	j := p.judged
	prefix := j.prefix()
	decided := j.rule.Decided(prefix)
	if decided == 0 {
		c.waves.weigh(j)
		c.waves.keep(j, len(prefix))
		if c.waves.queue(p) {
			c.room.Broadcast()
		}
		return c.err
	}
	results := prefix[:decided]
	j.rule.Conclude(results)
	c.waves.keep(j, decided)
	c.waves.vain += len(j.known) - decided + len(j.asked) + len(j.waiting)
	p.left = decided
	for i := range results {
		c.count(p, &results[i], j.drawn[results[i].Generation])
	}
	return c.finish(p)
}

// wantsMore returns a row that was started and wants more completions, nil if there is none now. With nothing else to
// start, it may be one that only might need them.
func (c *collector) wantsMore(othersLeft bool) *pendingRow {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waves.next(othersLeft)
}

// undecided reports whether there are rows that may want more completions, now or later.
func (c *collector) undecided() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waves.running) > 0
}

// askAgain forgets what an engine was asked for that is closed.
func (c *collector) askAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waves.askAgain()
}

// severalPrompts is what is wrong with a row of several prompts in a job whose verdicts end rows.
func severalPrompts(row *promptset.Row) error {
	return row.Error("it has several prompts, and verdicts end a row of one prompt: give each prompt a row of its own")
}
