package generate

import (
	"slices"

	"github.com/quire/quire/engine"
)

// Rows of a job that judges completions are asked for in waves: at first as many generations as the row needs at least,
// and after each verdict as many as it then needs at least. So none is generated in vain, as long as other rows keep
// the slots busy. When there are no more rows to start, generations that may turn out to be unneeded fill the slots, up
// to a share of what the job has kept.

// vainShare bounds the generations that may be in vain: one for so many that are kept.
const vainShare = 8

// waves decide which rows ask for completions next. The lock of the collector protects them.
type waves struct {
	slots   int
	running map[*pendingRow]struct{} // rows that are not decided
	wanting []*pendingRow            // of these, rows that need more completions
	asked   int                      // completions that the engine was asked for and has not given, also those in vain
	kept    int                      // completions that rows have for sure
	vain    int                      // completions that decided rows had asked for in addition
	ahead   int                      // sum of ahead over the running rows
}

// begin takes up a row.
func (w *waves) begin(p *pendingRow) {
	if w.running == nil {
		w.running = map[*pendingRow]struct{}{}
	}
	w.running[p] = struct{}{}
}

// end takes a row out that is finished, for whatever reason.
func (w *waves) end(p *pendingRow) {
	if _, judged := w.running[p]; !judged {
		return
	}
	delete(w.running, p)
	w.ahead -= p.judged.ahead
	w.wanting = slices.DeleteFunc(w.wanting, func(o *pendingRow) bool { return o == p })
	p.judged.known = nil
}

// keep counts the completions that a row has for sure: the first ones, as long as they do not decide it.
func (w *waves) keep(j *judgedRow, kept int) {
	w.kept += kept - j.kept
	j.kept = kept
}

// queue queues a row that needs more completions. It returns false for other rows.
func (w *waves) queue(p *pendingRow) bool {
	if p.judged.queued || p.judged.missing() <= 0 || len(p.requests) == 0 {
		return false
	}
	p.judged.queued = true
	w.wanting = append(w.wanting, p)
	return true
}

// next takes a row that wants more completions, nil if there is none.
func (w *waves) next(othersLeft bool) *pendingRow {
	for len(w.wanting) > 0 {
		p := w.wanting[0]
		w.wanting, p.judged.queued = w.wanting[1:], false
		if p.judged.missing() > 0 {
			return p
		}
	}
	if othersLeft {
		return nil
	}
	p := w.mightWant()
	if p != nil {
		p.judged.ahead++
		w.ahead++
	}
	return p
}

// mightWant returns the row that most likely needs one more completion than it has asked for: the one that is least
// ahead, and of several the first. It returns nil if slots are busy, or if too much could be in vain.
func (w *waves) mightWant() (most *pendingRow) {
	if w.asked >= w.slots || w.vain+w.ahead >= w.kept/vainShare {
		return nil
	}
	for p := range w.running {
		j := p.judged
		if len(p.requests) == 0 || len(j.known)+len(j.asked)+len(j.waiting) >= j.most {
			continue
		}
		if most == nil || j.ahead < most.judged.ahead ||
			j.ahead == most.judged.ahead && p.row.Index < most.row.Index {
			most = p
		}
	}
	return most
}

// ask takes the generations that a row asks for next, in ascending order.
func (w *waves) ask(j *judgedRow) (generations []int) {
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
		w.asked++
		generations = append(generations, g)
	}
	return generations
}

// given takes note that the engine has given n completions that a row had asked for.
func (w *waves) given(j *judgedRow, first, n int) {
	for g := first; g < first+n; g++ {
		delete(j.asked, g)
	}
	w.asked -= n
}

// askAgain forgets what an engine was asked for that is closed.
func (w *waves) askAgain() {
	w.asked = 0
	for p := range w.running {
		clear(p.judged.asked)
	}
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
