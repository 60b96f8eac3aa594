package model

import (
	"fmt"
	"slices"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/pagetable"
)

// memory is the sequence table and the pages of the model.
type memory struct {
	schedule.Sizes
	rows  []row
	table *pagetable.Host
	pages [][]int32 // contents
	// taken are pages that were allocated for what is done now, in the order in which the device allocates them. Every
	// one must find a row before the next step.
	taken []int32
}

// row is a row of the sequence table. Its parameters stay after the row is released, as on the device.
type row struct {
	used      bool
	length    int
	pages     []int32
	promptLen int
	maxPages  int
	request   *schedule.Request
	gen       int
	queued    []int32 // the token to decode next, if there is one
	start     int
	turn      int // prompts of lower turns run first, then lower rows
	owner     int
	drawn     int // generated tokens, which stand for the states of its stops
	score     int
	leaf      bool
}

func newMemory(s schedule.Sizes) memory {
	m := memory{Sizes: s, rows: make([]row, s.Rows()), table: pagetable.NewHost(s.Pages)}
	if s.PrefixCache {
		m.table = pagetable.NewKeepingHost(s.Pages)
	}
	for range s.Pages {
		m.pages = append(m.pages, make([]int32, s.PageSize))
	}
	return m
}

// Free returns how many pages no row holds.
func (m *memory) Free() (n int) { return m.table.NumFree() }

func (m *memory) pagesOf(tokens int) int { return (tokens + m.PageSize - 1) / m.PageSize }

// Unreserved returns how many free pages are reserved for no row.
func (m *memory) Unreserved() int {
	n := m.Free()
	for _, r := range m.rows {
		if r.used {
			n -= max(0, r.maxPages-m.pagesOf(r.length))
		}
	}
	return n
}

func (m *memory) release(row int) {
	r := &m.rows[row]
	kept := r.length
	if !m.NameDrawn || r.leaf {
		kept = min(kept, r.promptLen)
	}
	ages := make([]int32, len(r.pages))
	for place := range kept / m.PageSize {
		ages[place] = m.table.Age(place, m.PagesPerSeq)
	}
	m.table.ReleaseOld(r.pages, ages)
	r.used, r.length, r.pages, r.queued = false, 0, nil, nil
}

// take takes n pages, which alloc then gives to rows.
func (m *memory) take(n int) {
	if len(m.taken) > 0 {
		panic("pages were taken that nobody had use for")
	}
	if m.taken = m.table.Take(n); len(m.taken) < n {
		panic("out of pages")
	}
}

// alloc gives a row a page.
func (m *memory) alloc(r *row) {
	page := m.taken[0]
	m.taken = m.taken[1:]
	m.table.Mark(page, int32(r.owner*m.PagesPerSeq+len(r.pages)))
	clear(m.pages[page])
	r.pages = append(r.pages, page)
}

// write appends a token to a row.
func (m *memory) write(r *row, token int32) {
	if r.length%m.PageSize == 0 {
		m.alloc(r)
	}
	page := r.pages[r.length/m.PageSize]
	if m.table.RefCounts[page] != 1 {
		panic("a row writes to a page that others hold")
	}
	m.pages[page][r.length%m.PageSize] = token
	r.length++
}

// Tokens returns the tokens that a row holds, and whether it is used.
func (m *memory) Tokens(row int) (tokens []int32, used bool) {
	return m.tokens(&m.rows[row]), m.rows[row].used
}

// Page returns the contents of a page.
func (m *memory) Page(page int32) []int32 { return m.pages[page] }

// tokens returns the contents of a row.
func (m *memory) tokens(r *row) (all []int32) {
	for i := range r.length {
		all = append(all, m.pages[r.pages[i/m.PageSize]][i%m.PageSize])
	}
	return all
}

// clone starts a row with the first held tokens of another: full pages are shared, a partial one is copied.
func (m *memory) clone(to, from *row, held int) {
	if !from.used || from.length < held {
		panic("a clone of tokens that did not run")
	}
	if m.States && held%m.PageSize != 0 && held != from.length {
		panic("a clone whose last page has a state behind other tokens")
	}
	to.used = true
	to.pages = slices.Clone(from.pages[:held/m.PageSize])
	m.table.Share(to.pages)
	to.length = held / m.PageSize * m.PageSize
	for _, token := range m.tokens(from)[to.length:held] {
		m.write(to, token)
	}
}

// join starts a row with pages.
func (m *memory) join(r *row, pages []int32) {
	r.pages, r.length = slices.Clone(pages), len(pages)*m.PageSize
	if m.table.Share(pages) > 0 {
		panic("a row begins with pages that are free")
	}
}

// pageFates returns Output.Pages.
func (m *memory) pageFates() []int32 {
	list := make([]int32, m.Sizes.Pages)
	for p, by := range m.table.Takers {
		if list[p] = 2 * by; m.table.RefCounts[p] > 0 {
			list[p]++
		}
	}
	return list
}

// check compares the references of pages with the rows and the pins that hold them.
func (m *memory) check(pins []int32) {
	refs := make([]int32, m.Sizes.Pages)
	for i, r := range m.rows {
		if len(r.pages) != m.pagesOf(r.length) {
			panic(fmt.Sprintf("row %d has %d pages for %d tokens", i, len(r.pages), r.length))
		}
		for _, p := range r.pages {
			refs[p]++
		}
	}
	for _, p := range pins {
		refs[p]++
	}
	if !slices.Equal(refs, m.table.RefCounts) {
		panic("pages are held by others than rows")
	}
	if len(m.taken) > 0 {
		panic("pages were taken that nobody had use for")
	}
}
