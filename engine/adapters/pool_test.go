package adapters

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models/adapter"
)

func newPool(adapters, slots int) *Pool {
	var list []config.Adapter
	for i := range adapters {
		list = append(list, config.Adapter{Name: fmt.Sprint(i), Adapter: &adapter.Adapter{Digest: "00"}})
	}
	return New(list, slots)
}

func (p *Pool) request(number int) *schedule.Request {
	return &schedule.Request{Variant: schedule.Variant{Adapter: p.list[number]}}
}

// The adapter that gives way is the one that is needed last, and one that nothing waits for before all others.
func TestTheOneNeededLastGivesWay(t *testing.T) {
	p := newPool(4, 3)
	for _, number := range []int{0, 1, 2, 0, 1, 3, 1, 0} { // then 3 is wanted while 0, 1 and 2 are there
		p.Expect(p.request(number))
	}
	for number := range 3 {
		r := p.request(number)
		if !p.Hold(r) {
			t.Fatalf("no room for %d", number)
		}
		p.Release(r)
	}
	if list := p.Pending(); len(list) != 3 {
		t.Fatalf("placed %v", list)
	}
	if r := p.request(3); !p.Hold(r) || p.list[2].Slot != 0 {
		t.Error("2, which nothing waits for, was kept")
	}
	p.Release(p.request(3))
	if r := p.request(2); !p.Hold(r) || p.list[3].Slot != 0 {
		t.Error("3, which nothing waits for any longer, was kept")
	}
	if p.list[0].Slot == 0 || p.list[1].Slot == 0 {
		t.Error("an adapter that requests wait for gave way")
	}
}

// Random requests never share a slot with another adapter, nor does an adapter lose its slot while it is held, and each
// slot's last placement is its adapter.
func TestRandomHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := newPool(9, 4)
	placed := make([]*adapter.Adapter, 4)
	var held []*schedule.Request
	for range 20000 {
		for _, one := range p.Pending() {
			placed[one.Slot] = one.Adapter
		}
		for _, r := range held {
			if s := r.Adapter.Slot; s == 0 || placed[s-1] != p.from[r.Adapter.Number] {
				t.Fatalf("adapter %s is held and not in its slot %d", r.Adapter.Name, s)
			}
		}
		if r := p.request(rng.IntN(9)); rng.IntN(2) == 0 {
			p.Expect(r)
			if p.Hold(r) {
				held = append(held, r)
			} else if used := usedSlots(held); used < 4 {
				t.Fatalf("no room, and %d slots are in use", used)
			}
		} else if len(held) > 0 {
			i := rng.IntN(len(held))
			p.Release(held[i])
			held = slices.Delete(held, i, i+1)
		}
	}
	p.Begin()
	if used := p.slots[0].users + p.slots[1].users + p.slots[2].users + p.slots[3].users; used != 0 {
		t.Errorf("a new run begins with %d users", used)
	}
}

func usedSlots(held []*schedule.Request) int {
	used := map[int32]bool{}
	for _, r := range held {
		used[r.Adapter.Slot] = true
	}
	return len(used)
}
