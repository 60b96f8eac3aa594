package schedule

import (
	"errors"
	"slices"
)

// Operation is what wants to change contexts while a run is under way: it is done between two calls of the device, on
// the run's goroutine.
type Operation struct {
	// Do does it. later says that it can't be done now, and is to be called again after the next call.
	Do    func(b *Between) (later bool)
	ended chan bool
}

// NewOperation makes an operation.
func NewOperation(do func(b *Between) (later bool)) *Operation {
	return &Operation{Do: do, ended: make(chan bool, 1)}
}

// Done waits until the operation was done; it returns false where the run ended before.
func (o *Operation) Done() bool { return <-o.ended }

// Between is what an operation may ask of the run.
type Between struct{ j *job }

// Free is how many pages are free, and neither reserved for a row nor wanted by an operation that came before.
func (b *Between) Free() int { return b.j.sched.unreserved() - b.j.sched.wanted }

// Most is how many pages operations may take in the end, when what runs now has ended: the largest request that was
// taken in must still find its own.
func (b *Between) Most() int { return b.j.Pool - b.j.sched.largest() }

// Take says whether an operation may take so many pages now, or later, when sequences of the run have made room.
// Neither says that they are not there.
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

// Want says that an operation waits for pages. Until it has them nothing new is admitted, and where sequences can move
// to the host those admitted last make room. It returns false where waiting has no use: nothing runs.
func (b *Between) Want(pages int) (waits bool) {
	s := b.j.sched
	s.wanted += pages
	return !s.bare()
}

// Begins says that requests which begin with the context of a row wait to be admitted.
func (b *Between) Begins(row int) bool {
	return slices.ContainsFunc(b.j.sched.waiting, func(g *group) bool { return g.Context == row })
}

// Room is how many tokens of contexts the next call has room for.
func (b *Between) Room() int {
	s := b.j.sched
	left := s.PromptLimit
	for _, q := range s.rows {
		if q != nil {
			left -= max(0, len(q.group.Tokens)-q.done)
		}
	}
	for _, p := range s.prefixes {
		if p != nil && p.opened {
			left -= max(0, len(p.tokens)-p.done)
		}
	}
	return left
}

// Contexts says which contexts there are from now on. free is the pages of the device that none of them holds, pool
// those of these that are not reserved for one.
func (b *Between) Contexts(list []*Context, free, pool int) {
	b.j.FreePages, b.j.Pool = free, pool
	b.j.sched.setContexts(list)
}

// FreePages says how many pages of the device are free now.
func (b *Between) FreePages(n int) { b.j.sched.freePages = n }

// Add takes a request in, beside those of the intake.
func (b *Between) Add(r *Request) { b.j.take(r) }

// Fail ends the run: the device is in the midst of something.
func (b *Between) Fail(err error) { b.j.sched.err = errors.Join(b.j.sched.err, err) }

// between does what waits to be done between two calls, in the order in which it came.
func (j *job) between() {
	list := j.later
	j.later, j.sched.wanted = nil, 0
	for _, o := range list {
		j.do(o)
	}
	for range max(1, j.Sizes.Contexts) { // others have to wait: the run goes on
		select {
		case o := <-j.Between:
			j.do(o)
			continue
		default:
		}
		break
	}
	if s := j.sched; s.wanted > 0 && s.active == 0 {
		s.dropAll() // what runs ahead of its clones makes room
	}
}

func (j *job) do(o *Operation) {
	if o.Do(&Between{j}) {
		j.later = append(j.later, o)
		return
	}
	o.ended <- true
}

// leave gives back the operations that were not done.
func (j *job) leave() {
	for _, o := range j.later {
		o.ended <- false
	}
	j.later = nil
}

// setContexts takes over which contexts there are.
func (s *scheduler) setContexts(list []*Context) {
	s.cfg.Contexts = list
	for _, p := range s.prefixes {
		if p != nil && p.pinned != nil && !slices.ContainsFunc(list, func(c *Context) bool { return c.Row == p.row }) {
			s.cache.Remove(p.row)
			s.prefixes[p.row-s.Slots] = nil
		}
	}
	for _, c := range list {
		p := s.prefixes[c.Row-s.Slots]
		if p == nil {
			p = &prefixRow{row: c.Row, opened: true}
			s.prefixes[c.Row-s.Slots] = p
			s.cache.Insert(c.Row, nil) // in use, as long as it is there
		}
		p.tokens, p.done, p.pinned, p.holding = c.Tokens, c.Done, c, holding{}
	}
}

// largest is how many pages of the pool the largest of the requests needs that were taken in and have not ended.
func (s *scheduler) largest() (pages int) {
	for _, g := range s.waiting {
		pages = max(pages, s.need(g.Request))
	}
	for _, q := range s.rows {
		if q != nil {
			pages = max(pages, s.need(q.group.Request))
		}
	}
	for _, m := range s.swapped { // a partial page is there twice while it comes back
		pages = max(pages, s.need(m.seq.group.Request), s.pages(m.seq.done)+1)
	}
	return pages
}

// need is how many pages of the pool a completion may come to need.
func (s *scheduler) need(r *Request) int {
	n := s.pages(r.MaxLen - 1)
	if s.Reserve { // a sequence that was swapped out comes back with pages of its own
		n -= s.heldByContext(r) / s.PageSize
	}
	return n
}

// bare says that nothing runs, and that no row will be freed.
func (s *scheduler) bare() bool {
	return s.active == 0 && !slices.Contains(s.release, true) &&
		!slices.ContainsFunc(s.prefixes, func(p *prefixRow) bool { return p != nil && p.pinned == nil })
}

// rides says that a context has tokens that are to be run.
func (s *scheduler) rides() bool {
	return slices.ContainsFunc(s.prefixes, func(p *prefixRow) bool {
		return p != nil && p.pinned != nil && p.done < len(p.tokens)
	})
}

// settleContexts tells of the tokens of contexts that a call ran.
func (s *scheduler) settleContexts(before []int) {
	for i, p := range s.prefixes {
		if p != nil && p.pinned != nil && p.done > before[i] && s.cfg.Moved != nil {
			s.cfg.FreePages -= s.pages(p.done) - s.pages(before[i])
			s.cfg.Moved(p.row, p.done, p.ids)
		}
	}
}

// lengths are how many tokens the prefix rows have.
func (s *scheduler) lengths() []int {
	list := make([]int, len(s.prefixes))
	for i, p := range s.prefixes {
		if p != nil {
			list[i] = p.done
		}
	}
	return list
}
