package masking

import (
	"fmt"
	"iter"
	"slices"
	"sync"
)

// Unknown is the row of all states that the arena does not have.
const Unknown = 0

// Sizes are the sizes of an arena.
type Sizes struct {
	States int // rows of states, including Unknown
	Masks  int
	Words  int // of a mask: see sampling.MaskWords
	// PatchStates and PatchMasks are the numbers of rows of states and of masks that a call takes.
	PatchStates, PatchMasks int
}

// Arena is the host's account of the tables on the device that machines are in. Several goroutines may call its
// methods.
type Arena struct {
	Sizes
	mu      sync.Mutex       // protects all fields below
	next    []int32          // i32[used, Width]: rows; as long as the largest number of rows so far
	info    []int32          // i32[States]: see Info
	bits    []uint32         // u32[number, Words]: masks; as long as the largest number of masks so far
	used    int              // the number of rows of states
	of      []at             // the states of rows
	masks   map[uint64]int32 // by the hash of their words
	number  int              // the number of masks
	filling int              // 1 + how often the arena was emptied
	shapes  knownShapes
	pool    pool
	nothing *Machine // in which no token may follow

	changes
	counts

	present []int32 // the rows that were placed last
	soon    []int32 // the rows that may follow them soon, the likeliest first
	ahead   search
	scratch []uint32 // a mask
	patch   *Patch   // the last one that was taken
}

// changes are what the device does not have yet. The arena's mutex protects them.
type changes struct {
	stale       bool    // the device has rows that were forgotten, and must clear its tables first
	dirtyStates []int32 // the rows of states that were written, each once until it is taken
	isDirty     []bool  // by row of states
	maskIsDirty []bool  // by mask
}

// counts are how often the arena was emptied because it was full, and how often machines were renewed. The arena's
// mutex protects them.
type counts struct{ flushes, renewals int }

// pooled is how many masks the host remembers for each that the device has room for.
const pooled = 2

// New makes an empty arena.
func New(s Sizes) *Arena {
	a := &Arena{Sizes: s, info: make([]int32, s.States), of: make([]at, s.States), shapes: knownShapes{},
		changes: changes{isDirty: make([]bool, s.States), maskIsDirty: make([]bool, s.Masks)},
		scratch: make([]uint32, s.Words), patch: s.NewPatch(), pool: newPool(pooled * s.Masks),
		nothing: &Machine{Automaton: nothing{}}}
	a.reset()
	return a
}

// reset forgets where states stand.
func (a *Arena) reset() {
	clear(a.info)
	clear(a.of)
	clear(a.isDirty)
	clear(a.maskIsDirty)
	a.filling++
	a.used, a.masks, a.number = 1, map[uint64]int32{}, 0
	a.dirtyStates, a.present, a.soon = nil, nil, nil
	a.ahead.queue.reset()
	a.stale = true
}

// Forget forgets where states stand: the device's tables are others now.
func (a *Arena) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reset()
}

// Info is what a row's entry of the array of that name says: whether its mask is known, which it is, and whether only
// tokens that end a completion may follow.
func Info(entry int32) (mask int32, end, known bool) { return entry/2 - 1, entry%2 == 1, entry > 0 }

// Place returns the rows of the states that readers stand in, each with its mask. Where there is no room for all it
// forgets the others, and gives each of them another row. It is an error where they do not fit even so.
//
// Machines that are full are made anew. A reader that alone takes too much memory has an error, and a row in which no
// token may follow.
func (a *Arena) Place(readers []*Reader) ([]int32, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.renew(readers); err != nil {
		return nil, err
	}
	for flushed := false; ; {
		rows, got := a.placeAll(readers)
		switch {
		case got == placed:
			a.present = slices.Clone(rows)
			a.linkPassed(readers)
			return rows, nil
		case got == failed:
			if err := a.renew(readers); err != nil {
				return nil, err
			}
		case flushed:
			return nil, fmt.Errorf("%d rows do not fit into %d states and %d masks: make Config.MaskStates larger",
				len(readers), a.States, a.Masks)
		default:
			a.reset()
			a.flushes++
			flushed = true
		}
	}
}

func (a *Arena) placeAll(readers []*Reader) (rows []int32, got placing) {
	rows = make([]int32, len(readers))
	for i, r := range readers {
		if rows[i], got = a.place(r.at); got != placed {
			break
		}
	}
	return rows, got
}

