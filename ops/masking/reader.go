package masking

import (
	"fmt"
	"slices"
)

// Reader is a text that a machine reads: the state after it, and the text itself, which a renewed machine reads again
// to reach the same state.
type Reader struct {
	position
	read   []byte
	passed []int32 // states that had no row, since it was placed last
	lost   bool    // the machine ran out of memory in the text: its state is not known
	err    error
}

// Err reports that the text alone takes more memory than an automaton may take. No token may follow it.
func (r *Reader) Err() error { return r.err }

// Start returns a reader that has read nothing.
func (a *Arena) Start(m *Machine) *Reader {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &Reader{position: position{m, m.Automaton.Start()}}
}

// Walk advances a reader by symbols. It returns false if they are not allowed.
func (a *Arena) Walk(r *Reader, symbols []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.read = append(r.read, symbols...)
	if r.lost {
		return true
	}
	for i, symbol := range symbols {
		s := r.position.known()
		if s.shape != nil {
			s.shape.note(symbol)
		}
		if a.rowOf(s) == Unknown {
			r.passed = append(r.passed, r.State)
		}
		if r.State = r.stateAfter(r.State, r.read[:len(r.read)-len(symbols)+i+1]); r.State == Dead {
			break
		}
	}
	r.lost = r.State == Dead && r.failed()
	return r.State != Dead || r.lost
}

// Mask returns the tokens that may follow a reader, nil if its state has none or there was no memory to find them. The
// arena owns the result.
func (a *Arena) Mask(r *Reader) []uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.lost || !a.meetMask(r.position) || r.known().mask == noMask {
		return nil
	}
	return a.pool.masks[r.known().mask].words
}

// stateAfter returns the state after a text whose last symbol follows state.
func (m *Machine) stateAfter(state int32, read []byte) int32 {
	next := m.Next(state, read[len(read)-1])
	if s, ok := m.Automaton.(settler); ok && next != Dead {
		return s.Settle(next, read)
	}
	return next
}

// Place returns the rows of the states of readers, each with its mask. If there is no room for all, it forgets the
// other states and gives the readers new rows. It is an error if they still do not fit.
//
// Machines that are full are renewed. A reader that alone takes too much memory has an error, and a row in which no
// token may follow.
func (a *Arena) Place(readers []*Reader) ([]int32, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.renew(readers); err != nil {
		return nil, err
	}
	for flushed := false; ; {
		rows, outcome := a.placeAll(readers)
		switch {
		case outcome == placed:
			a.present = slices.Clone(rows)
			a.linkPassed(readers)
			return rows, nil
		case outcome == failed:
			if err := a.renew(readers); err != nil {
				return nil, err
			}
		case flushed:
			return nil, fmt.Errorf("%d rows do not fit into %d states and %d masks: make Config.MaskStates larger",
				len(readers), a.States, a.Masks)
		default:
			a.reset()
			a.flushes++
			flushed = true
		}
	}
}

func (a *Arena) placeAll(readers []*Reader) (rows []int32, outcome placing) {
	rows = make([]int32, len(readers))
	for i, r := range readers {
		if rows[i], outcome = a.place(r.position); outcome != placed {
			break
		}
	}
	return rows, outcome
}

// linkPassed gives rows to the states that readers passed since they were placed last, as long as there is room. Others
// that come the same way would be stopped there again.
func (a *Arena) linkPassed(readers []*Reader) {
	for _, r := range readers {
		for _, state := range r.passed {
			if r.isFull() {
				break
			}
			a.link(position{r.Machine, state})
		}
		r.passed = r.passed[:0]
	}
}

// renew renews the machines that are full or have failed, and brings their readers back to their states.
func (a *Arena) renew(readers []*Reader) error {
	var full []*Machine // in the order of readers
	byMachine := map[*Machine][]*Reader{}
	for _, r := range readers {
		m := r.Machine
		if byMachine[m] == nil && !m.isFull() {
			continue
		}
		if byMachine[m] == nil {
			full = append(full, m)
		}
		byMachine[m] = append(byMachine[m], r)
	}
	for _, m := range full {
		a.reset()
		a.renewals++
		if err := a.carry(m, byMachine[m]); err != nil {
			return err
		}
	}
	return nil
}

// carry moves readers from a machine to the renewed machine, and to further machines like it if one has no room for
// all.
func (a *Arena) carry(m *Machine, readers []*Reader) error {
	for len(readers) > 0 {
		if err := m.renew(); err != nil {
			return err
		}
		n, failed := 0, false
		for n < len(readers) && (n == 0 || m.Automaton.Memory().Share <= packedShare) {
			if failed = !a.reread(readers[n], m); failed {
				break
			}
			n++
		}
		switch {
		case failed && n == 0:
			r := readers[0]
			r.err = fmt.Errorf("its %d bytes: %w", len(r.read), m.Automaton.Memory().Err)
			r.position, r.passed, r.lost = position{a.nothing, 0}, nil, false
			readers = readers[1:]
		case failed: // the last one gets a machine of its own
			readers[0], readers[n] = readers[n], readers[0]
		default:
			readers = readers[n:]
			m = &Machine{Lane: m.Lane, build: m.build}
		}
	}
	return nil
}

// reread has a reader read its text in a machine, and finds what follows it. It returns false if the machine runs out
// of memory.
func (a *Arena) reread(r *Reader, m *Machine) bool {
	r.position, r.passed, r.lost = position{m, m.Automaton.Start()}, r.passed[:0], false
	for i := range r.read {
		if r.State = r.stateAfter(r.State, r.read[:i+1]); r.State == Dead {
			return false
		}
	}
	return a.meet(r.position)
}
