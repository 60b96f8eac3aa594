package schedule

import (
	"errors"
	"slices"
)

// Operation changes contexts during a run, between two calls of the device, on the run's goroutine.
type Operation struct {
	// Do does it. It returns true if it must be called again after the next call.
	Do    func(b *Between) (later bool)
	ended chan bool // receives once whether the operation was done; has room, so that the run never waits
}

// NewOperation makes an operation.
func NewOperation(do func(b *Between) (later bool)) *Operation {
	return &Operation{Do: do, ended: make(chan bool, 1)}
}

// Done waits until the operation is done. It returns false if the run ended before.
func (o *Operation) Done() bool { return <-o.ended }

// Between is the run as an operation sees it. It is valid until Operation.Do returns.
type Between struct{ j *job }

// Free returns how many pages are free, and neither reserved for a row nor wanted by an earlier operation.
func (b *Between) Free() int { return b.j.sched.pool.unreserved() - b.j.sched.wanted }

// Most returns how many pages operations may take in the end, when what runs now has ended. The largest request that
// was taken in must still find its pages.
func (b *Between) Most() int { return b.j.sched.pool.size - b.j.sched.largest() }

// Take reports whether an operation may take a number of pages now, or later, when sequences of the run have made room.
// If neither, the pages are not there.
func (b *Between) Take(pages int) (now, later bool) {
	switch {
	case pages <= 0:
		return true, false
	case pages > b.Most():
		return false, false
	case pages <= b.Free():
		return true, false
	}
	return false, b.Want(pages)
}

// Want states that an operation waits for pages. Until it has them nothing new is admitted, and if sequences can move
// to the host, those admitted last make room. It returns false if waiting has no use because nothing runs.
func (b *Between) Want(pages int) (waits bool) {
	s := b.j.sched
	s.wanted += pages
	return !s.isBare()
}

// Begins reports whether requests that begin with the context of a row wait to be admitted.
func (b *Between) Begins(row int) bool {
	return slices.ContainsFunc(b.j.sched.queue.groups, func(g *group) bool { return g.Context == row })
}

// Room returns how many tokens of contexts the next call has room for.
func (b *Between) Room() int {
	s := b.j.sched
	return s.PromptLimit - s.slots.promptLeft() - s.prefixes.tokensLeft()
}

// Contexts replaces the contexts. free is the number of the device's pages that none of them holds, pool how many of
// these are not reserved for one either.
func (b *Between) Contexts(contexts []*Context, free, pool int) {
	b.j.sched.pool.idle, b.j.sched.pool.size = free, pool
	b.j.sched.prefixes.setContexts(contexts)
}

// FreePages sets how many pages of the device are free now.
func (b *Between) FreePages(n int) { b.j.sched.pool.free = n }

// Add takes a request in, alongside the requests of the intake.
func (b *Between) Add(r *Request) { b.j.take(r) }

// Fail ends the run: the device is in the middle of something.
func (b *Between) Fail(err error) { b.j.sched.err = errors.Join(b.j.sched.err, err) }

// between does the operations that wait, in the order in which they came.
func (j *job) between() {
	later := j.later
	j.later, j.sched.wanted, j.sched.placer.paused = nil, 0, false
	for _, o := range later {
		j.do(o)
	}
	for range max(1, j.Sizes.Contexts) { // others have to wait, or the run would not continue
		select {
		case o := <-j.Between:
			j.do(o)
			continue
		default:
		}
		break
	}
	if s := j.sched; s.wanted > 0 && s.slots.active == 0 {
		s.dropPrefixes() // rows that run ahead of their clones make room
	}
}

func (j *job) do(o *Operation) {
	if o.Do(&Between{j}) {
		j.later = append(j.later, o)
		return
	}
	o.ended <- true
}

// leave returns the operations that were not done.
func (j *job) leave() {
	for _, o := range j.later {
		o.ended <- false
	}
	j.later = nil
}
