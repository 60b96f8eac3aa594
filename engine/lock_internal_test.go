package engine

import (
	"errors"
	"testing"
	"time"
)

// Operations wait for one another, and do not wait for a run; a run waits for whatever there is.
func TestLock(t *testing.T) {
	var l lock
	got := make(chan error, 1)
	waits := func(what string, byRun bool) {
		t.Helper()
		go func() { got <- l.acquire(byRun) }()
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
	if err := l.acquire(false); err != nil {
		t.Fatal(err)
	}
	waits("an operation behind another", false)
	waits("a run behind an operation", true)
	if err := l.acquire(false); !errors.Is(err, ErrRunning) {
		t.Errorf("an operation during a run: %v", err)
	}
	waits("a run behind another", true)
	l.release()
	if err := l.acquire(false); err != nil {
		t.Error(err)
	}
}