// linkPassed gives rows to the states that readers passed since they were placed last, as long as there is room. Others
// that come the same way would be stopped there again.
func (a *Arena) linkPassed(readers []*Reader) {
	for _, r := range readers {
		for _, state := range r.passed {
			if r.isFull() {
				break
			}
			a.link(at{r.Machine, state})
		}
		r.passed = r.passed[:0]
	}
}

// rowOf is the row of a state, Unknown where it has none.
func (a *Arena) rowOf(s *state) int32 {
	if s.filling != a.filling {
		s.filling, s.row, s.lacks = a.filling, Unknown, nil
	}
	return s.row
}

// placing is what came of placing a state.
type placing int

const (
	placed placing = iota
	noRoom         // for it or its mask
	failed         // the machine ran out of memory
)

// place is the row of a state with its mask, a new one if need be.
func (a *Arena) place(of at) (int32, placing) {
	row, got := a.link(of)
	if got != placed || a.info[row] != 0 {
		return row, got
	}
	if !a.meetMask(of) {
		return Unknown, failed
	}
	s := of.of()
	if s.mask == noMask {
		return row, placed
	}
	mask, ok := a.placeMask(s.mask)
	if !ok {
		return Unknown, noRoom
	}
	if a.info[row] = 2 * (mask + 1); s.end {
		a.info[row]++
	}
	a.dirty(row)
	return row, placed
}

// link is the row of a state, a new one if need be. A new one has no mask: rows may pass there, and can not draw.
func (a *Arena) link(of at) (int32, placing) {
	s := of.of()
	if row := a.rowOf(s); row != Unknown {
		return row, placed
	}
	if a.used == a.States {
		return Unknown, noRoom
	}
	if !a.meetFollowers(of) {
		return Unknown, failed
	}
	row := int32(a.used)
	a.used++
	a.next = lengthened(a.next, a.used*Width)
	s.row, a.of[row], a.info[row] = row, of, 0
	a.fill(row)
	for _, before := range s.lacks {
		a.lead(before, of.State)
	}
	s.lacks = nil
	return row, placed
}

// fill says what follows a new row's state.
func (a *Arena) fill(row int32) {
	at := a.of[row]
	s := at.of()
	to := a.next[int(row)*Width:][:Width]
	clear(to)
	var rows [Width + 1]int32
	for k, next := range s.follow {
		follower := at.Machine.at(next)
		if rows[k+1] = a.rowOf(follower); rows[k+1] == Unknown {
			follower.lacks = append(follower.lacks, row)
		}
	}
	for symbol, group := range s.shape.groups {
		to[symbol] = rows[group]
	}
	a.dirty(row)
}

// lead says that a state that follows a row has a row now.
func (a *Arena) lead(row, follower int32) {
	at := a.of[row]
	s := at.of()
	group := uint16(1 + slices.Index(s.follow, follower))
	to := at.Machine.at(follower).row
	for symbol, g := range s.shape.groups {
		if g == group {
			a.next[int(row)*Width+symbol] = to
		}
	}
	a.dirty(row)
}

// lengthened is a list with at least n entries.
func lengthened[T any](list []T, n int) []T {
	if more := n - len(list); more > 0 {
		list = append(list, make([]T, more)...)
	}
	return list
}

// dirty notes that the device does not have a row as it is.
func (a *Arena) dirty(row int32) {
	if !a.isDirty[row] {
		a.isDirty[row] = true
		a.dirtyStates = append(a.dirtyStates, row)
	}
}

// placeMask is the number on the device of a mask of the pool, a new one if need be.
func (a *Arena) placeMask(number int32) (int32, bool) {
	m := &a.pool.masks[number]
	if m.filling == a.filling {
		return m.number, true
	}
	at, ok := a.masks[m.hash]
	if !ok || !slices.Equal(a.bits[int(at)*a.Words:][:a.Words], m.words) {
		if a.number == a.Masks {
			return 0, false
		}
		at = int32(a.number)
		a.number++
		a.bits = lengthened(a.bits, a.number*a.Words)
		a.masks[m.hash] = at
		copy(a.bits[int(at)*a.Words:], m.words)
		a.maskIsDirty[at] = true
	}
	m.filling, m.number = a.filling, at
	return at, true
}

// Memory is how many bytes machines have taken.
func (a *Arena) Memory(machines iter.Seq[*Machine]) (bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for m := range machines {
		bytes += m.Automaton.Memory().Bytes
	}
	return bytes
}

// Renewals counts the machines that were made anew.
func (a *Arena) Renewals() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renewals
}

// Full says how many states and masks are placed, and how often all were forgotten.
func (a *Arena) Full() (states, masks, flushes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used - 1, a.number, a.flushes
}
