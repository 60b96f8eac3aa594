package generate

import (
	"slices"
	"sync"

	"github.com/quire/quire/data/tally"
)

// ActiveUnits are the units that are started and not ended. One goroutine begins them, another one takes their
// completions.
type ActiveUnits struct {
	mu    sync.Mutex
	units []*Unit      // in the order in which they were started
	total tally.Counts // what was generated of units that are done
	fatal error        // what ends the generating
	stop  func()       // ends the attempt that runs, nil for none
	ended func()       // is called when no row is started any more, nil for nobody
}

// Track takes a unit up.
func (f *ActiveUnits) Track(u *Unit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.units = append(f.units, u)
}

// Remove removes a unit from the started units. It returns false if the unit was removed before.
func (f *ActiveUnits) Remove(u *Unit, whole bool) bool {
	_, drawn, _ := u.Out.Counts()
	f.mu.Lock()
	defer f.mu.Unlock()
	index := slices.Index(f.units, u)
	if index < 0 {
		return false
	}
	if whole {
		f.total = f.total.Plus(drawn)
	}
	f.units = slices.Delete(f.units, index, index+1)
	return true
}

// has reports whether a unit is started and not ended.
func (f *ActiveUnits) has(u *Unit) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.units, u)
}

// View calls see with the units. No unit starts or ends meanwhile.
func (f *ActiveUnits) View(see func(units []*Unit)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	see(f.units)
}

// List lists the units in the order in which they were started.
func (f *ActiveUnits) List() []*Unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.units)
}

// RunningRows counts the rows that are started and not finished.
func (f *ActiveUnits) RunningRows() (rows int) {
	for _, u := range f.List() {
		_, _, running := u.Out.Counts()
		rows += int(running)
	}
	return rows
}

// idle reports whether no row is started and not finished.
func (f *ActiveUnits) idle() bool { return f.RunningRows() == 0 }

// whenIdle has f called when no row is started any more, until stop is called.
func (f *ActiveUnits) whenIdle(call func()) (stop func()) {
	set := func(call func()) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ended = call
	}
	set(call)
	return func() { set(nil) }
}

// notify calls what waits until no row is started.
func (f *ActiveUnits) notify() {
	if !f.idle() {
		return
	}
	f.mu.Lock()
	call := f.ended
	f.mu.Unlock()
	if call != nil {
		call()
	}
}

// Generated adds up what this process generated.
func (f *ActiveUnits) Generated() tally.Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.total
	for _, u := range f.units {
		_, drawn, _ := u.Out.Counts()
		all = all.Plus(drawn)
	}
	return all
}

// Fail ends the generating by an error, unless it ends by another one already or the error is nil.
func (f *ActiveUnits) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fatal == nil {
		f.fatal = err
	}
	if f.fatal != nil && f.stop != nil {
		f.stop()
	}
}

// whenFailed has stop called when the generating is to end by an error, until the result is called: the error may come
// from a goroutine other than the one that takes completions, which may wait for more of them.
func (f *ActiveUnits) whenFailed(stop func()) (forget func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop = stop; f.fatal != nil {
		stop()
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.stop = nil
	}
}

func (f *ActiveUnits) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fatal
}
