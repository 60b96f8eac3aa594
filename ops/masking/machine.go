package masking

import (
	"slices"

	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/text/grammar"
)

// Width is how many symbols a machine reads: the values of a byte.
const Width = stopping.Width

// Dead is the state behind a symbol that can not stand there.
const Dead = -1

// Memory is how much an automaton has taken.
type Memory = grammar.Memory

// Automaton is states, made as they are met, with the tokens that may follow each. States have numbers from 0 on, with
// few gaps.
type Automaton interface {
	// Start is the first state.
	Start() int32
	// Next is the state behind a symbol, or Dead.
	Next(state int32, symbol byte) int32
	// Mask sets the bits of the tokens that may follow a state, in words that are clear. end says that these are tokens
	// at which a completion ends, and no others. known is false where no token ends at the state.
	Mask(state int32, mask []uint32) (end, known bool)
	// Memory says how much the automaton has taken. Where that has an error, what the others returned since is not to
	// be relied on.
	Memory() Memory
}

// settler is an automaton with states that do not say all of the text behind which they are. Such a state has no mask:
// a row that comes there waits, and stands in the state that Settle returns from then on.
type settler interface {
	// Settle is the state behind a text in place of the one that Next leads to.
	Settle(state int32, read []byte) int32
}

// behind is the state behind a text, whose last symbol follows another state.
func (m *Machine) behind(state int32, read []byte) int32 {
	next := m.Next(state, read[len(read)-1])
	if s, ok := m.Automaton.(settler); ok && next != Dead {
		return s.Settle(next, read)
	}
	return next
}

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

// meet finds what may follow a state, tokens and symbols. It returns false where the machine runs out of memory.
func (a *Arena) meet(of at) bool { return a.meetMask(of) && a.meetFollowers(of) }

// meetMask finds the mask of a state.
func (a *Arena) meetMask(of at) bool {
	if of.of().pooled == a.pool.filling {
		return true
	}
	clear(a.scratch)
	end, known := of.Mask(of.State, a.scratch)
	if of.failed() {
		return false
	}
	s := of.of()
	s.mask, s.end = noMask, end
	if known {
		s.mask = a.pool.number(a.scratch)
	}
	s.pooled = a.pool.filling
	return true
}

// meetFollowers finds what follows a state.
func (a *Arena) meetFollowers(of at) bool {
	if of.of().shape != nil {
		return true
	}
	var group groups
	var follow []int32
	last, lastGroup := int32(Dead), 0
	for symbol := range group {
		next := of.Next(of.State, byte(symbol))
		if next == Dead {
			continue
		}
		if next != last { // most symbols lead where their neighbours do
			if last, lastGroup = next, slices.Index(follow, next); lastGroup < 0 {
				lastGroup = len(follow)
				follow = append(follow, next)
			}
		}
		group[symbol] = uint16(lastGroup + 1)
	}
	if of.failed() {
		return false
	}
	s := of.of()
	s.shape, s.follow = a.shapes.find(group, len(follow)), follow
	return true
}
