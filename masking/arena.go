package masking

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"github.com/quire/quire/tree"
)

// Unknown is the row of all states that the arena does not have.
const Unknown = 0

// Sizes are those of an arena.
type Sizes struct {
	States int // rows of states, Unknown with them
	Masks  int
	Words  int // of a mask: see sampling.MaskWords
	// PatchStates and PatchMasks are how many rows of states and masks a call takes.
	PatchStates, PatchMasks int
}

// Arena is the host's account of the tables that machines stand in, on the device. Its methods may be called by several
// goroutines.
type Arena struct {
	Sizes
	mu     sync.Mutex
	next   []int32 // i32[States, Width]: rows
	info   []int32 // i32[States]: see Info
	bits   []uint32
	used   int // rows of states
	masks  map[string]int32
	at     map[*Machine]map[int32]int32 // rows of states
	of     []At                         // of rows
	filled []bool

	// What the device does not have yet. stale says that it has what was forgotten.
	stale       bool
	dirtyStates []int32
	isDirty     []bool // of rows of states
	maskIsDirty []bool

	present     []int32 // the rows that were placed last
	soon, later []int32 // rows to fill, those that the present ones may come to soon first
	flushes     int
}

// At is a state of a machine.
type At struct {
	*Machine
	State int32
}

// New makes an empty arena.
func New(s Sizes) *Arena {
	a := &Arena{Sizes: s, next: make([]int32, s.States*Width), info: make([]int32, s.States),
		bits: make([]uint32, s.Masks*s.Words), of: make([]At, s.States), filled: make([]bool, s.States),
		isDirty: make([]bool, s.States), maskIsDirty: make([]bool, s.Masks)}
	a.reset()
	return a
}

// reset forgets all states.
func (a *Arena) reset() {
	clear(a.next)
	clear(a.info)
	clear(a.of)
	clear(a.filled)
	clear(a.isDirty)
	clear(a.maskIsDirty)
	a.used, a.masks, a.at = 1, map[string]int32{}, map[*Machine]map[int32]int32{}
	a.dirtyStates, a.present, a.soon, a.later = nil, nil, nil, nil
	a.stale = true
}

// Forget forgets all states: the device's tables are others now.
func (a *Arena) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reset()
}

// Info is what a row's entry of the array of that name says: whether its mask is known, which it is, and whether only
// tokens that end a completion may follow.
func Info(entry int32) (mask int32, end, known bool) { return entry/2 - 1, entry%2 == 1, entry > 0 }

// Place returns the rows of states, each with its mask. Where there is no room for all it forgets the others, and gives
// each of them another row. It is an error where they do not fit even so.
func (a *Arena) Place(states []At) ([]int32, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rows := make([]int32, len(states))
	for try := range 2 {
		ok := true
		for i, s := range states {
			if rows[i], ok = a.place(s); !ok {
				break
			}
		}
		if ok {
			a.present, a.soon = slices.Clone(rows), nil
			return rows, nil
		}
		if try == 0 {
			a.reset()
			a.flushes++
		}
	}
	return nil, fmt.Errorf("%d rows do not fit into %d states and %d masks: make Config.MaskStates larger", len(states),
		a.States, a.Masks)
}

// Walk is the state behind symbols.
func (a *Arena) Walk(from At, symbols []byte) At {
	a.mu.Lock()
	defer a.mu.Unlock()
	return At{from.Machine, from.walk(from.State, symbols)}
}

// Start is the first state of a machine.
func (a *Arena) Start(m *Machine) At {
	a.mu.Lock()
	defer a.mu.Unlock()
	return At{m, m.Automaton.Start()}
}

// Mask are the tokens of a state, nil where it has none.
func (a *Arena) Mask(s At) []uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m := s.mask(s.State, a.Words); m != nil {
		return m.words
	}
	return nil
}

// place gives a state a row and fills it.
func (a *Arena) place(s At) (int32, bool) {
	row, ok := a.row(s, true)
	return row, ok && a.fill(row)
}

// perMachine is up to how many states a machine has filled in advance, those apart that its rows may come to soon.
const perMachine = 512

// speculative is the part of the arena that states which no row is in may take, in quarters.
const speculative = 3

// row is the row of a state, a new one if need be. Those for what only may follow leave room for others.
func (a *Arena) row(s At, needed bool) (int32, bool) {
	rows := a.at[s.Machine]
	if row, ok := rows[s.State]; ok {
		return row, true
	}
	room := a.States
	if !needed {
		room = a.States * speculative / 4
	}
	if a.used >= room {
		return Unknown, false
	}
	if rows == nil {
		rows = map[int32]int32{}
		a.at[s.Machine] = rows
	}
	row := int32(a.used)
	a.used++
	rows[s.State], a.of[row] = row, s
	return row, true
}

// fill says what follows a row's state. It returns false where there is no room for its mask.
func (a *Arena) fill(row int32) bool {
	if a.filled[row] {
		return true
	}
	s := a.of[row]
	if m := s.mask(s.State, a.Words); m != nil {
		mask, ok := a.placeMask(m)
		if !ok {
			return false
		}
		a.info[row] = 2 * (mask + 1)
		if m.end {
			a.info[row]++
		}
	}
	last, lastRow := int32(Dead), int32(Unknown)
	to := a.next[int(row)*Width:][:Width]
	for symbol := range to {
		next := s.Next(s.State, byte(symbol))
		if next == Dead {
			continue
		}
		if next != last { // most symbols lead where their neighbours do
			before := a.used
			last, lastRow = next, Unknown
			if r, ok := a.row(At{s.Machine, next}, false); ok {
				lastRow = r
			}
			if a.used > before && len(a.at[s.Machine]) < perMachine {
				a.later = append(a.later, lastRow)
			}
		}
		to[symbol] = lastRow
	}
	a.filled[row], a.isDirty[row] = true, true
	a.dirtyStates = append(a.dirtyStates, row)
	return true
}

// placeMask is the number of a mask, a new one if need be.
func (a *Arena) placeMask(m *mask) (int32, bool) {
	if at, ok := a.masks[m.key]; ok {
		return at, true
	}
	at := int32(len(a.masks))
	if int(at) == a.Masks {
		return 0, false
	}
	a.masks[m.key] = at
	copy(a.bits[int(at)*a.Words:], m.words)
	a.maskIsDirty[at] = true
	return at, true
}

// Full says how many states and masks are placed, and how often all were forgotten.
func (a *Arena) Full() (states, masks, flushes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used - 1, len(a.masks), a.flushes
}

// key is what equal masks have in common.
func key(words []uint32, end bool) string {
	h := sha256.New()
	h.Write(tree.Bytes(words))
	if end {
		h.Write([]byte{1})
	}
	return string(h.Sum(nil))
}
