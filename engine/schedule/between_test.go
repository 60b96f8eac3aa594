package schedule_test

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/engine/schedule"
)

// owned is a context, as its owner knows it.
type owned struct {
	row      int
	tokens   []int32 // that it is to have
	done     int
	maxPages int // held or reserved
	named    int // full pages whose names are known
}

// operation is what a test does to a context between two calls.
type operation struct {
	after  int // how many calls
	kind   string
	of     int // which of the contexts
	n      int
	tokens []int32
}

func (w *work) pages(tokens int) int { return (tokens + w.device.PageSize - 1) / w.device.PageSize }

// drawContexts draws contexts that hold pages, or have some reserved.
func (w *work) drawContexts(t *rapid.T, prompt func(name string) []int32, pool *int) {
	for row := w.device.FirstContext(); row < w.device.FirstContext()+w.device.Contexts; row++ {
		tokens := prompt("context")
		need := w.pages(len(tokens)) + rapid.IntRange(0, 3).Draw(t, "reserved")
		if *pool-need < 1 {
			break
		}
		*pool -= need
		w.device.OpenContext(row, tokens, need)
		w.contexts = append(w.contexts, &owned{row: row, tokens: tokens, done: len(tokens), maxPages: need,
			named: len(tokens)})
	}
}

// drawOperations draws what happens to contexts during the run, and the requests that come by such operations.
func (w *work) drawOperations(t *rapid.T, tokens *rapid.Generator[[]int32]) {
	if w.device.Contexts == 0 || rapid.Bool().Draw(t, "contexts stay as they are") {
		return
	}
	what := rapid.SampledFrom([]string{"open", "extend", "extend", "extend", "fork", "cut", "reserve", "close", "add"})
	for range rapid.IntRange(0, 12).Draw(t, "operations") {
		w.operations = append(w.operations, operation{after: rapid.IntRange(0, 12).Draw(t, "calls before it"),
			kind: what.Draw(t, "what"), of: rapid.IntRange(0, 3).Draw(t, "of"), n: rapid.IntRange(0, 8).Draw(t, "n"),
			tokens: tokens.Draw(t, "more")})
	}
	slices.SortStableFunc(w.operations, func(a, b operation) int { return a.after - b.after })
	for _, o := range w.operations {
		if n := len(w.requests); o.kind == "add" && n > 1 {
			w.guests, w.requests = append(w.guests, w.requests[n-1]), w.requests[:n-1]
		}
	}
}

// list is the contexts as a run takes them, and the pages that they leave to it: all, and those not reserved.
func (w *work) list() (list []*schedule.Context, free, pool int) {
	for _, c := range w.contexts {
		list = append(list, &schedule.Context{Row: c.row, Tokens: slices.Clone(c.tokens), Done: c.done,
			MaxPages: c.maxPages})
	}
	held, reserved := w.device.OfContexts()
	return list, w.device.Sizes.Pages - held, w.device.Sizes.Pages - held - reserved
}

// offerOperations puts what is to be done now where the run finds it.
func (w *work) offerOperations(calls int) {
	for len(w.operations) > 0 && w.operations[0].after <= calls {
		o := w.operations[0]
		w.operations = w.operations[1:]
		w.between <- schedule.NewOperation(func(b *schedule.Between) bool { return w.do(b, o) })
	}
}

// do does an operation; later says that it can't be done now.
func (w *work) do(b *schedule.Between, o operation) (later bool) {
	if o.kind == "add" {
		if len(w.guests) > 0 {
			w.requests, w.guests = append(w.requests, w.guests[0]), w.guests[1:]
			w.did["add"]++
			b.Add(w.requests[len(w.requests)-1])
		}
		return false
	}
	if o.kind == "open" {
		later = w.fork(b, nil, o.tokens)
	} else if len(w.contexts) > 0 {
		c := w.contexts[o.of%len(w.contexts)]
		switch o.kind {
		case "fork":
			later = w.fork(b, c, nil)
		case "extend":
			later = c.done < len(c.tokens) || w.extend(b, c, o.tokens)
		case "reserve":
			later = w.reserve(b, c, o.n)
		case "cut":
			later = w.cut(b, c, max(0, len(c.tokens)-o.n))
		case "close":
			if later = c.done < len(c.tokens) || b.Begins(c.row); !later {
				w.verbs(b, func() { w.device.CloseContext(c.row) })
				w.contexts = slices.DeleteFunc(w.contexts, func(other *owned) bool { return other == c })
			}
		}
	}
	if !later {
		w.did[o.kind]++
	} else {
		w.did["waits"]++
	}
	list, free, pool := w.list()
	b.Contexts(list, free, pool)
	return later
}

// verbs changes the device between two calls, and tells the index of it.
func (w *work) verbs(b *schedule.Between, do func()) {
	pageFates := w.device.Verbs(do)
	if w.index != nil {
		w.index.Tick()
		for page, v := range pageFates {
			owner, _, held := w.device.PageFate(v)
			if owner >= 0 {
				w.index.Forget(int32(page))
			}
			w.index.Hold(int32(page), held)
		}
	}
	b.FreePages(w.device.Free())
}

