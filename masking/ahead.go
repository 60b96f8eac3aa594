package masking

// horizon bounds how far ahead of a row the arena looks for states to fill, in states.
const horizon = 64

// Ahead fills states that the rows placed last may come to, those nearest first, and then others, until there are none,
// or no room, or stop says so. It returns how many it filled.
func (a *Arena) Ahead(stop func() bool) (filled int) {
	a.mu.Lock()
	a.lookAhead()
	a.mu.Unlock()
	for ; !stop(); filled++ {
		a.mu.Lock()
		more := a.fillNext()
		a.mu.Unlock()
		if !more {
			break
		}
	}
	return filled
}

// lookAhead finds the states that the present rows may come to soon and that are not filled.
func (a *Arena) lookAhead() {
	a.soon = nil
	seen := make([]bool, a.used)
	var queue []int32
	for _, row := range a.present {
		if !seen[row] {
			seen[row], queue = true, append(queue, row)
		}
	}
	for room := len(queue) * horizon; len(queue) > 0 && room > 0; queue = queue[1:] {
		last := int32(Unknown)
		for _, to := range a.next[int(queue[0])*Width:][:Width] {
			if to == last || to == Unknown || seen[to] {
				continue
			}
			last, seen[to], queue = to, true, append(queue, to)
			if room--; !a.filled[to] {
				a.soon = append(a.soon, to)
			}
		}
	}
}

// fillNext fills one of those that wait for it.
func (a *Arena) fillNext() bool {
	for _, queue := range []*[]int32{&a.soon, &a.later} {
		for len(*queue) > 0 {
			row := (*queue)[0]
			*queue = (*queue)[1:]
			if a.filled[row] {
				continue
			}
			if 4*len(a.masks) >= speculative*a.Masks || !a.fill(row) {
				a.soon, a.later = nil, nil
				return false
			}
			return true
		}
	}
	return false
}
