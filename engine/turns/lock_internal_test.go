package turns

import (
	"errors"
	"testing"
	"time"
)

// Operations wait for one another, and those that have no place beside a run do not wait for one, unless it is brief; a
// run waits for whatever there is.
func TestLock(t *testing.T) {
	var l Lock
	got := make(chan error, 1)
	waits := func(what string, take func() error, end func()) {
		t.Helper()
		go func() { got <- take() }()
		select {
		case err := <-got:
			t.Fatalf("%s did not wait: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
		end()
		if err := <-got; err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	var last *Run
	run := func() error { last = l.Begin(); return nil }
	leave := func() { l.Leave(last) }
	if err := l.acquire(); err != nil {
		t.Fatal(err)
	}
	waits("an operation behind another", l.acquire, l.release)
	waits("a run behind an operation", run, l.release)
	if err := l.acquire(); !errors.Is(err, ErrRunning) {
		t.Errorf("an operation during a run: %v", err)
	}
	if other, mine := l.Join(true); mine || other != l.enter() {
		t.Error("what runs is not joined")
	}
	first := last
	waits("a run behind another", run, func() { l.Leave(first) })
	// Over on the device, it leaves room for operations on contexts, and for what these run, while it is read.
	if l.Over(last); l.enter() != nil {
		t.Error("an operation joins a run that is over")
	}
	l.release()
	if err := l.acquire(); !errors.Is(err, ErrRunning) {
		t.Errorf("an operation while a run is read: %v", err)
	}
	guest, mine := l.Join(false)
	if !mine || !guest.Aside {
		t.Error("a run is not begun beside one that is read")
	}
	l.Over(guest)
	l.Leave(guest)
	first = last
	waits("a run behind one that is read", run, func() { l.Leave(first) })
	leave()
	if last, mine = l.Join(true); !mine || last.Aside {
		t.Error("a run is not begun")
	}
	waits("an operation behind a brief run", l.acquire, leave)
	l.release()
}
