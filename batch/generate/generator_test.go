package generate

import (
	"runtime"
	"sync"
	"testing"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/data/tally"
)

// countedUpdates counts calls, and guards its count by nothing.
type countedUpdates struct {
	process.Progress
	n int
}

func (p *countedUpdates) Update(_, _, _ tally.Counts) {
	n := p.n
	runtime.Gosched()
	p.n = n + 1
}

// Rows are started by one goroutine and completed by another, and calls of the progress do not overlap all the same.
func TestProgressIsToldByOneAtATime(t *testing.T) {
	p := &countedUpdates{}
	l := &onlyUnit{progress: p}
	u := &Unit{Out: newCollector(newWrittenRows(), &notes{}, collecting{inFlight: 1})}
	const times = 1000
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range times {
				l.Progressed(t.Context(), u)
			}
		})
	}
	all.Wait()
	if p.n != 2*times {
		t.Errorf("%d updates were counted, not %d", p.n, 2*times)
	}
}
