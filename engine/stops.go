package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/lockstep"
	"github.com/quire/quire/stopping"
	"github.com/quire/quire/tokenizer"
	"github.com/quire/quire/tree"
)

// stops is what the engine has of stop strings and of sequences of stop tokens that the device looks for.
type stops struct {
	states int               // there is room for; 0 without tables
	pieces *tokenizer.Pieces // nil where the device looks for no strings
	tables []compute.Buffer  // as program run takes them
	of     *stopping.Arena   // whose contents are there
	at     int               // their version

	mu   sync.Mutex
	sets map[string]*stopping.Set // those made lately, by what they find
}

// mostSets bounds the sets that are kept for equal stops of later requests.
const mostSets = 1024

// stopSets are the automata of a request by lane, nil where it needs none.
type stopSets [stopping.Lanes]*stopping.Set

func (s stopSets) list() (list []*stopping.Set) {
	for _, set := range s {
		if set != nil {
			list = append(list, set)
		}
	}
	return list
}

// stopSets makes the automata of a request. Strings that need more states than half of the room are left to the host.
func (a *admission) stopSets(r *Request) (sets stopSets, err error) {
	if a.stops.pieces != nil && len(r.Stop) > 0 && !r.KeepSpecialTokens { // whose texts the device does not know
		key := "text\x00" + strings.Join(r.Stop, "\x00")
		sets[stopping.OfText], err = a.stops.set(key, func(limit int) (*stopping.Automaton, error) {
			return stopping.Compile(a.stops.pieces, r.Stop, limit)
		})
		if err != nil && !errors.Is(err, stopping.ErrTooLarge) {
			return sets, err
		}
	}
	if _, sequences := a.stopTokens(r); len(sequences) > 0 {
		key := "tokens" + fmt.Sprint(sequences)
		sets[stopping.OfTokens], err = a.stops.set(key, func(limit int) (*stopping.Automaton, error) {
			return stopping.CompileTokens(sequences, limit)
		})
		if err != nil {
			return sets, fmt.Errorf("%w: %d stop tokens and sequences: %w: give fewer", ErrInvalidRequest,
				len(sequences), err)
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

// room is the arena of a run, as the scheduler knows it.
type room struct{ *stopping.Arena }

// Hold implements [schedule.Stops].
func (r room) Hold(of *schedule.Request) bool {
	return r.Arena.Hold(of.Tag.(tag).stops.list()...)
}

// Release implements [schedule.Stops].
func (r room) Release(of *schedule.Request) { r.Arena.Release(of.Tag.(tag).stops.list()...) }

// states are those that the row of an entry begins with.
func (r *room) states(entry schedule.Entry) (states [stopping.Lanes]int32) {
	if entry.StopStates != nil {
		return [stopping.Lanes]int32(entry.StopStates)
	}
	for lane, set := range entry.Request.Tag.(tag).stops {
		if states[lane] = stopping.None; set != nil {
			states[lane] = r.Start(set)
		}
	}
	return states
}

// stopsProgram is what process 0 calls new contents of the arena.
const stopsProgram = "stops"

// loadStops puts the tables of stops on the device: the texts of tokens, and an empty arena.
func (e *Engine) loadStops() error {
	shapes := e.graphs.Stops
	if shapes == nil {
		return nil
	}
	flats := []any{make([]int32, shapes.Next.Size())}
	if p := e.stops.pieces; p != nil {
		bytes := make([]int32, len(p.Bytes))
		for i, b := range p.Bytes {
			bytes[i] = int32(b)
		}
		flats = append(flats, bytes, p.Starts)
	}
	for i, leaf := range e.program(device.Run).Resident[:len(flats)] {
		b, err := toDevices(e.cfg.Backend, leaf, flats[i])
		if err != nil {
			return fmt.Errorf("%s: %w", leaf.Name, err)
		}
		e.stops.tables = append(e.stops.tables, b)
	}
	return nil
}

// placeStops brings the arena of a run to the device, if it has other contents than are there.
func (e *Engine) placeStops(a *stopping.Arena) error {
	table, version := a.Table()
	if version == 0 || a == e.stops.of && version == e.stops.at {
		return nil
	}
	announced := &device.Compiled{Program: device.Program{Name: stopsProgram}}
	err := e.inStep.announce(announced, [][]byte{tree.Bytes(table)}, nil)
	if err == nil {
		err = e.replaceStops(table)
	}
	if err != nil {
		return err
	}
	e.stops.of, e.stops.at = a, version
	return nil
}

// replaceStops gives the device another arena.
func (e *Engine) replaceStops(table []int32) error {
	leaf := e.program(device.Run).Resident[0]
	b, err := toDevices(e.cfg.Backend, leaf, table)
	if err != nil {
		return fmt.Errorf("%s: %w", leaf.Name, err)
	}
	_ = e.stops.tables[0].Finalize()
	e.stops.tables[0] = b
	return nil
}

// followStops is replaceStops for processes other than 0.
func (e *Engine) followStops(sent [][]byte) error {
	if e.graphs.Stops == nil || len(sent) != 1 {
		return errors.New("process 0 gives stops that this process has no room for")
	}
	table := make([]int32, e.graphs.Stops.Next.Size())
	if to := tree.Bytes(table); len(to) != len(sent[0]) {
		return errors.New("process 0 gives an arena of stops of another size than is wanted here")
	}
	copy(tree.Bytes(table), sent[0])
	return e.replaceStops(table)
}

// facts are what processes must agree on.
func (s *stops) facts() []lockstep.Fact {
	if s.pieces == nil {
		return nil
	}
	h := sha256.New()
	h.Write(s.pieces.Bytes)
	h.Write(tree.Bytes(s.pieces.Starts))
	return []lockstep.Fact{{Name: "the tokenizer's tokens", Value: hex.EncodeToString(h.Sum(nil)[:8])}}
}
