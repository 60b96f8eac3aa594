package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/contexts"
	"github.com/quire/quire/pagetable"
)

// treeModel is a tree of contexts in plain Go: pages are numbers, and a page is there while a leaf lists it.
type treeModel struct {
	pageSize, pages, contexts int
	next                      int
	adopted                   int // pages given up for equal ones
	joined                    int // pages begun with
	copied                    int // partial pages that were shared
	leaves                    []*treeLeaf
	named                     map[string]int // pages by the tokens up to their end
}

type treeLeaf struct {
	c              *contexts.Context
	tokens         []int32
	done, reserved int
	pages          []int
}

func (m *treeModel) committed(l *treeLeaf) int { return l.done / m.pageSize }

// sure says that pages were promised to the leaf.
func (l *treeLeaf) sure() bool { return l.reserved > 0 && l.reserved >= len(l.pages) }

func (m *treeModel) free() int {
	held := map[int]bool{}
	free := m.pages
	for _, l := range m.leaves {
		for _, page := range l.pages {
			held[page] = true
		}
		free -= max(0, l.reserved-len(l.pages))
	}
	return free - len(held)
}

func (m *treeModel) short(need, have int) error {
	return pagetable.ErrOutOfPages{Need: need, Have: have, Pinned: m.pages - m.free()}
}

// tokens draws n tokens for position from on: mostly the same for all leaves, so that some come to equal pages.
func (m *treeModel) tokens(rng *rand.Rand, from, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		if tokens[i] = int32((from + i) * 37 % 256); rng.IntN(25) == 0 {
			tokens[i] = int32(rng.IntN(256))
		}
	}
	return tokens
}

func (m *treeModel) grow(l *treeLeaf, tokens int) {
	for len(l.pages)*m.pageSize < tokens {
		m.next++
		l.pages = append(l.pages, m.next)
	}
}

func (m *treeModel) shared(page int) bool {
	n := 0
	for _, l := range m.leaves {
		if slices.Contains(l.pages, page) {
			n++
		}
	}
	return n > 1
}

// borrows says that a leaf's partial page is another's too.
func (m *treeModel) borrows(l *treeLeaf) bool {
	return l.done%m.pageSize > 0 && m.shared(l.pages[len(l.pages)-1])
}

// own gives a leaf a partial page of its own.
func (m *treeModel) own(l *treeLeaf) {
	l.pages = slices.Clone(l.pages[:len(l.pages)-1])
	m.grow(l, l.done)
	m.copied++
}

// held says that a leaf has a page.
func (m *treeModel) held(page int) bool {
	return slices.ContainsFunc(m.leaves, func(l *treeLeaf) bool { return slices.Contains(l.pages, page) })
}

// name is that of a leaf's page.
func (m *treeModel) name(l *treeLeaf, page int) string {
	return fmt.Sprint(l.tokens[:(page+1)*m.pageSize])
}

// flush runs what waits, or says that there are no pages for it.
func (m *treeModel) flush(l *treeLeaf) error { return m.run(l, len(l.tokens)) }

// run runs what waits until a token, or says that there are no pages for it.
func (m *treeModel) run(l *treeLeaf, until int) error {
	if l.done >= until {
		return nil
	}
	more := (until+m.pageSize-1)/m.pageSize - len(l.pages)
	need, have := more, m.free()+min(more, max(0, l.reserved-len(l.pages)))
	var there []int // pages to begin with
	for page := len(l.pages); l.done%m.pageSize == 0 && (page+1)*m.pageSize <= until; page++ {
		id, ok := m.named[m.name(l, page)]
		if !ok {
			break
		}
		if there = append(there, id); m.held(id) {
			need--
		}
	}
	if m.borrows(l) {
		need++
	}
	if need > have {
		return m.short(need, have)
	}
	from := m.committed(l)
	if m.borrows(l) {
		m.own(l)
	} else if l.done%m.pageSize > 0 { // it is written to
		last := l.pages[len(l.pages)-1]
		maps.DeleteFunc(m.named, func(_ string, page int) bool { return page == last })
	}
	l.pages = append(slices.Clone(l.pages), there...)
	m.joined += len(there)
	m.grow(l, until)
	l.done = until
	for page := from; page < m.committed(l); page++ {
		name := m.name(l, page)
		if id, ok := m.named[name]; !ok || !m.held(id) {
			m.named[name] = l.pages[page]
		}
		for _, other := range m.leaves {
			end := (page + 1) * m.pageSize
			if other != l && m.committed(other) > page && slices.Equal(other.tokens[:end], l.tokens[:end]) {
				if l.pages[page] != other.pages[page] {
					l.pages[page] = other.pages[page]
					m.adopted++
				}
				break
			}
		}
	}
	return nil
}

// commit runs what waits until k more pages are full.
func (m *treeModel) commit(l *treeLeaf, k int) error {
	until := (m.committed(l) + k) * m.pageSize
	if until > len(l.tokens) {
		return contexts.ErrPartialPage{}
	}
	return m.run(l, until)
}

