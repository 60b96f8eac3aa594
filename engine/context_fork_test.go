package engine_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/contexts"
	"github.com/quire/quire/pagetable"
)

// A fork takes no page until one of the two writes to the partial one, whichever does; what the other goes on with is
// as it was. With pages reserved the copy is made at once, so that what is reserved suffices though nothing else is
// free.
func TestForkCopiesAtTheFirstWrite(t *testing.T) {
	ctx := t.Context()
	e := contextEngine(t, nil)
	r := contractRequests()[13] // 100 tokens: 6 full pages and 4 tokens of the seventh
	r.Tokens = r.Tokens[:100]
	want := collect(t, e, r)
	all := e.Contexts().FreePages()
	held := func(what string, n int) {
		t.Helper()
		if e.Contexts().FreePages() != all-n {
			t.Fatalf("%s: %d pages are held, want %d", what, all-e.Contexts().FreePages(), n)
		}
	}
	check := func(what string, c *contexts.Context) {
		t.Helper()
		drawsTheSame(t, what, c, r, want)
	}
	write := func(c *contexts.Context) {
		t.Helper()
		if err := errors.Join(c.Append(7, 7, 7), c.Flush(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	for _, who := range []string{"the fork", "the original"} {
		a := open(t, e, r.Tokens...)
		b := fork(t, a)
		c := fork(t, b)
		held("two forks", 7)
		writer, others := b, []*contexts.Context{a, c}
		if who == "the original" {
			writer, others = a, []*contexts.Context{b, c}
		}
		write(writer)
		held(who+" wrote", 8)
		for _, o := range others {
			check(who+" wrote", o)
		}
		write(others[0])
		held("another wrote", 9)
		check("two wrote", others[1])
		write(others[1])
		held("the last writes in place", 9)
		for _, x := range []*contexts.Context{a, b, c} {
			if err := errors.Join(x.TruncateCommitted(3)); err != nil {
				t.Fatal(err)
			}
			check("after all", x)
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
		}
		held("closed", 0)
	}

	a := open(t, e, r.Tokens...)
	if err := errors.Join(a.Flush(ctx), a.Reserve(2)); err != nil {
		t.Fatal(err)
	}
	b := fork(t, a)
	held("7, 2 reserved and the copy", 10)
	c := fork(t, b) // shares b's: b has nothing reserved
	rest := reserveAllBut(t, e, 0)
	var short pagetable.ErrOutOfPages
	if err := errors.Join(b.Append(1), b.Flush(ctx)); !errors.As(err, &short) || short.Need != 1 || short.Have != 0 {
		t.Errorf("a write to a shared page without a free one: %v", err)
	}
	if err := b.TruncateCommitted(1); err != nil {
		t.Error(err)
	}
	if err := errors.Join(a.Append(make([]int32, 12+32)...), a.Flush(ctx)); err != nil {
		t.Errorf("what was reserved does not suffice: %v", err)
	}
	for _, x := range append(rest, a) {
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check("beside a full pool", b)
	check("beside a full pool", c)
	if err := errors.Join(b.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}
}

// reserveAllBut opens contexts that reserve all free pages but some.
func reserveAllBut(t *testing.T, e *engine.Engine, free int) (with []*contexts.Context) {
	t.Helper()
	for e.Contexts().FreePages() > free {
		c := open(t, e)
		if err := c.Reserve(min(e.Contexts().FreePages()-free, e.Plan().PagesPerSeq)); err != nil {
			t.Fatal(err)
		}
		with = append(with, c)
	}
	t.Cleanup(func() { runtime.KeepAlive(with) }) // one that is forgotten gives its pages back
	return with
}

// What is reserved stays sure when a context is cut: pages that a fork holds too do not come back, so the cut is
// refused where they would be promised twice. Contexts that share a partial page and write in the same steps take one
// page less than they are.
func TestCutsAndWritesWithForks(t *testing.T) {
	ctx := t.Context()
	for _, by := range []int{32, 28} { // to the end of a page, and into one
		e := contextEngine(t, nil)
		c := open(t, e, make([]int32, 48)...)
		if err := errors.Join(c.Flush(ctx), c.Reserve(1)); err != nil {
			t.Fatal(err)
		}
		f := fork(t, c)
		d := reserveAllBut(t, e, 0)[0]
		copies := 0
		if by%16 != 0 {
			copies = 1
		}
		var short pagetable.ErrOutOfPages
		if err := c.TruncateCommitted(by); !errors.As(err, &short) || short.Need != by/16+copies || short.Have != 0 {
			t.Errorf("cutting %d tokens of pages that a fork holds: %v", by, err)
		}
		if e.Contexts().FreePages() != 0 || c.Len() != 48 {
			t.Errorf("%d pages are free, the context has %d tokens", e.Contexts().FreePages(), c.Len())
		}
		if err := errors.Join(f.Close(), c.TruncateCommitted(by), c.Append(make([]int32, by+16)...), c.Flush(ctx),
			d.Append(1), d.Flush(ctx)); err != nil {
			t.Errorf("without the fork: %v", err)
		}
	}

	e := contextEngine(t, nil)
	a := open(t, e, make([]int32, 20)...)
	b := fork(t, a)
	c := fork(t, a)
	reserveAllBut(t, e, 2)
	for i, x := range []*contexts.Context{a, b, c} {
		if err := x.Append(int32(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Contexts().Flush(ctx, a, b, c); err != nil {
		t.Errorf("three sharers of a page, and two pages are free: %v", err)
	}
	if e.Contexts().FreePages() != 0 {
		t.Errorf("%d pages are free", e.Contexts().FreePages())
	}
}
