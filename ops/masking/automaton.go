package masking

import (
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/text/grammar"
)

// Width is how many symbols a machine reads: the values of a byte.
const Width = stopping.Width

// Dead is the state after a symbol that is not allowed.
const Dead = -1

// Memory is how much an automaton has taken.
type Memory = grammar.Memory

// Automaton is states, made as they are met, with the tokens that may follow each. States have numbers from 0 on, with
// few gaps.
type Automaton interface {
	// Start is the first state.
	Start() int32
	// Next returns the state after a symbol, or Dead.
	Next(state int32, symbol byte) int32
	// Mask sets the bits of the tokens that may follow a state, in words that are clear. end reports that only tokens
	// that end a completion may follow. known is false if no token ends at the state.
	Mask(state int32, mask []uint32) (end, known bool)
	// Memory returns how much memory the automaton has taken. If it has an error, results of the other methods since
	// are not reliable.
	Memory() Memory
}

// settler is an automaton with states that do not determine which tokens may follow. Such a state has no mask: a row
// that reaches it waits, and is in the state that Settle returns from then on.
type settler interface {
	// Settle returns the state after a text, in place of the one that Next leads to.
	Settle(state int32, read []byte) int32
}

// nothing is an automaton of one state, in which no token may follow.
type nothing struct{}

func (nothing) Start() int32 { return 0 }

func (nothing) Next(int32, byte) int32 { return Dead }

func (nothing) Mask(int32, []uint32) (_, known bool) { return false, true }

func (nothing) Memory() (m Memory) { return m }
