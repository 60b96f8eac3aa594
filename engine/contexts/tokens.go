package contexts

import (
	"slices"

	"github.com/quire/quire/engine/device"
)

// What is done on the device before calls run the tokens of contexts, and after.

// beginFlush gives contexts the pages that have what comes next in them, and pages of their own in place of partial
// ones that others hold too. It reserves pages for the rest.
func (t *table) beginFlush(list []*contextRow) error {
	pageSize := t.pageSize
	need, own := 0, 0
	var borrowers []*contextRow
	sharers := map[*heldPage]int{} // sharers of a partial page, so far
	named := make([][]int32, len(list))
	joined := map[int32]bool{}
	for i, r := range list {
		more := ceilDiv(r.until, pageSize) - len(r.pages)
		need, own = need+more, own+min(more, r.unheld(pageSize))
		if r.borrows(pageSize) {
			page := r.pages[len(r.pages)-1]
			if sharers[page]++; sharers[page] < page.holders { // else all others get another page
				borrowers = append(borrowers, r)
			}
		} else if r.rewrites(pageSize) {
			if t.between == nil {
				t.forgetPage(r.pages[len(r.pages)-1])
			} else {
				borrowers = append(borrowers, r) // a row of the run may hold it
			}
		}
		named[i] = t.namedNext(r)
		need -= len(named[i])
		for _, page := range named[i] {
			joined[page] = true
		}
	}
	need += t.notHeld(joined) + len(borrowers)
	if err := t.enough(need, own, "running the tokens of contexts"); err != nil {
		return err
	}
	if err := t.own(borrowers); err != nil {
		return err
	}
	for i, r := range list {
		r.from, r.flushing = len(r.names), r.until
		if len(named[i]) > 0 {
			if err := t.joinNamed(r, named[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// scheduleTokens has the next calls run the tokens of the first contexts of list, as many as they have room for.
func (t *table) scheduleTokens(list []*contextRow) (scheduled []*contextRow, err error) {
	list = slices.DeleteFunc(slices.Clone(list), (*contextRow).flushed)
	room, n := t.core.Graphs().PromptLimit, 0
	if t.between != nil {
		room = t.between.Room()
	}
	for n < len(list) && list[n].until-list[n].done <= room {
		room -= list[n].until - list[n].done
		n++
	}
	if n == 0 && len(list) > 0 {
		t.between.Want(1)
		return nil, errLater
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list[:n], t.runVerbs(func(in *device.VerbsInput) {
		for i, r := range list {
			if in.MaxPages[r.row] = int32(r.guaranteed(t.pageSize)); i < n {
				r.scheduled = r.until
				in.PromptLens[r.row] = int32(r.scheduled)
			}
		}
	})
}

// endScheduled unschedules the tokens that this run did not run because it was cancelled.
func (t *table) endScheduled() error {
	return t.unschedule(slices.DeleteFunc(t.open(), func(r *contextRow) bool { return r.done >= r.scheduled }))
}

// unschedule keeps later calls from running the waiting tokens of contexts.
func (t *table) unschedule(list []*contextRow) error {
	if len(list) == 0 {
		return nil
	}
	defer t.tell()
	return t.runVerbs(func(in *device.VerbsInput) {
		for _, r := range list {
			r.scheduled = 0
			in.PromptLens[r.row], in.MaxPages[r.row] = int32(r.done), int32(max(r.guaranteed(t.pageSize), len(r.pages)))
		}
	})
}

// endFlush gives up the pages that were reserved for tokens that were not run, and names the full pages.
func (t *table) endFlush(list []*contextRow) error {
	list = slices.DeleteFunc(slices.Clone(list), func(r *contextRow) bool {
		return r.usable() != nil || r.flushing == 0
	})
	var short []*contextRow
	for _, r := range list {
		if r.flushing = 0; r.done < r.until {
			short = append(short, r)
		}
	}
	if err := t.unschedule(short); err != nil {
		return err
	}
	return t.commit(list)
}
