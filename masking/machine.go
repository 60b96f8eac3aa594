package masking

import "github.com/quire/quire/stopping"

// Width is how many symbols a machine reads: the values of a byte.
const Width = stopping.Width

// Dead is the state behind a symbol that can not stand there.
const Dead = -1

// Automaton is states, made as they are met, with the tokens that may follow each.
type Automaton interface {
	// Start is the first state.
	Start() int32
	// Next is the state behind a symbol, or Dead.
	Next(state int32, symbol byte) int32
	// Mask sets the bits of the tokens that may follow a state, in words that are clear. end says that these are tokens
	// at which a completion ends, and no others. known is false where no token ends at the state.
	Mask(state int32, mask []uint32) (end, known bool)
}

// Machine is an automaton that can stand in an [Arena]. It is used under the lock of one arena alone.
type Machine struct {
	Automaton
	Lane  int              // stopping.OfText or stopping.OfTokens: what it reads of a token
	masks map[int32]*mask  // of states
	equal map[string]*mask // by content
}

// mask is the tokens that may follow.
type mask struct {
	words []uint32
	end   bool
	key   string // the words
}

// NewMachine makes a machine of an automaton that reads what the lane of [stopping.Walk] reads.
func NewMachine(a Automaton, lane int) *Machine {
	return &Machine{Automaton: a, Lane: lane, masks: map[int32]*mask{}, equal: map[string]*mask{}}
}

// mask is that of a state, or nil where no token ends at it.
func (m *Machine) mask(state int32, words int) *mask {
	if found, ok := m.masks[state]; ok {
		return found
	}
	of := &mask{words: make([]uint32, words)}
	end, known := m.Mask(state, of.words)
	if !known {
		of = nil
	} else if of.key = key(of.words, end); m.equal[of.key] != nil {
		of = m.equal[of.key]
	} else {
		of.end = end
		m.equal[of.key] = of
	}
	m.masks[state] = of
	return of
}

// walk is the state behind symbols, or Dead.
func (m *Machine) walk(state int32, symbols []byte) int32 {
	for _, symbol := range symbols {
		if state == Dead {
			return Dead
		}
		state = m.Next(state, symbol)
	}
	return state
}