// truncateWorking cuts what is after the last full page. A page that is empty then stays reserved.
func (m *treeModel) truncateWorking(l *treeLeaf, n int) error {
	full := m.committed(l) * m.pageSize
	if n <= len(l.tokens) && len(l.tokens)-n < full {
		return contexts.ErrCommittedPage{}
	}
	before := *l
	if len(l.tokens)-n == full && len(l.pages)*m.pageSize > full {
		l.reserved = max(l.reserved, len(l.pages))
	}
	err := m.truncate(l, n)
	if err != nil {
		*l = before
	}
	return err
}

func (m *treeModel) fork(l *treeLeaf) (*treeLeaf, error) {
	if len(m.leaves) == m.contexts {
		return nil, contexts.ErrOutOfContexts
	}
	if err := m.flush(l); err != nil {
		return nil, err
	}
	n := &treeLeaf{tokens: slices.Clone(l.tokens), done: l.done, pages: slices.Clone(l.pages)}
	if l.done%m.pageSize > 0 && l.sure() {
		if m.free() < 1 {
			return nil, m.short(1, m.free())
		}
		m.own(n)
	}
	m.leaves = append(m.leaves, n)
	return n, nil
}

func (m *treeModel) truncate(l *treeLeaf, n int) error {
	if n > len(l.tokens) {
		return engine.ErrInvalidRequest
	}
	before, free := *l, m.free()
	l.tokens = l.tokens[:len(l.tokens)-n]
	l.done = min(l.done, len(l.tokens))
	keep := (l.done + m.pageSize - 1) / m.pageSize
	l.pages = slices.Clone(l.pages[:keep])
	copies := l.sure() && m.borrows(l)
	need, spare := max(0, free-m.free()), max(0, m.free()-free)
	if copies {
		need++
	}
	if need > free+spare {
		*l = before
		return m.short(need, free+spare)
	}
	if copies {
		m.own(l)
	}
	return nil
}

