package masking

import "slices"

// placing is the result of placing a state.
type placing int

const (
	placed placing = iota
	noRoom         // for it or its mask
	failed         // the machine ran out of memory
)

// place returns the row of a state with its mask, a new one if necessary.
func (a *Arena) place(pos position) (int32, placing) {
	row, outcome := a.link(pos)
	if outcome != placed || a.info[row] != 0 {
		return row, outcome
	}
	if !a.meetMask(pos) {
		return Unknown, failed
	}
	s := pos.known()
	if s.mask == noMask {
		return row, placed
	}
	mask, ok := a.placeMask(s.mask)
	if !ok {
		return Unknown, noRoom
	}
	if a.info[row] = 2 * (mask + 1); s.end {
		a.info[row]++
	}
	a.dirty(row)
	return row, placed
}

// link returns the row of a state, a new one if necessary. A new row has no mask: rows may pass through it, but can not
// sample in it.
func (a *Arena) link(pos position) (int32, placing) {
	s := pos.known()
	if row := a.rowOf(s); row != Unknown {
		return row, placed
	}
	if a.used == a.States {
		return Unknown, noRoom
	}
	if !a.meetFollowers(pos) {
		return Unknown, failed
	}
	row := int32(a.used)
	a.used++
	a.next = lengthened(a.next, a.used*Width)
	s.row, a.positions[row], a.info[row] = row, pos, 0
	a.fill(row)
	for _, before := range s.lacks {
		a.lead(before, pos.State)
	}
	s.lacks = nil
	return row, placed
}

// fill writes the states that follow a new row's state.
func (a *Arena) fill(row int32) {
	pos := a.positions[row]
	s := pos.known()
	to := a.next[int(row)*Width:][:Width]
	clear(to)
	var rows [Width + 1]int32
	for k, next := range s.follow {
		follower := pos.Machine.stateAt(next)
		if rows[k+1] = a.rowOf(follower); rows[k+1] == Unknown {
			follower.lacks = append(follower.lacks, row)
		}
	}
	for symbol, group := range s.shape.groups {
		to[symbol] = rows[group]
	}
	a.dirty(row)
}

// lead updates row after a state that follows it was given a row.
func (a *Arena) lead(row, follower int32) {
	pos := a.positions[row]
	s := pos.known()
	group := uint16(1 + slices.Index(s.follow, follower))
	to := pos.Machine.stateAt(follower).row
	for symbol, g := range s.shape.groups {
		if g == group {
			a.next[int(row)*Width+symbol] = to
		}
	}
	a.dirty(row)
}

// lengthened returns the list with at least n entries.
func lengthened[T any](list []T, n int) []T {
	if more := n - len(list); more > 0 {
		list = append(list, make([]T, more)...)
	}
	return list
}

// dirty records that the device does not have the current row.
func (a *Arena) dirty(row int32) {
	if !a.isDirty[row] {
		a.isDirty[row] = true
		a.dirtyStates = append(a.dirtyStates, row)
	}
}

// placeMask returns the number on the device of a mask of the pool, a new one if necessary.
func (a *Arena) placeMask(number int32) (int32, bool) {
	m := &a.pool.masks[number]
	if m.filling == a.filling {
		return m.number, true
	}
	index, ok := a.masks[m.hash]
	if !ok || !slices.Equal(a.bits[int(index)*a.Words:][:a.Words], m.words) {
		if a.number == a.Masks {
			return 0, false
		}
		index = int32(a.number)
		a.number++
		a.bits = lengthened(a.bits, a.number*a.Words)
		a.masks[m.hash] = index
		copy(a.bits[int(index)*a.Words:], m.words)
		a.maskIsDirty[index] = true
	}
	m.filling, m.number = a.filling, index
	return index, true
}

// meet finds the tokens and symbols that may follow a state. It returns false if the machine runs out of memory.
func (a *Arena) meet(pos position) bool { return a.meetMask(pos) && a.meetFollowers(pos) }

// meetMask finds the mask of a state.
func (a *Arena) meetMask(pos position) bool {
	if pos.known().pooled == a.pool.filling {
		return true
	}
	clear(a.scratch)
	end, known := pos.Mask(pos.State, a.scratch)
	if pos.failed() {
		return false
	}
	s := pos.known()
	s.mask, s.end = noMask, end
	if known {
		s.mask = a.pool.number(a.scratch)
	}
	s.pooled = a.pool.filling
	return true
}

// meetFollowers finds what follows a state.
func (a *Arena) meetFollowers(pos position) bool {
	if pos.known().shape != nil {
		return true
	}
	var group groups
	var follow []int32
	last, lastGroup := int32(Dead), 0
	for symbol := range group {
		next := pos.Next(pos.State, byte(symbol))
		if next == Dead {
			continue
		}
		if next != last { // most symbols lead to the same state as their neighbours
			if last, lastGroup = next, slices.Index(follow, next); lastGroup < 0 {
				lastGroup = len(follow)
				follow = append(follow, next)
			}
		}
		group[symbol] = uint16(lastGroup + 1)
	}
	if pos.failed() {
		return false
	}
	s := pos.known()
	s.shape, s.follow = a.shapes.find(group, len(follow)), follow
	return true
}

// rowOf returns the row of a state, Unknown if it has none.
func (a *Arena) rowOf(s *state) int32 {
	if s.filling != a.filling {
		s.filling, s.row, s.lacks = a.filling, Unknown, nil
	}
	return s.row
}
