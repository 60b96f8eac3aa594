package engine

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/grammar"
	"github.com/quire/quire/grammar/jsontext"
	"github.com/quire/quire/grammar/schema"
	"github.com/quire/quire/masking"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/stopping"
)

// masks is what the engine has of the masks of tokens.
type masks struct {
	sizes feature.MaskSizes
	arena *masking.Arena
	texts []compute.Buffer // of tokens, as program run takes them

	vocabulary func() (*masking.Vocabulary, error) // made with the first request that needs it
	mu         sync.Mutex
	machines   map[string]machine // those made lately, by what they let through
	rows       []*masked          // of slots
	bound      int                // bytes that the states of a structure may take; 0: as package grammar has it
}

// machine is what became of a constraint.
type machine struct {
	*masking.Machine
	err error
}

// Bounds of the machines that are kept for equal constraints of later requests: their number and memory.
const (
	mostMachines      = 4096
	mostMachineMemory = 2 << 30
)

// maskedRequest is a request with masks.
type maskedRequest struct {
	machines [stopping.Lanes]*masking.Machine // nil where it needs none
	request  *Request
	deadEnds sync.Map // of generations: errors
}

// masked is a completion with masks, and where it stands.
type masked struct {
	*maskedRequest
	generation int
	at         [stopping.Lanes]*masking.Reader // nil where it needs none
	tokens     int                             // drawn
	ended      bool
}

// Errors of constraints.
var (
	// ErrDeadEnd says that no token may follow what was drawn: the vocabulary has none that the request lets stand
	// there.
	ErrDeadEnd = errors.New("no token may follow")
	// ErrStructureTooLarge says that what a completion has drawn takes more memory, with the states of its structure,
	// than one may take.
	ErrStructureTooLarge = errors.New("the structure is too large")
	// ErrMasks says that the device drew a token that the host does not let stand there: a fault of the engine.
	ErrMasks = errors.New("device and host differ in which tokens may come, please report this")
)

// newMasks makes what a program with masks needs.
func newMasks(c Config, sizes feature.MaskSizes) masks {
	return masks{sizes: sizes, arena: masking.New(sizes.Sizes), machines: map[string]machine{},
		vocabulary: sync.OnceValues(func() (*masking.Vocabulary, error) {
			if c.Tokenizer == nil {
				return nil, errors.New("it needs a tokenizer")
			}
			pieces, err := c.Tokenizer.Pieces()
			if err != nil {
				return nil, err
			}
			return masking.NewVocabulary(pieces, c.Model.Config.VocabSize, c.Model.Config.EOS), nil
		})}
}

// maskedRequest makes the machines of a request; nil where it has none.
func (a *admission) maskedRequest(r *Request) (*maskedRequest, error) {
	m := &maskedRequest{request: r}
	if r.Structure != (parameter.Structure{}) {
		switch {
		case r.IgnoreEOS:
			return nil, invalid("ignore_eos", "ignore_eos with a structure: its text must be able to end")
		case len(a.cfg.Model.Config.EOS) == 0:
			return nil, fmt.Errorf("%w: a structure with a model that has no end-of-sequence token", ErrInvalidRequest)
		}
		of := a.masks.machine(keyOf(r.Structure), stopping.OfText, func() (masking.Automaton, error) {
			v, err := a.masks.vocabulary()
			if err != nil {
				return nil, err
			}
			automaton, err := compileStructure(r.Structure)
			if err != nil {
				return nil, err
			}
			if a.masks.bound > 0 {
				automaton.Bound(a.masks.bound)
			}
			return masking.NewText(automaton, v), nil
		})
		if of.err != nil {
			return nil, invalid("structured_outputs", "structured output by %s: %w; mend it or leave it out",
				r.Structure.Kind, of.err)
		}
		m.machines[stopping.OfText] = of.Machine
	}
	if r.AllowedTokens != nil || len(r.BadWords) > 0 {
		if err := a.checkMasks(r); err != nil {
			return nil, err
		}
		key := fmt.Sprint("tokens", r.AllowedTokens, r.AllowedTokens == nil, r.BadWords)
		of := a.masks.machine(key, stopping.OfTokens, func() (masking.Automaton, error) {
			return masking.NewTokens(a.cfg.Model.Config.VocabSize, r.AllowedTokens, r.BadWords, a.masks.sizes.States/2)
		})
		if of.err != nil {
			return nil, invalid("bad_words", "bad_words: %w: give fewer", of.err)
		}
		m.machines[stopping.OfTokens] = of.Machine
	}
	if m.machines == [stopping.Lanes]*masking.Machine{} {
		return nil, nil
	}
	return m, nil
}

