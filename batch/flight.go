package batch

import (
	"slices"
	"sync"

	"github.com/quire/quire/tally"
)

// flight are the units that are begun and not ended. One goroutine begins them, another one takes their completions.
type flight struct {
	mu    sync.Mutex
	units []*unit      // in the order in which they were begun
	total tally.Counts // what was generated of units that are done
	fatal error        // what ends the generating
}

// begin takes a unit up.
func (f *flight) begin(u *unit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.units = append(f.units, u)
}

// end takes a unit from those that are begun. It returns false if it was taken before.
func (f *flight) end(u *unit, whole bool) bool {
	_, drawn, _ := u.out.counts()
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.Index(f.units, u)
	if at < 0 {
		return false
	}
	if whole {
		f.total = f.total.Plus(drawn)
	}
	f.units = slices.Delete(f.units, at, at+1)
	return true
}

// has reports whether a unit is begun and not ended.
func (f *flight) has(u *unit) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.units, u)
}

// look calls see with the units, of which none begins or ends meanwhile.
func (f *flight) look(see func(units []*unit)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	see(f.units)
}

// inOrder lists the units in the order in which they were begun.
func (f *flight) inOrder() []*unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.units)
}

// running counts the rows that are begun and not finished.
func (f *flight) running() (rows int) {
	for _, u := range f.inOrder() {
		_, _, running := u.out.counts()
		rows += int(running)
	}
	return rows
}

// idle reports whether no row is begun and not finished.
func (f *flight) idle() bool { return f.running() == 0 }

// drawn adds up what this process generated.
func (f *flight) drawn() tally.Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.total
	for _, u := range f.units {
		_, drawn, _ := u.out.counts()
		all = all.Plus(drawn)
	}
	return all
}

// fail ends the generating by an error, unless it ends by another one already.
func (f *flight) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fatal == nil {
		f.fatal = err
	}
}

func (f *flight) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fatal
}
