package masking

import (
	"iter"
	"sync"
)

// Unknown is the row of all states that the arena does not have.
const Unknown = 0

// Arena is the host's account of the tables on the device that machines are in. Several goroutines may call its
// methods.
type Arena struct {
	Sizes
	mu        sync.Mutex       // protects all fields below
	next      []int32          // i32[used, Width]: rows; as long as the largest number of rows so far
	info      []int32          // i32[States]: see Info
	bits      []uint32         // u32[number, Words]: masks; as long as the largest number of masks so far
	used      int              // the number of rows of states
	positions []position       // the states of rows
	masks     map[uint64]int32 // by the hash of their words
	number    int              // the number of masks
	filling   int              // 1 + how often the arena was emptied
	shapes    knownShapes
	pool      pool
	nothing   *Machine // in which no token may follow

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
	a := &Arena{Sizes: s, info: make([]int32, s.States), positions: make([]position, s.States), shapes: knownShapes{},
		changes: changes{isDirty: make([]bool, s.States), maskIsDirty: make([]bool, s.Masks)},
		scratch: make([]uint32, s.Words), patch: s.NewPatch(), pool: newPool(pooled * s.Masks),
		nothing: &Machine{Automaton: nothing{}}}
	a.reset()
	return a
}

// reset forgets all rows of states.
func (a *Arena) reset() {
	clear(a.info)
	clear(a.positions)
	clear(a.isDirty)
	clear(a.maskIsDirty)
	a.filling++
	a.used, a.masks, a.number = 1, map[uint64]int32{}, 0
	a.dirtyStates, a.present, a.soon = nil, nil, nil
	a.ahead.queue.reset()
	a.stale = true
}

// Forget forgets all rows of states. It is for a device whose tables were replaced.
func (a *Arena) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reset()
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

// Renewals counts the machines that were renewed.
func (a *Arena) Renewals() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renewals
}

// Full returns how many states and masks are placed, and how often all were forgotten.
func (a *Arena) Full() (states, masks, flushes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used - 1, a.number, a.flushes
}
