// Package adapters decides which low-rank adapters of a job are on the device: there is room for some of them, and the
// requests of others wait. An offline job knows what comes next, so the adapter that gives way is the one that the
// requests seen so far need last.
package adapters

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models/adapter"
)

// Pool is the room for adapters on the device.
type Pool struct {
	list   []*schedule.Adapter // by number
	from   []*adapter.Adapter  // the same
	byName map[string]*schedule.Adapter

	mu    sync.Mutex // guards what follows
	slots []slot
	// expected has, for each adapter, when the requests came that have not been given room, oldest first.
	expected [][]int
	arrived  int // requests so far
	pending  []Placement
}

// slot is the room for one adapter.
type slot struct {
	holds *schedule.Adapter // nil if it is empty
	users int               // requests that run with it
}

// Placement is an adapter that has to be brought to its slot before the next call.
type Placement struct {
	Slot    int // from 0
	Adapter *adapter.Adapter
}

// New makes the pool of a config; nil if it has no adapters.
func New(list []config.Adapter, slots int) *Pool {
	if len(list) == 0 {
		return nil
	}
	p := &Pool{byName: map[string]*schedule.Adapter{}, slots: make([]slot, slots), expected: make([][]int, len(list))}
	for i, one := range list {
		a := &schedule.Adapter{Name: one.Name, Number: i, Digest: digestOf(one.Digest)}
		p.list, p.from, p.byName[one.Name] = append(p.list, a), append(p.from, one.Adapter), a
	}
	return p
}

// digestOf reads a digest in hex.
func digestOf(text string) (h prefix.Hash) {
	if bytes, err := hex.DecodeString(text); err == nil {
		copy(h[:], bytes)
	}
	return h
}

// Named returns the adapter of a name; nil for "", which is the model without one.
func (p *Pool) Named(name string) (*schedule.Adapter, error) {
	if name == "" {
		return nil, nil
	}
	if p == nil {
		return nil, setting.Errorf("%q, and the job has no adapters: name them with `adapter`", name)
	}
	if a := p.byName[name]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("%q, which is not one of the job's: %s", name, p.names())
}

// mostNames bounds the names in an error.
const mostNames = 20

func (p *Pool) names() string {
	var names []string
	for _, a := range p.list[:min(len(p.list), mostNames)] {
		names = append(names, a.Name)
	}
	if more := len(p.list) - mostNames; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// Begin starts a run: no request has room. What is on the device stays.
func (p *Pool) Begin() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.slots {
		p.slots[i].users = 0
	}
	clear(p.expected)
}

// IsShort reports whether there is no room for all adapters.
func (p *Pool) IsShort() bool { return p != nil && len(p.slots) < len(p.list) }

// Expect notes a request that will want room.
func (p *Pool) Expect(r *schedule.Request) {
	if p == nil || r.Adapter == nil || r.Err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrived++
	n := r.Adapter.Number
	p.expected[n] = append(p.expected[n], p.arrived)
}

// Hold gives a request room for its adapter until Release. It returns false if all room is in use.
func (p *Pool) Hold(r *schedule.Request) bool {
	if p == nil || r.Adapter == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := r.Adapter
	if a.Slot == 0 && !p.place(a) {
		return false
	}
	p.slots[a.Slot-1].users++
	if e := p.expected[a.Number]; len(e) > 0 {
		p.expected[a.Number] = e[1:]
	}
	return true
}

// place gives an adapter the slot of the one that is needed last. p.mu is held.
func (p *Pool) place(a *schedule.Adapter) bool {
	best, latest := -1, -1
	for i, s := range p.slots {
		when := p.nextUse(s.holds)
		if s.users == 0 && when > latest {
			best, latest = i, when
		}
	}
	if best < 0 {
		return false
	}
	if old := p.slots[best].holds; old != nil {
		old.Slot = 0
	}
	p.slots[best], a.Slot = slot{holds: a}, int32(best+1)
	p.pending = append(p.pending, Placement{best, p.from[a.Number]})
	return true
}

// nextUse returns when an adapter is needed next. An empty slot is needed last of all.
func (p *Pool) nextUse(a *schedule.Adapter) int {
	switch {
	case a == nil:
		return math.MaxInt
	case len(p.expected[a.Number]) == 0:
		return math.MaxInt - 1
	}
	return p.expected[a.Number][0]
}

// Release gives up the room that a request holds.
func (p *Pool) Release(r *schedule.Request) {
	if p == nil || r.Adapter == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots[r.Adapter.Slot-1].users--
}

// Pending takes the placements since the last call, of each slot the last one, in order.
func (p *Pool) Pending() (list []Placement) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, one := range p.pending {
		replaced := false
		for _, later := range p.pending[i+1:] {
			replaced = replaced || later.Slot == one.Slot
		}
		if !replaced {
			list = append(list, one)
		}
	}
	p.pending = nil
	return list
}
