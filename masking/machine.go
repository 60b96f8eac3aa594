package masking

import (
	"hash/maphash"
	"slices"

	"github.com/quire/quire/stopping"
	"github.com/quire/quire/tree"
)

// Width is how many symbols a machine reads: the values of a byte.
const Width = stopping.Width

// Dead is the state behind a symbol that can not stand there.
const Dead = -1

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
}

// Machine is an automaton that can stand in an [Arena]. It is used under the lock of one arena alone.
type Machine struct {
	Automaton
	Lane   int              // stopping.OfText or stopping.OfTokens: what it reads of a token
	states []*state         // those that were met
	equal  map[uint64]*mask // by the hash of their words
}

// state is what the arena knows of a machine's state.
type state struct {
	// What follows it, by the groups of its shape; nil until it is wanted.
	shape  *shape
	follow []int32
	// Its mask, nil where no token ends at it, and whether it has nothing but tokens that end a completion.
	mask     *mask
	end      bool
	isMasked bool // mask and end are known

	// Where it stands since the arena was last emptied, and if it does not, which rows it follows.
	filling int
	row     int32
	lacks   []int32

	// Of the search that the arena is at.
	search int
	likely float32 // what has come to it and has not gone on
	seen   bool
}

// mask is the tokens that may follow.
type mask struct {
	words   []uint32
	hash    uint64
	filling int // as of a state
	number  int32
}

// hashes begins those of masks.
var hashes = maphash.MakeSeed()

// NewMachine makes a machine of an automaton that reads what the lane of [stopping.Walk] reads.
func NewMachine(a Automaton, lane int) *Machine {
	return &Machine{Automaton: a, Lane: lane, equal: map[uint64]*mask{}}
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

// maskOf finds the mask of a state. scratch has the room of one.
func (m *Machine) maskOf(number int32, scratch []uint32) *state {
	s := m.at(number)
	if s.isMasked {
		return s
	}
	clear(scratch)
	end, known := m.Mask(number, scratch)
	s = m.at(number)
	if s.isMasked = true; !known {
		return s
	}
	s.end = end
	hash := maphash.Bytes(hashes, tree.Bytes(scratch))
	found := m.equal[hash]
	if found == nil || !slices.Equal(found.words, scratch) {
		found = &mask{words: slices.Clone(scratch), hash: hash}
		m.equal[hash] = found
	}
	s.mask = found
	return s
}

// followersOf finds what follows a state.
func (m *Machine) followersOf(number int32, shapes map[groups]*shape) *state {
	s := m.at(number)
	if s.shape != nil {
		return s
	}
	var group groups
	var follow []int32
	last, lastGroup := int32(Dead), 0
	for symbol := range group {
		next := m.Next(number, byte(symbol))
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
	if shapes[group] == nil {
		shapes[group] = newShape(group, len(follow))
	}
	s = m.at(number)
	s.shape, s.follow = shapes[group], follow
	return s
}
