package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/quire/quire/engine"
)

// Equal pages that two contexts computed at once are one when both have committed them, whoever goes first, and also
// where a snapshot is opened beside its original; what they draw is the same, and what a fork holds stays.
func TestEqualPagesEndAsOne(t *testing.T) {
	ctx := t.Context()
	e := contextEngine(t, nil)
	all := e.FreePages()
	r := contractRequests()[13] // 100 tokens, 6 full pages
	want := collect(t, e, r)
	free := func(what string, held int) {
		t.Helper()
		if e.FreePages() != all-held {
			t.Errorf("%s: %d pages are held, want %d", what, all-e.FreePages(), held)
		}
	}
	a, b := open(t, e, r.Tokens...), open(t, e, r.Tokens...)
	if err := e.Flush(ctx, a, b); err != nil {
		t.Fatal(err)
	}
	free("two of 7 pages", 14)
	f := fork(t, b)
	free("and a fork, which takes none yet", 14)
	if err := errors.Join(a.Commit(4), b.Commit(2)); err != nil {
		t.Fatal(err)
	}
	free("the fork holds what b gave up", 14)
	if err := errors.Join(f.Commit(6)); err != nil {
		t.Fatal(err)
	}
	free("a's four serve the fork, whose own first two nobody has now", 12)
	if err := b.Commit(4); err != nil {
		t.Fatal(err)
	}
	free("and b too: 6, and the 2 partial ones, and two of a's that are not committed", 10)
	if err := a.Commit(2); err != nil {
		t.Fatal(err)
	}
	free("all", 8)
	if counts := b.Counts(); counts.Shared != 7 || counts.Committed != 6 {
		t.Errorf("%+v", counts)
	}
	if err := errors.Join(a.Commit(0), a.Save("a"), a.Close()); err != nil {
		t.Fatal(err)
	}
	free("without the first", 7)
	back, err := e.OpenSnapshot("a")
	if err != nil {
		t.Fatal(err)
	}
	free("come back", 8)
	cut := fork(t, back)
	if err := errors.Join(cut.Truncate(4), cut.Save("whole pages"), cut.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := e.OpenSnapshot("whole pages")
	if err != nil {
		t.Fatal(err)
	}
	free("come back, nothing but full pages", 8)
	if err := whole.Append(r.Tokens[96:]...); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*engine.Context{b, f, back, whole} {
		drawsTheSame(t, "with pages of others", c, r, want)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	free("all closed", 0)
}

// drawsTheSame compares what a context draws that has all the tokens of a request with what the request drew.
func drawsTheSame(t *testing.T, what string, c *engine.Context, r *engine.Request, want map[string]*engine.Completion) {
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
