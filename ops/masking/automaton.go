package masking

import (
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

// nothing is an automaton of one state, in which no token may follow.
type nothing struct{}

func (nothing) Start() int32 { return 0 }

func (nothing) Next(int32, byte) int32 { return Dead }

func (nothing) Mask(int32, []uint32) (_, known bool) { return false, true }

func (nothing) Memory() (m Memory) { return m }
