package masking

// Bounds of how far ahead of a row the arena looks: the likelihood that a state must have to be filled, the factor by
// which each byte reduces the likelihood of the states after it, and the number of states for each row.
const (
	unlikely = 0.01
	perByte  = 0.98
	horizon  = 512
)

// Ahead fills states that the rows placed last may reach, the likeliest first, until there are none, there is no room,
// a call takes no more, or stop returns true. It returns how many it filled.
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

// lookAhead starts a search at the rows placed last.
func (a *Arena) lookAhead() {
	a.soon = a.soon[:0]
	a.ahead.number++
	a.ahead.queue.reset()
	for _, row := range a.present {
		a.expect(a.positions[row], 1)
	}
	a.ahead.room = min(len(a.present)*horizon, a.States/2)
}

// expect adds to the likelihood that rows reach a state.
func (a *Arena) expect(pos position, likely float32) {
	s := pos.known()
	if s.search != a.ahead.number {
		s.search, s.likely, s.seen = a.ahead.number, 0, false
	}
	s.likely += likely
	if s.likely >= unlikely {
		a.ahead.queue.push(pos, s.likely)
	}
}

// step takes the next state of the search, and fills it if it is not filled yet. more is false at the end of the
// search. It does not fill states of machines that are full, whose remaining memory is for their rows.
func (a *Arena) step() (isNew, more bool) {
	if a.ahead.room == 0 || len(a.dirtyStates) >= a.PatchStates {
		return false, false
	}
	var c candidate
	var s *state
	for s == nil || s.likely != c.likely { // its likelihood has grown since, or was passed on
		var ok bool
		if c, ok = a.ahead.queue.pop(); !ok {
			return false, false
		}
		s = c.known()
	}
	s.likely = 0
	row, used := a.rowOf(s), a.used
	if row == Unknown || a.info[row] == 0 {
		if c.isFull() {
			return false, true
		}
		var outcome placing
		if row, outcome = a.place(c.position); outcome != placed {
			return false, outcome == failed
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
		if next != c.State { // a state that stays for a while leaves in the end
			sum += s.shape.weights[k]
		}
	}
	for k, next := range s.follow {
		if next != c.State {
			a.expect(position{c.Machine, next}, c.likely*perByte*s.shape.weights[k]/sum)
		}
	}
	return isNew, true
}
