// Package masks decides which tokens completions may generate next, on the host's side: it makes the machines of
// requests with a structure or with lists of tokens, and follows the state of completions in them. Package masking runs
// the machines; engine/device/feature has their part on the device.
package masks

import (
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/text/grammar"
	"github.com/quire/quire/text/grammar/jsontext"
	"github.com/quire/quire/text/grammar/schema"
	"github.com/quire/quire/text/tokenizer"
)

// Masks are the machines that the requests of an engine have in common.
type Masks struct {
	// Arena has the states and masks as the device has them.
	Arena *masking.Arena
	// Vocabulary is made with the first request that needs it. It fails without a tokenizer.
	Vocabulary func() (*masking.Vocabulary, error)
	// Bound is the memory in bytes that the states of a structure may take; 0 for the bound of package grammar.
	Bound int

	maxStates int        // limit for the machine of a request's lists of tokens
	mu        sync.Mutex // guards machines
	// machines are those made recently, by what they allow: most rows of a job have the same.
	machines map[string]machine
}

// machine is a machine, or why there is none.
type machine struct {
	*masking.Machine
	err error
}

// Bounds of the machines that are kept for equal constraints of later requests: their number and memory.
const (
	mostMachines      = 4096
	mostMachineMemory = 2 << 30
)

// New makes the machines' store of a model with a tokenizer, which may be nil.
func New(model models.Config, tok *tokenizer.Tokenizer, sizes feature.MaskSizes) *Masks {
	return &Masks{Arena: masking.New(sizes.Sizes), maxStates: sizes.States / 2, machines: map[string]machine{},
		Vocabulary: sync.OnceValues(func() (*masking.Vocabulary, error) {
			if tok == nil {
				return nil, errors.New("it needs a tokenizer")
			}
			pieces, err := tok.Pieces()
			if err != nil {
				return nil, err
			}
			return masking.NewVocabulary(pieces, model.VocabSize, model.EOS), nil
		})}
}

// Structure returns the machine of a structure.
func (m *Masks) Structure(s parameter.Structure) (*masking.Machine, error) {
	entry := m.machine(s.String(), stopping.OfText, func() (masking.Automaton, error) {
		v, err := m.Vocabulary()
		if err != nil {
			return nil, err
		}
		automaton, err := Compile(s)
		if err != nil {
			return nil, err
		}
		if m.Bound > 0 {
			automaton.Bound(m.Bound)
		}
		return masking.NewText(automaton, v), nil
	})
	return entry.Machine, entry.err
}

// Tokens returns the machine of the tokens that a request allows, nil for all, and of the sequences that it forbids.
func (m *Masks) Tokens(vocabulary int, allowed []int32, forbidden [][]int32) (*masking.Machine, error) {
	key := fmt.Sprint("tokens", allowed, allowed == nil, forbidden)
	entry := m.machine(key, stopping.OfTokens, func() (masking.Automaton, error) {
		return masking.NewTokens(vocabulary, allowed, forbidden, m.maxStates)
	})
	return entry.Machine, entry.err
}

// machine returns the machine of a key, and makes it if it is not there.
func (m *Masks) machine(key string, lane int, make func() (masking.Automaton, error)) machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry, ok := m.machines[key]
	if !ok {
		if entry.Machine, entry.err = masking.NewMachine(lane, make); entry.err == nil {
			m.Arena.Mask(m.Arena.Start(entry.Machine)) // now, so that the run does not wait for it
		}
		if len(m.machines) >= mostMachines || m.Arena.Memory(m.known()) > mostMachineMemory {
			clear(m.machines)
		}
		m.machines[key] = entry
	}
	return entry
}

// known are the machines that are kept.
func (m *Masks) known() iter.Seq[*masking.Machine] {
	return func(yield func(*masking.Machine) bool) {
		for _, entry := range m.machines {
			if entry.err == nil && !yield(entry.Machine) {
				return
			}
		}
	}
}

// FillAhead fills states that rows may reach, until the function that it returns is called.
func (m *Masks) FillAhead() (end func()) {
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Arena.Ahead(stop.Load)
	}()
	return func() {
		stop.Store(true)
		<-done
	}
}

// Check returns what is wrong with a structure, for any model.
func Check(s parameter.Structure) error {
	if s == (parameter.Structure{}) {
		return nil
	}
	_, err := Compile(s)
	return err
}

// Compile makes the automaton of a structure.
func Compile(s parameter.Structure) (*grammar.Automaton, error) {
	o := grammar.Options{Schema: schema.Options{AnyOrder: s.AnyOrder, Closed: !s.AdditionalProperties}}
	if s.Compact {
		o.Whitespace = jsontext.NoSpace
	}
	switch s.Kind {
	case parameter.SchemaStructure:
		return grammar.JSONSchema([]byte(s.Text), o)
	case parameter.CallStructure:
		return grammar.Alternatives([]byte(s.Text), o)
	case parameter.ObjectStructure:
		return grammar.JSONObject(o)
	case parameter.RegexStructure:
		return grammar.Regex(s.Text)
	case parameter.ChoiceStructure:
		return grammar.Choices(s.Choices())
	case parameter.GrammarStructure:
		return grammar.GBNF(s.Text)
	}
	return nil, fmt.Errorf("a structure of the kind %q is not supported", s.Kind)
}
