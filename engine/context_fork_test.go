package engine_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/pagetable"
)

// A fork takes no page until one of the two writes to the partial one, whichever does; what the other goes on with is as it was. With pages
// reserved the copy is made at once, so that what is reserved suffices though nothing else is free.
func TestForkCopiesAtTheFirstWrite(t *testing.T) {
	ctx := t.Context()
	e := contextEngine(t, func(c *engine.Config) { c.KVMemory = pagesOf(24) })
	r := contractRequests()[13] // 100 tokens: 6 full pages and 4 tokens of the seventh
	r.Tokens = r.Tokens[:100]
	want := collect(t, e, r)
	all := e.FreePages()
	held := func(what string, n int) {
		t.Helper()
		if e.FreePages() != all-n {
			t.Fatalf("%s: %d pages are held, want %d", what, all-e.FreePages(), n)
		}
	}
	check := func(what string, c *engine.Context) {
		t.Helper()
		rest := *r
		rest.Tokens = nil
		completions, err := c.Generate(ctx, &rest)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range completions {
			if w := want[key(d)]; !slices.Equal(d.Tokens, w.Tokens) || !slices.Equal(bits(d.Logprobs), bits(w.Logprobs)) {
				t.Errorf("%s: %s: %v, want %v", what, key(d), d.Tokens, w.Tokens)
			}
		}
	}
	write := func(c *engine.Context) {
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
		writer, others := b, []*engine.Context{a, c}
		if who == "the original" {
			writer, others = a, []*engine.Context{b, c}
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
		for _, x := range []*engine.Context{a, b, c} {
			if err := errors.Join(x.Truncate(3)); err != nil {
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
	var rest []*engine.Context
	for e.FreePages() > 0 {
		more := open(t, e)
		if err := more.Reserve(min(e.FreePages(), e.Plan().PagesPerSeq)); err != nil {
			t.Fatal(err)
		}
		rest = append(rest, more)
	}
	var short pagetable.ErrOutOfPages
	if err := errors.Join(b.Append(1), b.Flush(ctx)); !errors.As(err, &short) || short.Need != 1 || short.Have != 0 {
		t.Errorf("a write to a shared page without a free one: %v", err)
	}
	if err := b.Truncate(1); err != nil {
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
