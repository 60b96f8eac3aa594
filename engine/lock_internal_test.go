package engine

import (
	"errors"
	"testing"
	"time"
)

// Operations wait for one another, and those that have no place beside a run do not wait for one, unless it is brief; a
// run waits for whatever there is.
func TestLock(t *testing.T) {
	var l lock
	got := make(chan error, 1)
	waits := func(what string, take func() error) {
		t.Helper()
		go func() { got <- take() }()
		select {
		case err := <-got:
			t.Fatalf("%s did not wait: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
		l.release()
		if err := <-got; err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	run := func() error { l.begin(); return nil }
	if err := l.acquire(); err != nil {
		t.Fatal(err)
	}
	waits("an operation behind another", l.acquire)
	waits("a run behind an operation", run)
	if err := l.acquire(); !errors.Is(err, ErrRunning) {
		t.Errorf("an operation during a run: %v", err)
	}
	if other, mine := l.join(true); mine || other != l.enter() {
		t.Error("what runs is not joined")
	}
	waits("a run behind another", run)
	l.release()
	if _, mine := l.join(true); !mine {
		t.Error("a run is not begun")
	}
	waits("an operation behind a brief run", l.acquire)
	l.release()
}
