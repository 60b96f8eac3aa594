package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/contexts"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/pagetable"
)

// contextPages are enough for the contexts of most tests, and few enough for sequences to wait for one another: so all
// have the same programs.
const contextPages = 32

func contextEngine(t testing.TB, change func(*engine.Config)) *engine.Engine {
	return contractEngine(t, func(c *engine.Config) {
		c.Contexts, c.HostKVMemory, c.KVMemory = 8, 1<<20, pagesOf(contextPages)
		if change != nil {
			change(c)
		}
	})
}

func open(t testing.TB, e *engine.Engine, tokens ...int32) *contexts.Context {
	t.Helper()
	c, err := e.Contexts().Open()
	if err == nil {
		err = c.Append(tokens...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fork fails the test where it can't.
func fork(t testing.TB, c *contexts.Context) *contexts.Context {
	t.Helper()
	f, err := c.Fork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func closeTo(a, b []float32, within float64) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) <= within })
}

// A completion of a context is the one of a request with the same tokens, bit for bit, however the context came to its
// tokens; and its tokens score as they were drawn.
func TestContextGeneratesTheSame(t *testing.T) {
	want := collect(t, contractEngine(t, func(c *engine.Config) { c.NoPrefixCache = true }), contractRequests()...)
	e := contextEngine(t, nil)
	free := e.Contexts().FreePages()
	for i, r := range contractRequests() {
		got := map[string]*engine.Completion{}
		tokens := r.Tokens
		cut := len(tokens) * (i % 4) / 4
		parent := open(t, e, tokens[:cut]...)
		c := fork(t, parent)
		rest := *r
		switch i % 3 {
		case 0: // the rest is the request's
			rest.Tokens = tokens[cut:]
		case 1: // or waits
			rest.Tokens = nil
			if err := c.Append(tokens[cut:]...); err != nil {
				t.Fatal(err)
			}
		case 2: // or comes after something else was cut off
			rest.Tokens = nil
			err := errors.Join(c.Append(1, 2, 3, 4, 5, 6, 7, 8, 9), c.Flush(t.Context()), c.TruncateCommitted(9),
				c.Append(tokens[cut:]...), c.Flush(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
		}
		completions, err := c.Generate(t.Context(), &rest)
		if err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
		for _, d := range completions {
			got[fmt.Sprintf("%s/%d", d.Request.ID, d.Generation)] = d
		}
		if len(got) != r.N {
			t.Errorf("%s: %d completions, want %d", r.ID, len(got), r.N)
		}
		sameBytes(t, want, got, false)

		d := completions[0]
		if err := c.Append(rest.Tokens...); err != nil {
			t.Fatal(err)
		}
		logprobs, err := c.Score(t.Context(), d.Tokens)
		if err != nil || !closeTo(logprobs, d.Logprobs, 1e-5) {
			t.Errorf("%s: score %v, drawn with %v: %v", r.ID, logprobs, d.Logprobs, err)
		}
		if err := errors.Join(c.Close(), parent.Close()); err != nil {
			t.Fatal(err)
		}
		if e.Contexts().FreePages() != free {
			t.Fatalf("%s: %d pages are free, %d were", r.ID, e.Contexts().FreePages(), free)
		}
	}
}

// Requests of many contexts run together, beside others that begin with what a context has.
func TestRunFromContexts(t *testing.T) {
	want := wantOfContract(t)
	e := contextEngine(t, nil)
	var requests []*engine.Request
	var contexts []*contexts.Context
	left := 0 // tokens that no context has, and the last token of each completion's prompt
	for i, r := range contractRequests() {
		if i%2 == 0 && len(contexts) < 7 {
			c := open(t, e, r.Tokens...)
			contexts = append(contexts, c)
			r.Context, r.Tokens = c, nil
		}
		left += len(r.Tokens) + r.N
		requests = append(requests, r)
	}
	last := contractRequests()[13].Tokens // 100 tokens
	c := open(t, e, last...)
	contexts = append(contexts, c)
	if err := e.Contexts().Flush(t.Context(), contexts...); err != nil {
		t.Fatal(err)
	}
	sameBytes(t, want, collectInOrder(t, e, requests...), true)
	s := e.Stats()
	if s.HitTokens < 96 || s.PrefillTokens > left-96 {
		t.Errorf("%d tokens were run and %d taken over: the contexts' were not", s.PrefillTokens, s.HitTokens)
	}
}

// Sequences that begin with contexts move to the host and back where pages are over-committed, and draw the same; the
// contexts stay.
func TestOvercommitBesideContexts(t *testing.T) {
	want := wantOfLong(t)
	e := contextEngine(t, nil)
	requests := longRequests(16)
	for _, r := range requests[:6] {
		c := open(t, e, r.Tokens...)
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.Context, r.Tokens = c, nil
	}
	free := e.Contexts().FreePages()
	sameBytes(t, want, collectInOrder(t, e, requests...), true)
	s := e.Stats()
	t.Logf("%d pages were left: %d moves of %d bytes", free, s.Preemptions, s.MovedBytes)
	if s.Preemptions == 0 || e.Contexts().FreePages() != free {
		t.Errorf("%d sequences were moved, %d pages are free, %d were", s.Preemptions, e.Contexts().FreePages(), free)
	}
}

func TestContextErrors(t *testing.T) {
	ctx := t.Context()
	e := contextEngine(t, nil)
	// 8 pages and 3 contexts are left.
	others := reserveAllBut(t, e, 8)
	for len(others) < e.Plan().Contexts-3 {
		others = append(others, open(t, e))
	}
	defer runtime.KeepAlive(others) // one that is forgotten gives its place back
	c := open(t, e, make([]int32, 40)...)
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	is := func(what string, err, target error) {
		t.Helper()
		if !errors.Is(err, target) {
			t.Errorf("%s: %v, want %v", what, err, target)
		}
	}
	is("more tokens than there are", c.TruncateCommitted(41), engine.ErrInvalidRequest)
	is("more pages than there are", c.Release(4), engine.ErrInvalidRequest)
	other := open(t, contextEngine(t, func(c *engine.Config) { c.Weights, c.Backend = "int8", testenv.Go(t) }),
		make([]int32, 40)...)
	if err := other.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	one, err := c.PageHash(0)
	two, err2 := other.PageHash(0)
	if err != nil || err2 != nil || one == two {
		t.Errorf("pages of other weights have the same name, or none: %v, %v", err, err2)
	}
	_, err = c.PageHash(2)
	is("the name of a partial page", err, contexts.ErrPartialPage{})
	var partial contexts.ErrPartialPage
	if errors.As(err, &partial); partial != (contexts.ErrPartialPage{Page: 2, Tokens: 8, PageSize: 16}) {
		t.Errorf("%+v", partial)
	}
	_, err = c.PageHash(3)
	is("the name of no page", err, contexts.ErrInvalidPage{})
	if counts := c.Counts(); counts != (contexts.PageCounts{Committed: 2, Working: 1, WorkingTokens: 8}) {
		t.Errorf("counts %+v", counts)
	}
	var pages pagetable.ErrOutOfPages
	if err := c.Reserve(6); !errors.As(err, &pages) ||
		pages != (pagetable.ErrOutOfPages{Need: 6, Have: 5, Pinned: e.Plan().Pages - 5}) {
		t.Errorf("reserving too much: %v", err)
	}
	if err := c.Reserve(5); err != nil || e.Contexts().FreePages() != 0 || c.Counts().Reserved != 5 {
		t.Errorf("reserving the rest: %v, %d free, %+v", err, e.Contexts().FreePages(), c.Counts())
	}
	d := open(t, e, 1)
	is("flushing where all is reserved", d.Flush(ctx), pagetable.ErrOutOfPages{})
	_, err = d.Generate(ctx, greedy("d", nil, 1))
	is("generating there", err, pagetable.ErrOutOfPages{})
	got := collect(t, e, greedy("plain", []int32{1, 2, 3}, 2))
	is("a request beside it", got["plain/0"].Err, pagetable.ErrOutOfPages{})
	if err := errors.Join(c.Append(make([]int32, 80)...), c.Flush(ctx)); err != nil || c.Counts().Reserved != 0 {
		t.Errorf("what is reserved is there: %v, %+v", err, c.Counts())
	}
	if err := c.TruncateCommitted(80); err != nil || e.Contexts().FreePages() != 0 {
		t.Errorf("reserved pages stay so: %v, %d free", err, e.Contexts().FreePages())
	}
	if err := c.Release(5); err != nil || e.Contexts().FreePages() != 5 {
		t.Errorf("released: %v, %d free", err, e.Contexts().FreePages())
	}
	is("a token", c.Append(256), engine.ErrInvalidRequest)
	is("too long", c.Append(make([]int32, 121)...), engine.ErrPromptTooLong)
	is("scoring after nothing", func() error { _, err := open(t, e).Score(ctx, []int32{1}); return err }(),
		engine.ErrEmptyPrompt)
	_, err = e.Contexts().Open()
	is("a fourth", err, contexts.ErrOutOfContexts)
	_, err = contractEngine(t, nil).Contexts().Open()
	is("an engine without", err, contexts.ErrNoContexts)

	for completion, err := range e.Run(ctx, slices.Values([]*engine.Request{greedy("r", []int32{1, 2}, 2)})) {
		if err != nil || completion.Err != nil {
			t.Fatal(err, completion)
		}
		is("a token while Run is under way", c.Append(256), engine.ErrInvalidRequest)
		_, err = e.PinPrefix(ctx, make([]int32, 16))
		is("pinning meanwhile", err, engine.ErrRunning)
		is("unpinning meanwhile", e.UnpinPrefix(make([]int32, 16)), engine.ErrRunning)
		_, err = e.SavePrefix(ctx, make([]int32, 16), io.Discard)
		is("saving meanwhile", err, engine.ErrRunning)
		_, err = e.LoadPrefix(strings.NewReader(""))
		is("loading meanwhile", err, engine.ErrRunning)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	is("after Close", d.Append(1), contexts.ErrClosed)
	if err := c.Close(); err != nil || e.Contexts().FreePages() != 8 {
		t.Errorf("closed: %v, %d free", err, e.Contexts().FreePages())
	}
}

// A run that is given up leaves contexts as they are.
func TestContextsOutliveACancelledRun(t *testing.T) {
	e := contextEngine(t, nil)
	r := contractRequests()[13]
	want := collect(t, e, r)
	c := open(t, e, r.Tokens...)
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	free := e.Contexts().FreePages()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range e.Run(ctx, slices.Values(longRequests(20))) {
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if e.Contexts().FreePages() != free {
		t.Errorf("%d pages are free, %d were", e.Contexts().FreePages(), free)
	}
	none := *r
	none.Tokens = nil
	completions, err := c.Generate(t.Context(), &none)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*engine.Completion{}
	for _, d := range completions {
		got[fmt.Sprintf("%s/%d", r.ID, d.Generation)] = d
	}
	sameBytes(t, want, got, true)
}

func TestContextSnapshots(t *testing.T) {
	ctx := t.Context()
	e := contextEngine(t, func(c *engine.Config) { c.HostKVMemory = 100 << 10 })
	r := contractRequests()[13]
	want := collect(t, e, r)
	free := e.Contexts().FreePages()
	c := open(t, e, r.Tokens[:90]...)
	if err := errors.Join(c.Flush(ctx), c.Append(r.Tokens[90:]...), c.Save("a")); err != nil {
		t.Fatal(err)
	}
	if err := c.Save("a"); !errors.Is(err, contexts.ErrSnapshotExists) {
		t.Error(err)
	}
	if err := c.Save("b"); !errors.Is(err, engine.ErrNoHostMemory) {
		t.Error(err)
	}
	counts := c.Counts()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Contexts().OpenSnapshot("b"); !errors.Is(err, contexts.ErrNoSnapshot) {
		t.Error(err)
	}
	for range 2 {
		back, err := e.Contexts().OpenSnapshot("a")
		if err != nil {
			t.Fatal(err)
		}
		if back.Counts() != counts || !slices.Equal(back.Tokens(), r.Tokens) {
			t.Errorf("came back with %+v, saved with %+v", back.Counts(), counts)
		}
		rest := *r
		rest.Tokens = nil
		completions, err := back.Generate(ctx, &rest)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]*engine.Completion{}
		for _, d := range completions {
			got[fmt.Sprintf("%s/%d", r.ID, d.Generation)] = d
		}
		sameBytes(t, want, got, true)
		if err := back.Close(); err != nil || e.Contexts().FreePages() != free {
			t.Errorf("%v, %d pages are free, %d were", err, e.Contexts().FreePages(), free)
		}
	}
	if err := e.Contexts().DeleteSnapshot("a"); err != nil || len(e.Contexts().Snapshots()) != 0 {
		t.Error(err, e.Contexts().Snapshots())
	}
	if err := e.Contexts().DeleteSnapshot("a"); !errors.Is(err, contexts.ErrNoSnapshot) {
		t.Error(err)
	}
}

// logged is a log that tests may read while it is written.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) contains(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), s)
}

// A context that was forgotten gives its pages back, with a warning.
func TestForgottenContext(t *testing.T) {
	var log logged
	e := contextEngine(t, func(c *engine.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	free := e.Contexts().FreePages()
	func() {
		if err := open(t, e, 1, 2, 3).Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}()
	for end := time.Now().Add(time.Minute); !log.contains("never closed") && time.Now().Before(end); {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	if !log.contains("never closed") {
		t.Fatal("no warning")
	}
	c := open(t, e)
	if e.Contexts().FreePages() != free {
		t.Errorf("%d pages are free, %d were", e.Contexts().FreePages(), free)
	}
	if err := c.Close(); err != nil || log.buf.Len() > 200 {
		t.Errorf("%v; one closed by hand warns: %s", err, log.buf.String())
	}
}

// A context is not given back while an operation of its own is under way, though nobody has it otherwise.
func TestContextsOutliveTheirOperations(t *testing.T) {
	tokens := make([]int32, 100)
	for i := range tokens {
		tokens[i] = int32(i) + 1
	}
	for name, operate := range map[string]func(*engine.Engine) error{
		"flush": func(e *engine.Engine) error {
			return e.Contexts().Flush(t.Context(), open(t, e, tokens...), open(t, e, tokens[1:]...))
		},
		"score": func(e *engine.Engine) error {
			_, err := open(t, e, tokens...).Score(t.Context(), tokens[:20])
			return err
		},
		"fork": func(e *engine.Engine) error {
			_, err := open(t, e, tokens...).Fork(t.Context())
			return err
		},
		"generate": func(e *engine.Engine) error {
			_, err := open(t, e, tokens...).Generate(t.Context(), &engine.Request{ID: "behind", N: 2, MaxTokens: 4,
				Sampling: sampling.Settings{TopP: 1}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log logged
			calls := 0
			e := contextEngine(t, func(c *engine.Config) {
				c.Log = slog.New(slog.NewTextHandler(&log, nil))
				c.Inspect = func(engine.Inspection) string {
					calls++
					for range 3 { // one finds it, another ends what finds it
						runtime.GC()
						time.Sleep(10 * time.Millisecond)
					}
					if log.contains("never closed") {
						t.Errorf("after call %d it is given back", calls)
					}
					return ""
				}
			})
			if err := operate(e); err != nil || calls == 0 {
				t.Errorf("%d calls: %v", calls, err)
			}
		})
	}
}

// treeLength is how many tokens a leaf of the tree test may come to.
const treeLength = 140
