package masks

import (
	"testing"

	"github.com/quire/quire/engine/schedule"
)

// A slot that several entries had in one call, whatever their order, has the one that did not end.
func TestSlotsOfMasks(t *testing.T) {
	first, second, third := &sequence{}, &sequence{}, &sequence{}
	m := NewRows(nil, 3, nil)
	m.slots[1] = third
	s := States{waiting: []*sequence{first, nil, second}}
	var got schedule.Output
	got.Placed = []int32{1, 2, 1} // second came first, and third was there before it
	got.Owners = []int32{3 + 1, 2, 0, 1}
	got.Tokens = []int32{5, 6, 7, 8}
	got.Finish = []int32{int32(schedule.AtLength), int32(schedule.AtLength), int32(schedule.Running), 0}
	if err := m.Settle(s, &got); err != nil {
		t.Fatal(err)
	}
	if m.slots[0] != nil || m.slots[1] != first || m.slots[2] != nil {
		t.Errorf("slots have %v, want the first entry in slot 1 alone", m.slots)
	}
}
