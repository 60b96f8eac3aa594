package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/contexts"
)

// Equal pages that two contexts compute at once become one, also where a snapshot is opened beside its original, and
// where a context comes to them from the middle of a page; what they draw is the same, and what a fork holds stays.
func TestEqualPagesEndAsOne(t *testing.T) {
	ctx := t.Context()
	e := contextEngine(t, nil)
	all := e.Contexts().FreePages()
	r := contractRequests()[13] // 100 tokens, 6 full pages
	want := collect(t, e, r)
	free := func(what string, held int) {
		t.Helper()
		if e.Contexts().FreePages() != all-held {
			t.Errorf("%s: %d pages are held, want %d", what, all-e.Contexts().FreePages(), held)
		}
	}
	a, b := open(t, e, r.Tokens...), open(t, e, r.Tokens...)
	if err := e.Contexts().Flush(ctx, a, b); err != nil {
		t.Fatal(err)
	}
	free("6 pages in common, and two partial ones", 8)
	f := fork(t, b)
	free("and a fork, which takes none yet", 8)
	late := open(t, e, r.Tokens[:90]...)
	if err := late.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	free("5 pages were there already", 9)
	if err := errors.Join(late.Append(r.Tokens[90:]...), late.Flush(ctx)); err != nil {
		t.Fatal(err)
	}
	free("and the sixth was not, but is equal", 9)
	if counts := b.Counts(); counts.Shared != 7 || counts.Committed != 6 {
		t.Errorf("%+v", counts)
	}
	if err := errors.Join(late.Close(), a.Save("a"), a.Close()); err != nil {
		t.Fatal(err)
	}
	free("without the first", 7)
	back, err := e.Contexts().OpenSnapshot("a")
	if err != nil {
		t.Fatal(err)
	}
	free("come back", 8)
	cut := fork(t, back)
	if err := errors.Join(cut.TruncateCommitted(4), cut.Save("whole pages"), cut.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := e.Contexts().OpenSnapshot("whole pages")
	if err != nil {
		t.Fatal(err)
	}
	free("come back, nothing but full pages", 8)
	if err := whole.Append(r.Tokens[96:]...); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*contexts.Context{b, f, back, whole} {
		drawsTheSame(t, "with pages of others", c, r, want)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	free("all closed", 0)
}

// A context begins with pages that have names, though nobody holds them any more, and runs the rest; what is cut off
// and comes again is not run again. A page that is written to after a cut loses its name first.
func TestContextsBeginWithNamedPages(t *testing.T) {
	ctx := t.Context()
	e := contextEngine(t, func(c *engine.Config) { c.HostKVMemory = 0 })
	r := contractRequests()[13] // 100 tokens, 6 full pages
	want := collect(t, contractEngine(t, nil), r)
	runs := 0 // programs that ran tokens of contexts
	e.CountPrefill(&runs)
	flush := func(what string, c *contexts.Context, tokens int) {
		t.Helper()
		runs = 0
		if err := c.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if runs != tokens {
			t.Errorf("%s: %d tokens were run, want %d", what, runs, tokens)
		}
	}
	collect(t, e, r)
	c := open(t, e, r.Tokens...)
	flush("after a request", c, 4)
	drawsTheSame(t, "after a request", c, r, want)
	if err := errors.Join(c.TruncateCommitted(60), c.Append(r.Tokens[40:]...)); err != nil {
		t.Fatal(err)
	}
	flush("cut in the middle of a page", c, 60)
	drawsTheSame(t, "cut in the middle of a page", c, r, want)
	if err := errors.Join(c.TruncateCommitted(100), c.Append(r.Tokens...)); err != nil {
		t.Fatal(err)
	}
	flush("come again", c, 4)
	drawsTheSame(t, "come again", c, r, want)

	// 64 tokens, cut to 60 and gone on otherwise: what the fourth page had is not found under its name.
	if err := errors.Join(c.TruncateCommitted(40), c.Append(9, 9, 9, 9, 9)); err != nil {
		t.Fatal(err)
	}
	flush("gone on otherwise", c, 5)
	sameBytes(t, want, collect(t, e, r), true)
	other := open(t, e, r.Tokens...)
	flush("beside it", other, 4)
	drawsTheSame(t, "beside it", other, r, want)
}

// drawsTheSame compares what a context draws that has all the tokens of a request with what the request drew.
func drawsTheSame(t *testing.T, what string, c *contexts.Context, r *engine.Request,
	want map[string]*engine.Completion) {
	t.Helper()
	rest := *r
	rest.Tokens = nil
	completions, err := c.Generate(t.Context(), &rest)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range completions {
		if w := want[key(d)]; !slices.Equal(d.Tokens, w.Tokens) || !slices.Equal(bits(d.Logprobs), bits(w.Logprobs)) {
			t.Errorf("%s: %s: %v, want %v", what, key(d), d.Tokens, w.Tokens)
		}
	}
}

func key(c *engine.Completion) string { return fmt.Sprintf("%s/%d", c.Request.ID, c.Generation) }