// checkMasks says what is wrong with the lists of tokens of a request.
func (a *admission) checkMasks(r *Request) error {
	vocabulary := int32(a.cfg.Model.Config.VocabSize)
	isToken := func(t int32) bool { return t >= 0 && t < vocabulary }
	for i, t := range r.AllowedTokens {
		if !isToken(t) {
			return invalid("allowed_token_ids", "allowed_token_ids[%d] is %d, the vocabulary has 0 to %d", i, t,
				vocabulary-1)
		}
	}
	if r.AllowedTokens != nil && len(r.AllowedTokens) == 0 {
		return invalid("allowed_token_ids", "allowed_token_ids is empty: no token could be generated")
	}
	for i, word := range r.BadWords {
		if len(word) == 0 || !each(word, isToken) {
			return invalid("bad_words", "bad_words[%d] has the tokens %v: it needs at least one, of 0 to %d", i, word,
				vocabulary-1)
		}
	}
	return nil
}

func each(list []int32, is func(int32) bool) bool {
	return !slices.ContainsFunc(list, func(x int32) bool { return !is(x) })
}

// CheckStructure returns what is wrong with a structure, whatever the model.
func CheckStructure(s parameter.Structure) error {
	if s == (parameter.Structure{}) {
		return nil
	}
	_, err := compileStructure(s)
	return err
}

// keyOf is what equal structures have in common.
func keyOf(s parameter.Structure) string { return s.String() }

// compileStructure makes the automaton of a structure.
func compileStructure(s parameter.Structure) (*grammar.Automaton, error) {
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

// machine is the machine of a key, whose automaton make makes.
func (m *masks) machine(key string, lane int, make func() (masking.Automaton, error)) machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	of, ok := m.machines[key]
	if !ok {
		if of.Machine, of.err = masking.NewMachine(lane, make); of.err == nil {
			m.arena.Mask(m.arena.Start(of.Machine)) // before the run waits for it
		}
		if len(m.machines) >= mostMachines || m.arena.Memory(m.known()) > mostMachineMemory {
			clear(m.machines)
		}
		m.machines[key] = of
	}
	return of
}

// known are the machines that are kept.
func (m *masks) known() iter.Seq[*masking.Machine] {
	return func(yield func(*masking.Machine) bool) {
		for _, of := range m.machines {
			if of.err == nil && !yield(of.Machine) {
				return
			}
		}
	}
}

// maskStates are those that rows have in a call.
type maskStates struct {
	slots, entries [][stopping.Lanes]int32
	waiting        []*masked // of the entries
}

// begin places the states of the slots that stand, and of the entries that wait.
func (m *masks) begin(in *schedule.Input) (s maskStates, err error) {
	for row, release := range in.Release[:len(m.rows)] {
		if release {
			m.rows[row] = nil
		}
	}
	s.waiting = make([]*masked, len(in.Waiting))
	for i, entry := range in.Waiting {
		of := entry.Request.Tag.(tag).masks
		if of == nil {
			continue
		}
		row := &masked{maskedRequest: of, generation: entry.Generation}
		for lane, machine := range of.machines {
			if machine != nil {
				row.at[lane] = m.arena.Start(machine)
			}
		}
		for _, token := range entry.Drawn {
			if err := m.draw(row, token); err != nil {
				return s, err
			}
		}
		s.waiting[i] = row
	}
	var readers []*masking.Reader
	all := slices.Concat(m.rows, s.waiting)
	for _, row := range all {
		for lane := range stopping.Lanes {
			if row != nil && row.at[lane] != nil {
				readers = append(readers, row.at[lane])
			}
		}
	}
	rows, err := m.arena.Place(readers)
	if err != nil {
		return s, err
	}
	placed := make([][stopping.Lanes]int32, len(all))
	for i, row := range all {
		placed[i] = feature.NoStates
		for lane := range stopping.Lanes {
			if row != nil && row.at[lane] != nil {
				placed[i][lane], rows = rows[0], rows[1:]
			}
		}
	}
	s.slots, s.entries = placed[:len(m.rows)], placed[len(m.rows):]
	return s, nil
}