// enough says whether there are pages, own of which nobody else gets, or there will be.
func (w *work) enough(b *schedule.Between, need, own int) (ok, later bool) {
	ok, later = b.Take(need - own)
	if !ok && !later {
		w.did["refused"]++
	}
	return ok, later
}

// fork begins a context: with the tokens of another, or with others that are run.
func (w *work) fork(b *schedule.Between, of *owned, tokens []int32) (later bool) {
	row := w.device.FirstContext()
	for slices.ContainsFunc(w.contexts, func(c *owned) bool { return c.row == row }) {
		row++
	}
	if row == w.device.FirstContext()+w.device.Contexts || of != nil && of.done < len(of.tokens) {
		return false
	}
	c := &owned{row: row}
	w.verbs(b, func() {
		if of == nil {
			w.device.OpenContext(row, nil, 0)
			return
		}
		w.device.Fork(row, of.row)
		c.tokens, c.done, c.named = slices.Clone(of.tokens), of.done, of.named
	})
	if w.contexts = append(w.contexts, c); of == nil {
		_ = w.extend(b, c, tokens) // or it stays empty
		return false
	}
	return false
}

// extend has the next calls run more tokens of a context.
func (w *work) extend(b *schedule.Between, c *owned, tokens []int32) (later bool) {
	length := len(c.tokens) + len(tokens)
	if len(tokens) == 0 || length > 40 {
		return false
	}
	held := w.pages(c.done)
	need := w.pages(length) - held
	own := min(need, max(0, c.maxPages-held))
	if w.device.Borrows(c.row) {
		need++
	}
	if ok, later := w.enough(b, need, own); !ok {
		return later
	}
	if len(tokens) > b.Room() {
		b.Want(1)
		return true
	}
	w.verbs(b, func() {
		if c.done%w.device.PageSize != 0 {
			if page, copied := w.device.Own(c.row); !copied && w.index != nil {
				w.index.Forget(page) // it is written to
			}
		}
		c.tokens = append(slices.Clip(c.tokens), tokens...)
		c.maxPages = max(c.maxPages, w.pages(length))
		w.device.Promise(c.row, length, c.maxPages)
	})
	return false
}

// reserve makes pages sure for a context.
func (w *work) reserve(b *schedule.Between, c *owned, n int) (later bool) {
	if c.done < len(c.tokens) {
		return true
	}
	all := max(c.maxPages, w.pages(c.done)) + n
	need := all - max(c.maxPages, w.pages(c.done))
	if ok, later := w.enough(b, need, 0); !ok {
		return later
	}
	w.verbs(b, func() {
		c.maxPages = all
		w.device.Promise(c.row, c.done, all)
	})
	return false
}

// cut makes a context shorter.
func (w *work) cut(b *schedule.Between, c *owned, length int) (later bool) {
	if c.done < len(c.tokens) || b.Begins(c.row) {
		return true
	}
	w.verbs(b, func() {
		w.device.Cut(c.row, length)
		c.tokens, c.done, c.maxPages = c.tokens[:length:length], length, w.pages(length)
		c.named = min(c.named, length/w.device.PageSize)
		w.device.Promise(c.row, length, c.maxPages)
	})
	return false
}

// moved notes which tokens of a context a call ran.
func (w *work) moved(row, done int, pages []int32) {
	at := slices.IndexFunc(w.contexts, func(c *owned) bool { return c.row == row })
	c := w.contexts[at]
	c.done = done
	if w.index == nil {
		return
	}
	chain := prefix.Chain(seed, c.tokens[:done], w.device.PageSize)
	for ; c.named < len(chain); c.named++ {
		if c.named < len(pages) && pages[c.named] != schedule.None {
			w.index.Name(pages[c.named], chain, c.named)
		}
	}
}

// endRides has no later run run what this one did not: it was cancelled, or failed.
func (w *work) endRides() {
	for _, c := range w.contexts {
		c.tokens = c.tokens[:c.done:c.done]
		w.device.Promise(c.row, c.done, c.maxPages)
	}
}

// contextsAreWhole compares the rows of contexts with what they must have, and says that they alone hold pages.
func (w *work) contextsAreWhole(t *rapid.T) {
	rows := map[int]bool{}
	for _, c := range w.contexts {
		rows[c.row] = true
		if tokens, used := w.device.Tokens(c.row); !used || !slices.Equal(tokens, c.tokens) {
			t.Fatalf("the context of row %d has %v, not %v", c.row, tokens, c.tokens)
		}
	}
	for row := range w.device.Rows() {
		if _, used := w.device.Tokens(row); used != rows[row] {
			t.Fatalf("row %d is used when the run is over: %v", row, used)
		}
	}
	if held, _ := w.device.OfContexts(); w.device.Free() != w.device.Sizes.Pages-held {
		t.Fatalf("%d pages are free after the run, and contexts hold %d of %d", w.device.Free(), held,
			w.device.Sizes.Pages)
	}
}

// errShort refuses a request for which contexts leave too few pages.
var errShort = errors.New("contexts hold pages")

func short(need, pool int) error { return fmt.Errorf("%w: %d of %d", errShort, need, pool) }

// kinds are all that operations may come to.
var kinds = []string{"open", "extend", "fork", "cut", "reserve", "close", "add", "waits", "refused"}
