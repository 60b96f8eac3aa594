package masking

import "fmt"

// Reader is a text that a machine reads: the state behind it, and the text itself, from which a machine that is made
// anew comes to where the other one stood.
type Reader struct {
	at
	read   []byte
	passed []int32 // states that had no row, since it was placed last
	lost   bool    // the machine ran out of memory behind the text: where it stands is not known
	err    error
}

// Err says that the text alone takes more memory than an automaton may take. No token may follow it.
func (r *Reader) Err() error { return r.err }

// Shares of the memory that an automaton may take for its states. Machines are used up to fullShare, and made anew
// then. A text is only given up where a new machine that has read nothing else runs out of memory. It takes less than
// one that has read it among others, or about as much: what is known already of an expression saves some work. So a
// machine that is not full has room for each of its texts alone, and it does not depend on other texts whether a text
// is given up.
const (
	fullShare   = 0.5
	packedShare = 0.25 // of a new machine, which takes no further text then
)

// isFull says that a machine should be made anew before its readers go on.
func (m *Machine) isFull() bool {
	memory := m.Automaton.Memory()
	return memory.Err != nil || memory.Share > fullShare
}

// failed says that what an automaton returned is not to be relied on.
func (m *Machine) failed() bool { return m.Automaton.Memory().Err != nil }

// Start is a reader of nothing.
func (a *Arena) Start(m *Machine) *Reader {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &Reader{at: at{m, m.Automaton.Start()}}
}

// Walk takes a reader through symbols. It returns false where they can not stand there.
func (a *Arena) Walk(r *Reader, symbols []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.read = append(r.read, symbols...)
	if r.lost {
		return true
	}
	for i, symbol := range symbols {
		s := r.at.of()
		if s.shape != nil {
			s.shape.note(symbol)
		}
		if a.rowOf(s) == Unknown {
			r.passed = append(r.passed, r.State)
		}
		if r.State = r.behind(r.State, r.read[:len(r.read)-len(symbols)+i+1]); r.State == Dead {
			break
		}
	}
	r.lost = r.State == Dead && r.failed()
	return r.State != Dead || r.lost
}

// Mask are the tokens that may follow a reader, nil where its state has none or there was no memory to find them. They
// stay the arena's.
func (a *Arena) Mask(r *Reader) []uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.lost || !a.meetMask(r.at) || r.of().mask == noMask {
		return nil
	}
	return a.pool.masks[r.of().mask].words
}

// renew makes the machines anew that are full, or have failed, and takes their readers to where they stood.
func (a *Arena) renew(readers []*Reader) error {
	var full []*Machine // in the order of readers
	of := map[*Machine][]*Reader{}
	for _, r := range readers {
		m := r.Machine
		if of[m] == nil && !m.isFull() {
			continue
		}
		if of[m] == nil {
			full = append(full, m)
		}
		of[m] = append(of[m], r)
	}
	for _, m := range full {
		a.reset()
		a.renewals++
		if err := a.carry(m, of[m]); err != nil {
			return err
		}
	}
	return nil
}

// carry takes readers from a machine to the same one, made anew, and to others like it where one has no room for all.
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
			r.at, r.passed, r.lost = at{a.nothing, 0}, nil, false
			readers = readers[1:]
		case failed: // the last one gets a machine of its own
			readers[0], readers[n] = readers[n], readers[0]
		default:
			readers = readers[n:]
			m = &Machine{Lane: m.Lane, anew: m.anew}
		}
	}
	return nil
}

// reread takes a reader through its text in a machine, and finds what follows it. It returns false where the machine
// runs out of memory.
func (a *Arena) reread(r *Reader, m *Machine) bool {
	r.at, r.passed, r.lost = at{m, m.Automaton.Start()}, r.passed[:0], false
	for i := range r.read {
		if r.State = r.behind(r.State, r.read[:i+1]); r.State == Dead {
			return false
		}
	}
	return a.meet(r.at)
}

// nothing is an automaton of one state, in which no token may follow.
type nothing struct{}

func (nothing) Start() int32                         { return 0 }
func (nothing) Next(int32, byte) int32               { return Dead }
func (nothing) Mask(int32, []uint32) (_, known bool) { return false, true }
func (nothing) Memory() (m Memory)                   { return m }