// A tree of contexts, worked on at random, is what a plain model of it is, after each of 1,000 operations: tokens,
// pages of each kind, free pages, errors and their numbers. What its leaves go on with is what a request with their
// tokens draws, bit for bit.
func TestTreeOfContexts(t *testing.T) {
	const operations = 1000
	plain := contractEngine(t, func(c *engine.Config) { c.NoPrefixCache = true })
	e := contextEngine(t, nil)
	m := &treeModel{pageSize: e.Plan().PageSize, pages: e.Plan().Pages, contexts: e.Plan().Contexts,
		named: map[string]int{}}
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(12, 34))
	did, refused, checked := map[string]int{}, map[string]int{}, 0
	for i := range operations {
		what := []string{"append", "append", "append", "flush", "commit", "fork", "fork", "truncate",
			"truncate working", "close", "reserve", "release", "score"}[rng.IntN(13)]
		if len(m.leaves) == 0 || rng.IntN(20) == 0 {
			what = "open"
		}
		var l *treeLeaf
		if len(m.leaves) > 0 {
			l = m.leaves[rng.IntN(len(m.leaves))]
		}
		var want, got error
		switch what {
		case "open":
			var c *contexts.Context
			if c, got = e.Contexts().Open(); len(m.leaves) == m.contexts {
				want = contexts.ErrOutOfContexts
			} else {
				m.leaves = append(m.leaves, &treeLeaf{c: c})
			}
		case "append":
			n := rng.IntN(min(40, treeLength-len(l.tokens)+1))
			if end := (len(l.tokens) + n) / m.pageSize * m.pageSize; end > len(l.tokens) && rng.IntN(2) == 0 {
				n = end - len(l.tokens) // to the end of a page
			}
			tokens := m.tokens(rng, len(l.tokens), n)
			l.tokens = append(l.tokens, tokens...)
			got = l.c.Append(tokens...)
			if rng.IntN(2) == 0 && got == nil {
				what, want, got = "flush", m.flush(l), l.c.Flush(ctx)
			}
		case "flush":
			want, got = m.flush(l), l.c.Flush(ctx)
		case "fork":
			var n *treeLeaf
			var c *contexts.Context
			if n, want = m.fork(l); true {
				c, got = l.c.Fork(ctx)
			}
			if n != nil {
				n.c = c
			}
		case "truncate":
			n := rng.IntN(len(l.tokens) + 2)
			want, got = m.truncate(l, n), l.c.TruncateCommitted(n)
		case "truncate working":
			n := rng.IntN(min(len(l.tokens), 30) + 2)
			want, got = m.truncateWorking(l, n), l.c.Truncate(n)
		case "commit":
			k := rng.IntN(3)
			want, got = m.commit(l, k), l.c.Commit(ctx, k)
		case "close":
			got = l.c.Close()
			m.leaves = slices.DeleteFunc(m.leaves, func(o *treeLeaf) bool { return o == l })
		case "reserve":
			n := rng.IntN(7)
			need := n
			if m.borrows(l) {
				need++
			}
			if have := m.free(); need > have {
				want = m.short(need, have)
			} else if all := max(l.reserved, len(l.pages)) + n; all <= e.Plan().PagesPerSeq {
				if l.reserved = all; l.sure() && m.borrows(l) {
					m.own(l)
				}
			} else {
				want = engine.ErrPromptTooLong
			}
			if got = l.c.Reserve(n); errors.Is(got, engine.ErrPromptTooLong) {
				want = engine.ErrPromptTooLong
			}
		case "release":
			n := rng.IntN(4)
			if all := max(l.reserved, len(l.pages)); n > all {
				want = engine.ErrInvalidRequest
			} else {
				all -= n
				l.reserved = min(l.reserved, all)
				if all < len(l.pages) {
					l.pages = slices.Clone(l.pages[:all])
					l.tokens, l.done = l.tokens[:all*m.pageSize], all*m.pageSize
				}
			}
			got = l.c.Release(n)
		case "score":
			if len(l.tokens) == 0 {
				want = engine.ErrEmptyPrompt
			} else if want = m.flush(l); want == nil {
				// its last token, and one more
				if need, have := (l.done+m.pageSize-1)/m.pageSize-(l.done-1)/m.pageSize, m.free(); need > have {
					want = m.short(need, have)
				}
			}
			_, got = l.c.Score(ctx, []int32{7})
		}
		did[what]++
		if want != nil {
			refused[what]++
		}
		if !errors.Is(got, want) || (want == nil) != (got == nil) {
			t.Fatalf("operation %d, %s: %v, want %v", i, what, got, want)
		}
		var gotPages, wantPages pagetable.ErrOutOfPages
		if errors.As(want, &wantPages) && (!errors.As(got, &gotPages) || gotPages != wantPages) {
			t.Fatalf("operation %d, %s: %v, want %v", i, what, got, want)
		}
		if free := e.Contexts().FreePages(); free != m.free() {
			t.Fatalf("operation %d, %s: %d pages are free, want %d", i, what, free, m.free())
		}
		for _, l := range m.leaves {
			want := contexts.PageCounts{Committed: m.committed(l), Working: len(l.pages) - m.committed(l),
				Reserved: max(0, l.reserved-len(l.pages)), WorkingTokens: l.done % m.pageSize,
				Waiting: len(l.tokens) - l.done}
			for _, page := range l.pages {
				if m.shared(page) {
					want.Shared++
				}
			}
			if got := l.c.Counts(); got != want || !slices.Equal(l.c.Tokens(), l.tokens) {
				t.Fatalf("operation %d, %s: %+v, want %+v", i, what, got, want)
			}
		}
		if i%25 == 24 || i == operations-1 {
			checked += m.checkLeaves(t, e, plain)
		}
	}
	t.Logf(
		"did %v, of which were refused %v; %d pages were given up for equal ones, %d begun with, %d partial ones "+
			"copied; %d leaves computed from scratch", did, refused, m.adopted, m.joined, m.copied, checked)
	if m.adopted < 5 || m.joined < 10 || m.copied < 10 {
		t.Error("hardly a page was given up for an equal one, begun with, or copied: the test does not reach this")
	}
	for what, n := range did {
		if n > 30 && refused[what] == 0 && what != "append" && what != "close" {
			t.Errorf("no %s was refused: the test does not reach what it is for", what)
		}
	}
	for _, l := range m.leaves {
		if err := l.c.Close(); err != nil {
			t.Error(err)
		}
	}
	if e.Contexts().FreePages() != e.Plan().Pages || checked < operations/10 {
		t.Errorf("%d pages of %d are free; %d leaves were checked", e.Contexts().FreePages(), e.Plan().Pages, checked)
	}
}

// checkLeaves compares what leaves go on with, where there are pages for it, with an engine that knows nothing of
// contexts.
func (m *treeModel) checkLeaves(t *testing.T, e, plain *engine.Engine) (checked int) {
	var of, scratch []*engine.Request
	leaves := map[string]*treeLeaf{}
	for i, l := range m.leaves {
		if len(l.tokens) > 0 {
			key := fmt.Sprintf("leaf %d", i)
			r := sampled(key, nil, 1, 3, uint64(len(l.tokens)))
			r.Context = l.c
			of, scratch = append(of, r), append(scratch, sampled(key, l.tokens, 1, 3, uint64(len(l.tokens))))
			leaves[key+"/0"] = l
		}
	}
	if len(of) == 0 {
		return 0
	}
	got, want := collect(t, e, of...), collect(t, plain, scratch...)
	for key, c := range got {
		if errors.Is(c.Err, pagetable.ErrOutOfPages{}) {
			delete(got, key)
			continue
		}
		l := leaves[key]
		if need := 2; l.done == len(l.tokens) && m.free() >= need {
			logprobs, err := l.c.Score(t.Context(), c.Tokens)
			if err != nil || !closeTo(logprobs, want[key].Logprobs, 1e-4) {
				t.Errorf("%s: score %v, from scratch %v: %v", key, logprobs, want[key].Logprobs, err)
			}
		}
	}
	sameBytes(t, want, got, false)
	return len(got)
}
