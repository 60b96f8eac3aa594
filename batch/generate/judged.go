package generate

import (
	"cmp"
	"slices"

	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// Rows of a job that judges completions are asked for in waves: at first as many generations as the row needs at least,
// and after each verdict as many as it then needs at least. So none is generated in vain, as long as other rows keep
// the slots busy. When there are no more rows to start, generations that may turn out to be unneeded fill the slots, up
// to a share of what the job has kept.

// vainShare bounds the generations that may be in vain: one for so many that are kept.
const vainShare = 8

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
	ahead       int                 // how many more than the row needs at least may be asked for
	queued      bool                // in collector.wanting
}

// judgedRows are the parts of a collector for rows whose completions are judged. The collector's lock protects them.
type judgedRows struct {
	running int           // rows that are not decided
	wanting []*pendingRow // rows that need more completions
	asked   int           // completions that the engine was asked for and has not given, also those in vain
	kept    int           // completions of rows that are decided
	vain    int           // completions that these had asked for in addition
	ahead   int           // sum of ahead over the running rows
}

// judgeRow has the completions of a row judged that was begun: most of them at most, from generation first on.
func (c *collector) judgeRow(p *pendingRow, first, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.judged = &judgedRow{rule: verdict.NewRule(c.judging.settings, most), first: first, most: most,
		drawn: map[int]bool{}, asked: map[int]bool{}, waiting: map[int]bool{}}
	c.judged.running++
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
		row.insert(&done[i])
	}
	return j.rule.Decided(row.prefix()) > 0
}

// insert adds a completion that is judged, or has an error.
func (j *judgedRow) insert(r *completion.Result) {
	i, there := slices.BinarySearchFunc(j.known, r.Generation,
		func(k completion.Result, generation int) int { return cmp.Compare(k.Generation, generation) })
	if !there {
		j.known = slices.Insert(j.known, i, *r)
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
			p.judged.insert(r)
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
	p.judged.insert(r)
	p.judged.drawn[r.Generation] = true
	return c.advance(p)
}

// addRefusal adds the error of a request that the engine refused, one of several of its row: one for each completion,
// so that the row does not depend on which came first. The caller holds the lock.
func (c *collector) addRefusal(p *pendingRow, r *completion.Result, n int) error {
	for range n {
		p.judged.insert(r)
		p.judged.drawn[r.Generation] = true
		r.Generation++
	}
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
		return c.err
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
	p.judged.insert(r)
	p.judged.drawn[r.Generation] = drawn
	return c.advance(p)
}

// advance finishes a row that is decided, and queues one that needs more completions. The caller holds the lock.
func (c *collector) advance(p *pendingRow) error {
	j := p.judged
	prefix := j.prefix()
	decided := j.rule.Decided(prefix)
	if decided == 0 {
		if !j.queued && j.missing() > 0 && len(p.requests) > 0 {
			j.queued = true
			c.judged.wanting = append(c.judged.wanting, p)
			c.room.Broadcast()
		}
		return c.err
	}
	results := prefix[:decided]
	j.rule.Conclude(results)
	c.judged.kept += decided
	c.judged.vain += len(j.known) - decided + len(j.asked) + len(j.waiting)
	p.left = decided
	for i := range results {
		c.count(p, &results[i], j.drawn[results[i].Generation])
	}
	return c.finish(p)
}

// endJudging takes a row out that is finished, for whatever reason. The caller holds the lock.
func (c *collector) endJudging(p *pendingRow) {
	if p.judged == nil {
		return
	}
	c.judged.running--
	c.judged.ahead -= p.judged.ahead
	c.judged.wanting = slices.DeleteFunc(c.judged.wanting, func(o *pendingRow) bool { return o == p })
	p.judged.known = nil
}

// wantsMore returns a row that was started and wants more completions, nil if there is none now. With nothing else to
// start, it may be one that only might need them.
func (c *collector) wantsMore(othersLeft bool) *pendingRow {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.judged.wanting) > 0 {
		p := c.judged.wanting[0]
		c.judged.wanting, p.judged.queued = c.judged.wanting[1:], false
		if p.judged.missing() > 0 {
			return p
		}
	}
	if othersLeft {
		return nil
	}
	if p := c.mightWant(); p != nil {
		p.judged.ahead++
		c.judged.ahead++
		return p
	}
	return nil
}

// mightWant returns the row that most likely needs one more completion than it has asked for: the one that is least
// ahead, and of several the first. It returns nil if slots are busy, or if too much could be in vain. The caller holds
// the lock.
func (c *collector) mightWant() (most *pendingRow) {
	if c.judging == nil || c.judged.asked >= c.judging.slots ||
		c.judged.vain+c.judged.ahead >= c.judged.kept/vainShare {
		return nil
	}
	for p := range c.running {
		j := p.judged
		if j == nil || len(p.requests) == 0 || len(j.known)+len(j.asked)+len(j.waiting) >= j.most {
			continue
		}
		if most == nil || j.ahead < most.judged.ahead ||
			j.ahead == most.judged.ahead && p.row.Index < most.row.Index {
			most = p
		}
	}
	return most
}

// wave takes the generations that a row asks for next, in ascending order. The caller holds the lock.
func (c *collector) wave(j *judgedRow) (generations []int) {
	known := 0
	for g, left := j.first, j.missing(); left > 0 && g < j.first+j.most; g++ {
		for known < len(j.known) && j.known[known].Generation < g {
			known++
		}
		there := known < len(j.known) && j.known[known].Generation == g
		if there || j.asked[g] || j.waiting[g] {
			continue
		}
		left--
		j.asked[g] = true
		c.judged.asked++
		generations = append(generations, g)
	}
	return generations
}

// requestsOf returns requests for some of the completions of a row, in ascending order: one request for each run of
// them that is of one prompt.
func requestsOf(prompts []*engine.Request, generations []int) (all []*engine.Request) {
	for _, request := range prompts {
		end := request.FirstGeneration + request.N
		for len(generations) > 0 && generations[0] < end {
			n := 1
			for n < len(generations) && generations[n] == generations[0]+n && generations[n] < end {
				n++
			}
			r := *request
			r.FirstGeneration, r.N = generations[0], n
			all, generations = append(all, &r), generations[n:]
		}
	}
	return all
}

// given takes note that the engine has given n completions that a row had asked for. The caller holds the lock.
func (c *collector) given(p *pendingRow, first, n int) {
	if p.judged == nil {
		return
	}
	for g := first; g < first+n; g++ {
		delete(p.judged.asked, g)
	}
	c.judged.asked -= n
	c.room.Broadcast()
}

// askAgain forgets what an engine was asked for that is closed.
func (c *collector) askAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.judged.asked = 0
	for p := range c.running {
		if p.judged != nil {
			clear(p.judged.asked)
		}
	}
}

// mayWantMore reports whether a row may want more completions, now or later.
func (c *collector) mayWantMore() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.judged.running > 0
}

// severalPrompts is what is wrong with a row of several prompts in a job whose verdicts end rows.
func severalPrompts(row *promptset.Row) error {
	return row.Error("it has several prompts, and verdicts end a row of one prompt: give each prompt a row of its own")
}
