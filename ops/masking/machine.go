package masking

import "slices"

// Machine is an automaton that can be placed in an [Arena]. It is used under the lock of one arena alone.
type Machine struct {
	Automaton
	Lane   int // stopping.OfText or stopping.OfTokens: what it reads of a token
	build  func() (Automaton, error)
	states []*state // the states that were reached
}

// position is a state of a machine.
type position struct {
	*Machine
	State int32
}

// known is what is known of the state.
func (a position) known() *state { return a.Machine.stateAt(a.State) }

// state is what the arena knows of a machine's state.
type state struct {
	// The states that follow it, by the groups of its shape; nil until needed.
	shape  *shape
	follow []int32
	// The number of its mask in the pool, as of the pool's last filling, or noMask if no token ends at it; and whether
	// the mask has only tokens that end a completion.
	mask   int32
	end    bool
	pooled int // 0: the mask was never found

	// Its row since the arena was last emptied, or, if it has none, the rows that it follows.
	filling int
	row     int32
	lacks   []int32

	// The fields of the arena's current search.
	search int
	likely float32 // the likelihood that reached it and was not passed on yet
	seen   bool
}

// NewMachine makes a machine of an automaton that reads what the lane of [stopping.Walk] reads. It keeps the function
// to rebuild the automaton when that has taken too much memory.
func NewMachine(lane int, build func() (Automaton, error)) (*Machine, error) {
	m := &Machine{Lane: lane, build: build}
	return m, m.renew()
}

// renew rebuilds the automaton, and forgets all states.
func (m *Machine) renew() (err error) {
	m.states = nil
	m.Automaton, err = m.build()
	return err
}

// stateAt returns what is known of a state.
func (m *Machine) stateAt(number int32) *state {
	if int(number) >= len(m.states) {
		m.states = slices.Grow(m.states, int(number)+1-len(m.states))[:number+1]
	}
	if m.states[number] == nil {
		m.states[number] = &state{}
	}
	return m.states[number]
}

// Shares of the memory that an automaton may take for its states. Machines are used up to fullShare, and then renewed.
// A text is rejected only if a new machine that has read nothing else runs out of memory. Such a machine takes at most
// about as much memory as one that has read the text among others, because known parts of an expression save some work.
// So a machine that is not full has room for each of its texts alone, and whether a text is rejected does not depend on
// other texts.
const (
	fullShare   = 0.5
	packedShare = 0.25 // of a new machine, which takes no further text then
)

// isFull reports whether a machine should be renewed before its readers continue.
func (m *Machine) isFull() bool {
	memory := m.Automaton.Memory()
	return memory.Err != nil || memory.Share > fullShare
}

// failed reports that the last results of an automaton are not reliable.
func (m *Machine) failed() bool { return m.Automaton.Memory().Err != nil }
