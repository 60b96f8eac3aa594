package automaton

import "testing"

// A grammar that takes too much memory lets no further byte come, and has an error.
func TestSpent(t *testing.T) {
	b := NewBuilder()
	a, err := New(b, b.Repeat(b.Text("ab"), 0, 1000))
	if err != nil {
		t.Fatal(err)
	}
	s := a.Next(a.Start(), 'a')
	b.spend(maxSpent)
	if s2 := a.Next(a.Start(), 'a'); s2 != s {
		t.Errorf("a state that was met is %d now, was %d", s2, s)
	}
	if next := a.Next(s, 'b'); next != Dead || a.Memory().Err == nil {
		t.Errorf("the next state is %d, the error %v", next, a.Memory().Err)
	}
	if a.Accepts(s) {
		t.Error("half of a text is complete")
	}
}