// walk takes a completion through a token that it drew. It returns false where that can not stand there.
func (m *masks) walk(row *masked, token int32) bool {
	row.tokens++
	for lane, at := range row.at {
		if at == nil {
			continue
		}
		symbols := stopping.TokenSymbols(token)
		if lane == stopping.OfText {
			v, _ := m.vocabulary()
			symbols = v.Of(token)
		}
		if !m.arena.Walk(at, symbols) {
			return false
		}
	}
	return true
}

// draw takes a completion through a token that the device drew.
func (m *masks) draw(row *masked, token int32) error {
	if !m.walk(row, token) {
		return fmt.Errorf("%w: token %d of a completion of request %q is %d", ErrMasks, row.tokens, row.request.ID,
			token)
	}
	return nil
}

// settle takes the rows to where a call left them. A slot may have had several of the entries that waited, one after
// the other in any order: the one that did not end stands there.
func (m *masks) settle(s maskStates, got *schedule.Output, stopTokens func(*Request) []int32) error {
	for i, id := range got.Owners {
		var row *masked
		switch n := int32(len(got.Placed)); {
		case id >= n:
			row = m.rows[id-n]
		case id >= 0:
			row = s.waiting[id]
		}
		if row == nil {
			continue
		}
		switch schedule.Finish(got.Finish[i]) {
		case schedule.Running:
			if err := m.draw(row, got.Tokens[i]); err != nil {
				return err
			}
			continue
		case schedule.NotANumber:
			m.noteDeadEnd(row, stopTokens(row.request))
		}
		row.ended = true
	}
	for slot, row := range m.rows {
		if row != nil && row.ended {
			m.rows[slot] = nil
		}
	}
	for i, row := range s.waiting {
		if slot := got.Placed[i]; slot >= 0 && row != nil && !row.ended {
			m.rows[slot] = row
		}
	}
	return nil
}

// noteDeadEnd notes that a completion ended because no token may follow, if that is why it has none.
func (m *masks) noteDeadEnd(row *masked, stopTokens []int32) {
	var all [][]uint32
	for _, at := range row.at {
		if at == nil {
			continue
		}
		if err := at.Err(); err != nil {
			row.deadEnds.Store(row.generation, fmt.Errorf("%w: token %d of the completion, %w: simplify the structure",
				ErrStructureTooLarge, row.tokens, err))
			return
		}
		all = append(all, m.arena.Mask(at))
	}
	left := masking.Common(all...)
	if row.tokens < row.request.Sampling.MinTokens {
		for _, token := range stopTokens {
			left = masking.Without(left, token)
		}
	}
	if masking.Count(left) == 0 {
		row.deadEnds.Store(row.generation, fmt.Errorf("%w token %d of the completion: the structure, "+
			"allowed_token_ids, bad_words and min_tokens together leave none", ErrDeadEnd, row.tokens))
	}
}

// fillAhead fills states that rows may come to, until the function that it returns is called.
func (m *masks) fillAhead() (end func()) {
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.arena.Ahead(stop.Load)
	}()
	return func() {
		stop.Store(true)
		<-done
	}
}

// loadMaskTexts puts the texts of tokens on the device, if the program run takes them and they are not there.
func (e *Engine) loadMaskTexts() error {
	if !e.graphs.Features.Has(MaskedTokens) || e.masks.texts != nil {
		return nil
	}
	leaves := e.program(device.Run).Resident
	leaves = leaves[len(leaves)-2:]
	bytes, starts := make([]int32, leaves[0].Shape.Size()), make([]int32, leaves[1].Shape.Size())
	if v, err := e.masks.vocabulary(); err == nil {
		for i, b := range v.Bytes {
			bytes[i] = int32(b)
		}
		copy(starts, v.Starts)
	}
	for i, flat := range [][]int32{bytes, starts} {
		b, err := toDevices(e.cfg.Backend, leaves[i], flat)
		if err != nil {
			return fmt.Errorf("%s: %w", leaves[i].Name, err)
		}
		e.masks.texts = append(e.masks.texts, b)
	}
	return nil
}
