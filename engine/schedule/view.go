package schedule

import "slices"

// View is what the scheduler knows of its rows, for debugging.
type View struct {
	Rows    []RowView // in use as far as the scheduler knows, in order
	Waiting []WaitingView
	Swapped []SequenceView // those on the host, in order of admission
	// FreePages is how many pages were free when the last call ended.
	FreePages int
	// OneAtATime reports whether only the first request is offered, because a call did nothing.
	OneAtATime bool
}

// SequenceView is a completion that waits, runs or is swapped out.
type SequenceView struct {
	Request    *Request
	Generation int
	Done       int   // tokens of it in the cache, as the last call left it
	Last       int32 // the token generated last
	Born       int   // counts admissions
	Cancelled  bool  // it met a stop string
}

// RowView is one row.
type RowView struct {
	Row int
	// Sequence is the completion in a slot; nil in a prefix row.
	Sequence *SequenceView
	// Tokens is how many tokens a prefix row will have, Done how many it had run when the last call ended.
	Tokens, Done int
	Opened       bool // the device has the prefix row
	Pinned       bool // it is the row of a context
	Releasing    bool // the next call frees the row first
	// Failing reports whether the call that failed gave out the row.
	Failing bool
}

// WaitingView is a request with completions that wait for a slot.
type WaitingView struct {
	Request  *Request
	Admitted int // completions
	Source   int // the row that the next one starts from, or None
	Held     int // tokens that the next one takes over from there
}

// view describes the rows. o and got belong to a call that failed, and whose rows the scheduler did not take over; nil
// without.
func (s *scheduler) view(o *offer, output *Output) View {
	v := View{FreePages: s.pool.free, OneAtATime: s.placer.oneAtATime}
	known := map[int]bool{}
	add := func(r RowView) {
		if !known[r.Row] {
			known[r.Row] = true
			v.Rows = append(v.Rows, r)
		}
	}
	for row, q := range s.slots.rows {
		if q != nil {
			add(RowView{Row: row, Sequence: q.view(), Releasing: s.slots.release[row]})
		}
	}
	if o != nil && output != nil {
		for i, q := range o.waiting {
			if row := int(output.Placed[i]); row >= 0 {
				add(RowView{Row: row, Sequence: q.view(), Failing: true})
			}
		}
	}
	for _, p := range s.prefixes.rows {
		if p != nil {
			add(RowView{Row: p.row, Tokens: len(p.tokens), Done: p.done, Opened: p.opened, Pinned: p.pinned != nil,
				Releasing: s.slots.release[p.row]})
		}
	}
	for row, releasing := range s.slots.release {
		if releasing {
			add(RowView{Row: row, Releasing: true})
		}
	}
	slices.SortFunc(v.Rows, func(a, b RowView) int { return a.Row - b.Row })
	for _, g := range s.queue.groups {
		w := WaitingView{Request: g.Request, Admitted: g.admitted, Source: None, Held: g.held}
		if g.source != nil {
			w.Source = g.source.row
		}
		v.Waiting = append(v.Waiting, w)
	}
	for _, m := range s.swap.sequences {
		v.Swapped = append(v.Swapped, *m.seq.view())
	}
	return v
}

func (q *sequence) view() *SequenceView {
	return &SequenceView{Request: q.group.Request, Generation: q.generation, Done: q.done, Last: q.last,
		Born: q.admission, Cancelled: q.cancelled.Load()}
}
