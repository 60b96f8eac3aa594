package masking

import "math"

// Bounds of how far ahead of a row the arena looks: how likely a state must be to be filled, how much less likely each
// byte makes what follows, since it comes later, and how many states it looks at for each row.
const (
	unlikely = 0.01
	perByte  = 0.98
	horizon  = 512
)

// search is a search of the states that rows may come to, the likeliest first.
//
// Each row begins with a likelihood of 1 in its state, which goes on to those that follow, and adds up where ways meet:
// a text may end behind any of its characters, and what comes behind it is all the same.
type search struct {
	number int
	queue  candidates
	room   int // states that may still be looked at
}

// candidate is a state that a row may come to.
type candidate struct {
	at
	likely float32
}

// candidates are a queue, the likeliest first, but for small differences.
type candidates struct {
	levels [64][]candidate
	best   int // no level before it has any
}

// level is that of a likelihood: eight for each time that it halves.
func level(likely float32) int {
	return min(max(0, int(math.Float32bits(1)>>20)-int(math.Float32bits(likely)>>20)), len(candidates{}.levels)-1)
}

func (c *candidates) push(at at, likely float32) {
	l := level(likely)
	c.levels[l] = append(c.levels[l], candidate{at, likely})
	c.best = min(c.best, l)
}

func (c *candidates) pop() (best candidate, ok bool) {
	for ; c.best < len(c.levels); c.best++ {
		if l := c.levels[c.best]; len(l) > 0 {
			best, c.levels[c.best] = l[len(l)-1], l[:len(l)-1]
			return best, true
		}
	}
	return candidate{}, false
}

// reset empties the queue.
func (c *candidates) reset() {
	for i := range c.levels {
		c.levels[i] = c.levels[i][:0]
	}
	c.best = 0
}

// Ahead fills states that the rows placed last may come to, the likeliest first, until there are none, or no room, or a
// call takes no more, or stop says so. It returns how many it filled.
func (a *Arena) Ahead(stop func() bool) (filled int) {
	a.mu.Lock()
	a.lookAhead()
	a.mu.Unlock()
	for !stop() {
		a.mu.Lock()
		isNew, more := a.step()
		a.mu.Unlock()
		if !more {
			break
		}
		if isNew {
			filled++
		}
	}
	return filled
}

// lookAhead begins a search at the rows placed last.
func (a *Arena) lookAhead() {
	a.soon = a.soon[:0]
	a.ahead.number++
	a.ahead.queue.reset()
	for _, row := range a.present {
		a.expect(a.of[row], 1)
	}
	a.ahead.room = min(len(a.present)*horizon, a.States/2)
}

// expect adds to how likely rows come to a state.
func (a *Arena) expect(at at, likely float32) {
	s := at.of()
	if s.search != a.ahead.number {
		s.search, s.likely, s.seen = a.ahead.number, 0, false
	}
	s.likely += likely
	if s.likely >= unlikely {
		a.ahead.queue.push(at, s.likely)
	}
}

// step takes the search to the next state, and fills it where it is not. more is false at the end of the search. It
// does not fill states of machines that are full: what room they have left is for their rows.
func (a *Arena) step() (isNew, more bool) {
	if a.ahead.room == 0 || len(a.dirtyStates) >= a.PatchStates {
		return false, false
	}
	var c candidate
	var s *state
	for s == nil || s.likely != c.likely { // more has come to it since, or it has gone on
		var ok bool
		if c, ok = a.ahead.queue.pop(); !ok {
			return false, false
		}
		s = c.of()
	}
	s.likely = 0
	row, used := a.rowOf(s), a.used
	if row == Unknown || a.info[row] == 0 {
		if c.isFull() {
			return false, true
		}
		var got placing
		if row, got = a.place(c.at); got != placed {
			return false, got == failed
		}
		isNew = a.used > used
	}
	if !s.seen {
		s.seen = true
		a.ahead.room--
		a.soon = append(a.soon, row)
	}
	sum := float32(0)
	for k, next := range s.follow {
		if next != c.State { // what stays in a state for a while goes on in the end
			sum += s.shape.weights[k]
		}
	}
	for k, next := range s.follow {
		if next != c.State {
			a.expect(at{c.Machine, next}, c.likely*perByte*s.shape.weights[k]/sum)
		}
	}
	return isNew, true
}
