package masking

import "slices"

// Machine is an automaton that can stand in an [Arena]. It is used under the lock of one arena alone.
type Machine struct {
	Automaton
	Lane   int // stopping.OfText or stopping.OfTokens: what it reads of a token
	anew   func() (Automaton, error)
	states []*state // those that were met
}

// at is a state of a machine.
type at struct {
	*Machine
	State int32
}

// of is what is known of the state.
func (a at) of() *state { return a.Machine.at(a.State) }

// state is what the arena knows of a machine's state.
type state struct {
	// What follows it, by the groups of its shape; nil until it is wanted.
	shape  *shape
	follow []int32
	// Its mask in the pool, as that was filled last, noMask where no token ends at it; and whether it has nothing but
	// tokens that end a completion.
	mask   int32
	end    bool
	pooled int // 0: the mask was never found

	// Where it stands since the arena was last emptied, and if it does not, which rows it follows.
	filling int
	row     int32
	lacks   []int32

	// Of the search that the arena is at.
	search int
	likely float32 // what has come to it and has not gone on
	seen   bool
}

// NewMachine makes a machine of an automaton that reads what the lane of [stopping.Walk] reads. It keeps the function,
// to make the automaton anew when that has taken too much memory.
func NewMachine(lane int, anew func() (Automaton, error)) (*Machine, error) {
	m := &Machine{Lane: lane, anew: anew}
	return m, m.renew()
}

// renew makes the automaton anew, and forgets all states.
func (m *Machine) renew() (err error) {
	m.states = nil
	m.Automaton, err = m.anew()
	return err
}

// at is what is known of a state.
func (m *Machine) at(number int32) *state {
	if int(number) >= len(m.states) {
		m.states = slices.Grow(m.states, int(number)+1-len(m.states))[:number+1]
	}
	if m.states[number] == nil {
		m.states[number] = &state{}
	}
	return m.states[number]
}

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
