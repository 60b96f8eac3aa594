package masks

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/stopping"
)

// Request is what the host keeps of a request with masks.
type Request struct {
	ID        string
	MinTokens int
	// Machines are by lane, nil if the request needs none.
	Machines   [stopping.Lanes]*masking.Machine
	StopTokens []int32 // stop tokens of its rows

	deadEnds sync.Map // errors by generation
}

// DeadEnd returns why a completion ended because no token may follow; nil if it did not.
func (r *Request) DeadEnd(generation int) error {
	err, _ := r.deadEnds.Load(generation)
	known, _ := err.(error)
	return known
}

// Errors of constraints.
var (
	// ErrDeadEnd means that no token may follow: the vocabulary has none that the request allows at this place.
	ErrDeadEnd = errors.New("no token may follow")
	// ErrStructureTooLarge means that what a completion has generated takes more memory, with the states of its
	// structure, than one may take.
	ErrStructureTooLarge = errors.New("the structure is too large")
	// ErrMasks means that the device generated a token that the host does not allow there: a fault of the engine.
	ErrMasks = errors.New("device and host differ in which tokens may come, please report this")
)

// Rows follow the completions of a run through their machines.
type Rows struct {
	masks     *Masks
	requestOf func(*schedule.Request) *Request
	slots     []*sequence // nil for rows without masks
}

// sequence is a completion with masks, and its state in them.
type sequence struct {
	*Request
	generation int
	readers    [stopping.Lanes]*masking.Reader // nil if it needs none
	tokens     int                             // generated
	ended      bool
}

// NewRows makes the rows of a run. requestOf returns what a request of the scheduler has of masks; nil for none.
func NewRows(m *Masks, slots int, requestOf func(*schedule.Request) *Request) *Rows {
	return &Rows{masks: m, requestOf: requestOf, slots: make([]*sequence, slots)}
}

// States are the states of the rows in a call.
type States struct {
	Slots, Entries [][stopping.Lanes]int32
	waiting        []*sequence // of the entries
}

// Begin places the states of the rows in slots, and of the entries that wait.
func (r *Rows) Begin(in *schedule.Input) (s States, err error) {
	for row, release := range in.Release[:len(r.slots)] {
		if release {
			r.slots[row] = nil
		}
	}
	s.waiting = make([]*sequence, len(in.Waiting))
	for i, entry := range in.Waiting {
		request := r.requestOf(entry.Request)
		if request == nil {
			continue
		}
		row := &sequence{Request: request, generation: entry.Generation}
		for lane, machine := range request.Machines {
			if machine != nil {
				row.readers[lane] = r.masks.Arena.Start(machine)
			}
		}
		for _, token := range entry.Drawn {
			if err := r.advance(row, token); err != nil {
				return s, err
			}
		}
		s.waiting[i] = row
	}
	var readers []*masking.Reader
	all := slices.Concat(r.slots, s.waiting)
	for _, row := range all {
		for lane := range stopping.Lanes {
			if row != nil && row.readers[lane] != nil {
				readers = append(readers, row.readers[lane])
			}
		}
	}
	rows, err := r.masks.Arena.Place(readers)
	if err != nil {
		return s, err
	}
	placed := make([][stopping.Lanes]int32, len(all))
	for i, row := range all {
		placed[i] = feature.NoStates
		for lane := range stopping.Lanes {
			if row != nil && row.readers[lane] != nil {
				placed[i][lane], rows = rows[0], rows[1:]
			}
		}
	}
	s.Slots, s.Entries = placed[:len(r.slots)], placed[len(r.slots):]
	return s, nil
}

// walk takes a completion through a token. It reports whether the token may stand there.
func (r *Rows) walk(row *sequence, token int32) bool {
	row.tokens++
	for lane, reader := range row.readers {
		if reader == nil {
			continue
		}
		symbols := stopping.TokenSymbols(token)
		if lane == stopping.OfText {
			v, _ := r.masks.Vocabulary()
			symbols = v.Of(token)
		}
		if !r.masks.Arena.Walk(reader, symbols) {
			return false
		}
	}
	return true
}

// advance takes a completion through a token that the device generated.
func (r *Rows) advance(row *sequence, token int32) error {
	if !r.walk(row, token) {
		return fmt.Errorf("%w: token %d of a completion of request %q is %d", ErrMasks, row.tokens, row.ID, token)
	}
	return nil
}

// Settle moves the rows to the states in which a call left them. A slot may have had several of the waiting entries,
// one after the other in any order. The one that did not end has the slot afterwards.
func (r *Rows) Settle(s States, output *schedule.Output) error {
	for i, id := range output.Owners {
		var row *sequence
		switch n := int32(len(output.Placed)); {
		case id >= n:
			row = r.slots[id-n]
		case id >= 0:
			row = s.waiting[id]
		}
		if row == nil {
			continue
		}
		switch schedule.Finish(output.Finish[i]) {
		case schedule.Running:
			if err := r.advance(row, output.Tokens[i]); err != nil {
				return err
			}
			continue
		case schedule.NotANumber:
			r.noteDeadEnd(row)
		}
		row.ended = true
	}
	for slot, row := range r.slots {
		if row != nil && row.ended {
			r.slots[slot] = nil
		}
	}
	for i, row := range s.waiting {
		if slot := output.Placed[i]; slot >= 0 && row != nil && !row.ended {
			r.slots[slot] = row
		}
	}
	return nil
}

// noteDeadEnd notes that a completion ended because no token may follow, if that is why it has none.
func (r *Rows) noteDeadEnd(row *sequence) {
	var all [][]uint32
	for _, reader := range row.readers {
		if reader == nil {
			continue
		}
		if err := reader.Err(); err != nil {
			row.deadEnds.Store(row.generation, fmt.Errorf("%w: token %d of the completion, %w: simplify the structure",
				ErrStructureTooLarge, row.tokens, err))
			return
		}
		all = append(all, r.masks.Arena.Mask(reader))
	}
	left := masking.Common(all...)
	if row.tokens < row.MinTokens {
		for _, token := range row.StopTokens {
			left = masking.Without(left, token)
		}
	}
	if masking.Count(left) == 0 {
		row.deadEnds.Store(row.generation, fmt.Errorf("%w token %d of the completion: the structure, "+
			"allowed_token_ids, bad_words and min_tokens together leave none", ErrDeadEnd, row.tokens))
	}
}
