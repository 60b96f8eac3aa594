package contexts

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/tree"
)

// table is the rows of contexts on the host and on the device. All changes of both go through it, under Contexts.mu. A
// method first changes pages in the account, and the device must reach the same result.
type table struct {
	account
	names
	core    *core.Core
	swapper *core.Swapper
	host    *schedule.HostCache // nil without Config.HostKVMemory
	saved   map[string]*savedContext
	// between is there while an operation is done between two calls of a run.
	between *schedule.Between
	changed chan struct{} // closed when tokens were run that somebody may wait for; nil if nobody waits
	// inspect adds to a failure the path that the device's tables were written to.
	inspect func(error) error
	forget  func() // the names of all pages
}

// savedContext is a context that was saved by name.
type savedContext struct {
	tokens []int32
	names  []prefix.Hash // names of the full pages
	pages  *schedule.Pages
	bytes  int64
	mixed  int // see contextRow
}

// releaseContexts gives back the rows and pages of contexts.
func (t *table) releaseContexts(list ...*contextRow) error {
	for _, r := range list {
		t.cut(r, 0)
		t.rows[r.row-t.first] = nil
		r.closed, r.tokens, r.reserved, r.flushing, r.scheduled = true, nil, 0, 0, 0
	}
	return t.runVerbs(func(in *device.VerbsInput) {
		for _, r := range list {
			in.Release[r.row] = true
		}
	})
}

// runVerbs runs the context program. The verbs' changes of pages are in the account already: the device must reach the
// same result.
func (t *table) runVerbs(fill func(in *device.VerbsInput)) error {
	p := t.core.Program(device.Verbs)
	in := t.core.Graphs().NewVerbs()
	fill(in)
	got, err := core.Execute[device.VerbsOutput](t.core, p, tree.Arrays(in))
	return t.settle(p, got, err)
}

// settle checks what a program did. If it failed, the state on the device can't be trusted any more.
func (t *table) settle(p *device.Compiled, got *device.VerbsOutput, err error) error {
	if err == nil {
		err = got.Status.Check(got.Rules, t.pinnedPages())
	}
	if err == nil {
		t.settleTaken(got.Pages)
		free, want := int(got.EndFree), t.pages-t.used
		if between := t.between; between != nil {
			between.FreePages(free) // its rows hold some
		} else if free != want {
			err = fmt.Errorf("%w: %d are free on the device, and %d should be", schedule.ErrPagesLost, free, want)
		}
	}
	if err != nil {
		err = fmt.Errorf("program %s: %w", p.Name, err)
		if t.between == nil {
			err = t.inspect(err)
		}
		t.failed(err)
	}
	return err
}

// failed notes that an operation left the device in the middle of something.
func (t *table) failed(err error) {
	t.lose()
	if t.between != nil {
		t.between.Fail(err)
	}
}

// lose gives up the device state: the next run or operation starts with an empty one, and contexts are lost.
func (t *table) lose() {
	t.core.DropState()
	t.forget()
	for _, r := range t.open() {
		r.lost, r.pages, r.reserved, r.flushing, r.scheduled = true, nil, 0, 0, 0
		t.rows[r.row-t.first] = nil
	}
	t.used = 0
	clear(t.byID)
	t.tell()
}

// begin returns how many of the first n tokens that a context has run it can continue with, if it has run more: with
// states, only whole pages of them, because pages have the states of their ends.
func (t *table) begin(n int) int {
	if t.sizes.States {
		n -= n % t.pageSize
	}
	return n
}

// enough returns an error unless there are need pages, own of which are kept for the caller. In a run it returns
// errLater if there will be enough.
func (t *table) enough(need, own int, what string) error {
	free := t.freePages()
	if between := t.between; between != nil {
		if now, later := between.Take(need - own); now {
			return nil
		} else if later {
			return errLater
		}
		free = min(free, max(0, between.Free()))
	} else if need <= free+own {
		return nil
	}
	return t.enoughOf(t.freePages(), need, free+own, what)
}

// fork starts the row n with the first held tokens of r, sharing the partial page or with a copy of it.
func (t *table) fork(r, n *contextRow, held int, lazy bool) error {
	full, all := held/t.pageSize, ceilDiv(held, t.pageSize)
	shared := full
	if lazy {
		shared = all
	}
	if err := t.enough(all-shared, n.reserved, "copying the partial page of a context"); err != nil {
		return err
	}
	t.share(n, r, shared)
	t.grow(n, all)
	n.tokens, n.done, n.names = slices.Clone(r.tokens[:held]), held, slices.Clone(r.names[:full])
	n.mixed = r.mixed
	n.from = full
	return t.runVerbs(func(in *device.VerbsInput) {
		in.Sources[n.row], in.Held[n.row], in.Lazy[n.row] = int32(r.row), int32(held), lazy
		in.PromptLens[n.row], in.MaxPages[n.row] = int32(held), int32(n.reserved)
	})
}

