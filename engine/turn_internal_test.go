package engine

import (
	"errors"
	"testing"
	"time"
)

// Operations wait for one another, and do not wait for a run; a run waits for whatever there is.
func TestTurn(t *testing.T) {
	var turn turn
	got := make(chan error, 1)
	waits := func(what string, byRun bool) {
		t.Helper()
		go func() { got <- turn.take(byRun) }()
		select {
		case err := <-got:
			t.Fatalf("%s did not wait: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
		turn.give()
		if err := <-got; err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if err := turn.take(false); err != nil {
		t.Fatal(err)
	}
	waits("an operation behind another", false)
	waits("a run behind an operation", true)
	if err := turn.take(false); !errors.Is(err, ErrRunning) {
		t.Errorf("an operation during a run: %v", err)
	}
	waits("a run behind another", true)
	turn.give()
	if err := turn.take(false); err != nil {
		t.Error(err)
	}
}
