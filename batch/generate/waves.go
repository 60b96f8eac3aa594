package generate

import (
	"slices"

	"github.com/quire/quire/engine"
)

// Rows of a job that judges completions are asked for in waves: at first as many generations as the row needs at least,
// and after each verdict as many as it then needs at least. So none is generated in vain, as long as other rows keep
// the slots busy. When there are no more rows to start, generations that may turn out to be unneeded fill the slots, up
// to a share of what the job has kept.

// One generation for so many that are kept may be expected to be in vain, and may be in vain at worst.
const (
	vainShare    = 8
	maxVainShare = 4
)

// waves decide which rows ask for completions next. The lock of the collector protects them.
type waves struct {
	slots   int
	running map[*pendingRow]struct{} // rows that are not decided
	wanting []*pendingRow            // of these, rows that need more completions
	asked   int                      // completions that the engine was asked for and has not given, also those in vain
	kept    int                      // completions that rows have for sure
	vain    int                      // completions that decided rows had asked for in addition
	ahead   int                      // sum of ahead over the running rows
	risk    float64                  // sum of risk over the running rows
	// How many verdicts of the job there were, and by how much they brought rows nearer to their ends.
	verdicts, steps int
}

// begin takes up a row.
func (w *waves) begin(p *pendingRow) {
	if w.running == nil {
		w.running = map[*pendingRow]struct{}{}
	}
	w.running[p] = struct{}{}
}

// end takes a finished row out.
func (w *waves) end(p *pendingRow) {
	if _, judged := w.running[p]; !judged {
		return
	}
	delete(w.running, p)
	if p.dialogs != nil { // nobody asks for more of their turns
		w.asked -= len(p.judged.asked)
	}
	w.risk -= p.judged.risk
	w.ahead -= p.judged.ahead
	w.verdicts += len(p.judged.known)
	w.steps += p.judged.steps()
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
		w.weigh(p.judged)
	}
	return p
}

// steps is by how much the verdicts of a row brought it nearer to its end.
func (j *judgedRow) steps() int { return max(0, j.least-j.rule.Least(j.known)) }

// weigh finds how many of the completions that a row asks for beyond its least need are in vain if each verdict is a
// step to its end with one chance: the share of steps in the row's verdicts so far, and with the weight of four
// verdicts the share in the job's.
func (w *waves) weigh(j *judgedRow) {
	const weight = 4
	prior := float64(w.steps+1) / float64(w.verdicts+2)
	chance := min(1, (float64(j.steps())+weight*prior)/float64(len(j.known)+weight))
	least := j.rule.Least(j.known)
	// reached[i] is the chance that i of the verdicts so far are steps, up to the least, which ends the row.
	reached := make([]float64, least+1)
	reached[0] = 1
	w.risk -= j.risk
	j.risk = 0
	for asked := 0; ; asked++ {
		if ahead := asked - least; ahead == j.ahead {
			j.nextRisk = reached[least]
			break
		} else if ahead >= 0 {
			j.risk += reached[least]
		}
		for i := least; i > 0; i-- {
			stays := reached[i] * (1 - chance)
			if i == least {
				stays = reached[i]
			}
			reached[i] = stays + reached[i-1]*chance
		}
		reached[0] *= 1 - chance
	}
	w.risk += j.risk
}

// mightWant returns the row that most likely needs one more completion than it has asked for, of several the first. It
// returns nil if slots are busy, or if too much is expected to be in vain.
func (w *waves) mightWant() (most *pendingRow) {
	if w.asked >= w.slots || w.vain+w.ahead >= w.kept/maxVainShare {
		return nil
	}
	for p := range w.running {
		j := p.judged
		if len(p.requests) == 0 || len(j.known)+j.underWay() >= j.most {
			continue
		}
		if most == nil || j.nextRisk < most.judged.nextRisk ||
			j.nextRisk == most.judged.nextRisk && p.row.Index < most.row.Index {
			most = p
		}
	}
	if most == nil || float64(w.vain)+w.risk+most.judged.nextRisk > float64(w.kept)/vainShare {
		return nil
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
		if there || j.asked[g] || j.follows[g] || j.waiting[g] {
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
		if p.dialogs == nil {
			clear(p.judged.asked)
		}
		w.asked += len(p.judged.asked)
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