// cutContext makes a context shorter, and sets the pages that are sure for it. If any are, it gets its partial page
// alone.
func (t *table) cutContext(r *contextRow, length, reserved int) error {
	pageSize, inRun := t.pageSize, t.between != nil
	done := min(r.done, length)
	if done < r.done {
		done = t.begin(done)
	}
	keep := ceilDiv(done, pageSize)
	cut, promised := done < r.done, reserved != r.reserved
	if cut {
		if err := t.unused(r); err != nil {
			return err
		}
	}
	copies := isGuaranteed(reserved, keep) && done%pageSize != 0 &&
		(r.pages[keep-1].holders > 1 || inRun && r.pages[keep-1].full)
	// Pages that stay promised, or are promised now, come from what was promised and what the cut frees, which others
	// may hold too.
	need, spare := 0, r.unheld(pageSize)-max(0, reserved-keep)
	for _, page := range r.pages[keep:] {
		if page.holders == 1 && !inRun { // rows of a run may hold it
			spare++
		}
	}
	if copies {
		need++
	}
	if err := t.enough(need+max(0, -spare), max(0, spare), "reserving pages"); err != nil {
		return err
	}
	r.tokens, r.done, r.reserved = r.tokens[:length], done, reserved
	r.names, r.from = r.names[:done/pageSize], min(r.from, done/pageSize)
	if r.mixed > 0 { // what it runs next is not what it ran there before
		r.mixed = t.mark()
	}
	if !cut && !promised && !copies {
		return nil
	}
	t.cut(r, keep)
	err := t.runVerbs(func(in *device.VerbsInput) {
		if cut {
			in.Lens[r.row], in.PromptLens[r.row] = int32(done), int32(done)
		}
		in.MaxPages[r.row] = int32(reserved)
	})
	if err == nil && copies {
		err = t.own([]*contextRow{r})
	}
	return err
}

// own gives contexts pages of their own in place of partial ones that others hold too, or may hold. A page that nobody
// else holds stays, and loses its name: it is written to.
func (t *table) own(list []*contextRow) error {
	if len(list) == 0 {
		return nil
	}
	before := make([]heldPage, len(list))
	for i, r := range list {
		before[i] = *r.pages[len(r.pages)-1]
	}
	t.account.own(list...)
	err := t.runVerbs(func(in *device.VerbsInput) {
		for _, r := range list {
			in.Own[r.row] = true
		}
	})
	for i, r := range list {
		if err != nil || t.index == nil {
			break
		}
		if page := r.pages[len(r.pages)-1]; page.id == schedule.None { // it was not copied
			page.id = before[i].id
			t.byID[page.id] = page
			t.forgetPage(page)
		}
	}
	return err
}

// joinNamed lets a context continue with named pages.
func (t *table) joinNamed(r *contextRow, named []int32) error {
	t.index.Share(named...)
	t.join(r, named)
	r.done = len(r.pages) * t.pageSize
	return t.runVerbs(func(in *device.VerbsInput) {
		copy(in.Named, named)
		in.Counts[r.row], in.PromptLens[r.row] = int32(len(named)), int32(r.done)
	})
}

// commit names the pages of contexts that are full now. If another context already has pages with these names, the
// context takes them over.
func (t *table) commit(list []*contextRow) error {
	for _, r := range list {
		from := r.from
		t.name(r)
		r.from = len(r.names)
		of, pages := t.equalPages(r, r.names)
		if !t.adopt(r, of, from, pages) {
			continue
		}
		err := t.runVerbs(func(in *device.VerbsInput) {
			in.Equals[r.row], in.EqualFrom[r.row], in.EqualTo[r.row] = int32(of.row), int32(from), int32(pages)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// errLater means that an operation has to wait for the run.
var errLater = errors.New("later")

// unused returns errLater if a request waits that begins with the context: it may not be cut yet.
func (t *table) unused(r *contextRow) error {
	if t.between != nil && t.between.Begins(r.row) {
		return errLater
	}
	return nil
}

// watch returns a channel that is closed when a call has run tokens of contexts.
func (t *table) watch() <-chan struct{} {
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// tell wakes the goroutines that wait for tokens to be run.
func (t *table) tell() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}
