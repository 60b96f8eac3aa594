package schedule

import (
	"slices"

	"github.com/quire/quire/engine/prefix"
)

// LookAhead is how many requests wait at least, if there are as many: requests among them with the same prefix run
// together. It also bounds how many others may pass a request.
const LookAhead = 1024

// waitingQueue holds the groups whose sequences are not all admitted, in the order in which they are offered. The run's
// goroutine owns it.
type waitingQueue struct {
	groups []*group
	// chains counts the names of the prompts' pages, so that a prefix that several groups have in common is found. A
	// group is counted until its last sequence is admitted.
	chains  prefix.Counts
	maxSeqs int
	// byAdapter puts groups with the same adapter together, because the device does not hold all adapters.
	byAdapter bool
}

func newWaitingQueue(maxSeqs int, byAdapter bool) *waitingQueue {
	return &waitingQueue{chains: prefix.Counts{}, maxSeqs: maxSeqs, byAdapter: byAdapter}
}

// insert puts g after the last of the groups that have the most pages in common with it, or else the same adapter, or
// at the end.
func (q *waitingQueue) insert(g *group) {
	q.chains.Add(g.chain, 1)
	position := q.positionOf(g)
	for _, w := range q.groups[position:] {
		w.passed++
	}
	q.groups = slices.Insert(q.groups, position, g)
}

// positionOf returns the position at which g is inserted. No group is passed by more than LookAhead others.
func (q *waitingQueue) positionOf(g *group) int {
	position, most := len(q.groups), 1
	for i, w := range q.groups {
		common := 0
		for common < min(len(w.chain), len(g.chain)) && w.chain[common] == g.chain[common] {
			common++
		}
		if common >= most {
			position, most = i+1, common
		}
	}
	if q.byAdapter && most == 1 && position == len(q.groups) {
		for i, w := range q.groups {
			if w.Adapter == g.Adapter {
				position = i + 1
			}
		}
	}
	for i := len(q.groups) - 1; i >= position; i-- {
		if q.groups[i].passed >= LookAhead {
			return i + 1
		}
	}
	return position
}

// space returns how many more requests the scheduler should look at.
func (q *waitingQueue) space() int { return max(LookAhead, 2*q.maxSeqs) - len(q.groups) }

// removeAdmitted removes the groups whose sequences are all admitted.
func (q *waitingQueue) removeAdmitted() {
	q.groups = slices.DeleteFunc(q.groups, func(g *group) bool { return g.admitted == g.N })
}

// forgetSources makes all groups choose again what they start from.
func (q *waitingQueue) forgetSources() {
	for _, g := range q.groups {
		g.sourced, g.source, g.held = false, nil, 0
	}
}
