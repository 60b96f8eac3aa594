package admit

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/text/tokenizer"
)

// stops makes the automata that look for stop strings and sequences of stop tokens on the device.
type stops struct {
	states int               // states that there is room for; 0 without tables
	pieces *tokenizer.Pieces // nil if the device looks for no strings

	mu   sync.Mutex               // guards sets
	sets map[string]*stopping.Set // those made recently, by what they find
}

// newStops makes the stops of tables, which may be nil.
func newStops(tables *device.StopTables, pieces *tokenizer.Pieces) *stops {
	s := &stops{sets: map[string]*stopping.Set{}}
	if tables != nil {
		s.states, s.pieces = tables.Next.Dimensions[0], pieces
	}
	return s
}

// mostSets bounds the sets that are kept for equal stops of later requests.
const mostSets = 1024

// StopSets are the automata of a request by lane, nil if it needs none.
type StopSets [stopping.Lanes]*stopping.Set

func (s StopSets) list() (list []*stopping.Set) {
	for _, set := range s {
		if set != nil {
			list = append(list, set)
		}
	}
	return list
}

// automata makes the automata of a request. Strings that need more states than half of the room are left to the host.
func (s *stops) automata(r *Request, sequences [][]int32) (sets StopSets, err error) {
	if s.pieces != nil && len(r.Stop) > 0 && !r.KeepSpecialTokens { // the device lacks their texts
		key := "text\x00" + strings.Join(r.Stop, "\x00")
		sets[stopping.OfText], err = s.set(key, func(limit int) (*stopping.Automaton, error) {
			return stopping.Compile(s.pieces, r.Stop, limit)
		})
		if err != nil && !errors.Is(err, stopping.ErrTooLarge) {
			return sets, err
		}
	}
	if len(sequences) > 0 {
		key := "tokens" + fmt.Sprint(sequences)
		sets[stopping.OfTokens], err = s.set(key, func(limit int) (*stopping.Automaton, error) {
			return stopping.CompileTokens(sequences, limit)
		})
		if err != nil {
			return sets, refuse("%d stop tokens and sequences: %w: give fewer", len(sequences), err)
		}
	}
	return sets, nil
}

// set is the set of a key, which make makes.
func (s *stops) set(key string, make func(limit int) (*stopping.Automaton, error)) (*stopping.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.sets[key]; set != nil {
		return set, nil
	}
	a, err := make(s.states / stopping.Lanes)
	if err != nil {
		return nil, err
	}
	if len(s.sets) >= mostSets {
		clear(s.sets)
	}
	set := &stopping.Set{Key: key, Automaton: a}
	s.sets[key] = set
	return set, nil
}
