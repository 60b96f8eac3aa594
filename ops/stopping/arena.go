package stopping

import "slices"

// Set is the stops of a request in the form that an [Arena] holds: one automaton. Sets with the same key are equal.
type Set struct {
	Key string
	*Automaton
}

// Arena is the table of the automata of running requests. Equal sets are stored once. A set that is no longer held
// stays until its rows are needed.
type Arena struct {
	table   []int32 // [rows, Width]
	free    []int32
	placed  map[string]*placed
	uses    int
	version int
}

// placed is a set with its rows.
type placed struct {
	rows    []int32 // row of each state
	holders int
	last    int // value of the use counter when it was last held
}

// NewArena returns an arena of so many rows.
func NewArena(rows int) *Arena {
	a := &Arena{table: make([]int32, rows*Width), placed: map[string]*placed{}}
	for row := range rows {
		a.free = append(a.free, int32(row))
	}
	return a
}

// Table returns the contents: Width entries for each row. The version changes when they do.
func (a *Arena) Table() (table []int32, version int) { return a.table, a.version }

// Hold places sets, all or none of them, and keeps them until each is released. It returns false if there is
// currently no room for them.
func (a *Arena) Hold(sets ...*Set) bool {
	for i, s := range sets {
		if !a.hold(s) {
			a.Release(sets[:i]...)
			return false
		}
	}
	return true
}

func (a *Arena) hold(s *Set) bool {
	p := a.placed[s.Key]
	if p == nil {
		if !a.makeRoom(s.States()) {
			return false
		}
		p = a.place(s)
	}
	a.uses++
	p.holders++
	p.last = a.uses
	return true
}

// Release releases sets that were held.
func (a *Arena) Release(sets ...*Set) {
	for _, s := range sets {
		a.placed[s.Key].holders--
	}
}

// Start returns the row of the first state of a held set.
func (a *Arena) Start(s *Set) int32 { return a.placed[s.Key].rows[0] }

// makeRoom frees rows of sets that are not held, least recently held first, until so many are free. If there are not
// enough, it changes nothing.
func (a *Arena) makeRoom(rows int) bool {
	room := len(a.free)
	var idle []string
	for key, p := range a.placed {
		if p.holders == 0 {
			room += len(p.rows)
			idle = append(idle, key)
		}
	}
	if room < rows {
		return false
	}
	slices.SortFunc(idle, func(x, y string) int { return a.placed[x].last - a.placed[y].last })
	for len(a.free) < rows {
		a.free = append(a.free, a.placed[idle[0]].rows...)
		delete(a.placed, idle[0])
		idle = idle[1:]
	}
	return true
}

// place writes a set into free rows.
func (a *Arena) place(s *Set) *placed {
	n := len(a.free) - s.States()
	p := &placed{rows: slices.Clone(a.free[n:])}
	a.free = a.free[:n]
	for state, row := range p.rows {
		to := a.table[int(row)*Width:][:Width]
		for i, next := range s.Next[state*Width:][:Width] {
			if next < 0 {
				to[i] = ^p.rows[^next]
			} else {
				to[i] = p.rows[next]
			}
		}
	}
	a.placed[s.Key] = p
	a.version++
	return p
}
