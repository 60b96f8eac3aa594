package engine

import (
	"testing"

	"github.com/quire/quire/engine/schedule"
)

// A slot that several entries had in one call, whatever their order, has the one that did not end.
func TestSlotsOfMasks(t *testing.T) {
	first, second, third := &masked{}, &masked{}, &masked{}
	m := masks{rows: make([]*masked, 3)}
	m.rows[1] = third
	s := maskStates{waiting: []*masked{first, nil, second}}
	var got schedule.Output
	got.Placed = []int32{1, 2, 1} // second came first, and third was there before it
	got.Owners = []int32{3 + 1, 2, 0, 1}
	got.Tokens = []int32{5, 6, 7, 8}
	got.Finish = []int32{int32(schedule.AtLength), int32(schedule.AtLength), int32(schedule.Running), 0}
	if err := m.settle(s, &got, nil); err != nil {
		t.Fatal(err)
	}
	if m.rows[0] != nil || m.rows[1] != first || m.rows[2] != nil {
		t.Errorf("slots have %v, want the first entry in slot 1 alone", m.rows)
	}
}
