package model

import "slices"

// Verbs does operations on contexts, as one program between two calls, and returns Output.Pages with rows as owners.
func (m *memory) Verbs(do func()) []int32 {
	m.table.Begin()
	for row := range m.rows {
		m.rows[row].owner = row
	}
	do()
	m.check(nil)
	if !m.table.Keeps() {
		return nil
	}
	return m.pageFates()
}

// OpenContext gives a context a row with tokens, and reserves maxPages pages for it, including the pages of the tokens.
func (m *memory) OpenContext(row int, tokens []int32, maxPages int) {
	r := &m.rows[row]
	if r.used {
		panic("a row is used twice")
	}
	r.used, r.promptLen, r.maxPages = true, len(tokens), maxPages
	m.take(m.pagesOf(len(tokens)))
	for _, token := range tokens {
		m.write(r, token)
	}
}

// CloseContext frees the row of a context.
func (m *memory) CloseContext(row int) { m.release(row) }

// Promise sets how many tokens a context will have, and how many pages are guaranteed to it.
func (m *memory) Promise(row, tokens, maxPages int) {
	m.rows[row].promptLen, m.rows[row].maxPages = tokens, maxPages
}

// Fork starts a row with all pages of a context, including the partial one.
func (m *memory) Fork(to, from int) {
	r, source := &m.rows[to], &m.rows[from]
	if r.used || !source.used {
		panic("a fork of a row that is not used, or to one that is")
	}
	r.used, r.promptLen, r.maxPages = true, source.length, 0
	r.pages, r.length = slices.Clone(source.pages), source.length
	m.table.Share(r.pages)
}

// Own gives a context a copy of its partial page, if others hold it too. It returns the page, and whether it is a copy.
func (m *memory) Own(row int) (page int32, copied bool) {
	r := &m.rows[row]
	last := len(r.pages) - 1
	old := r.pages[last]
	if m.table.RefCounts[old] == 1 {
		return old, false
	}
	m.take(1)
	r.pages = r.pages[:last:last]
	m.alloc(r)
	copy(m.pages[r.pages[last]], m.pages[old][:r.length%m.PageSize])
	m.table.Release([]int32{old})
	return r.pages[last], true
}

// Borrows reports whether others hold the partial page of a context, too.
func (m *memory) Borrows(row int) bool {
	r := &m.rows[row]
	return r.length%m.PageSize != 0 && m.table.RefCounts[r.pages[len(r.pages)-1]] > 1
}

// Cut makes a context shorter.
func (m *memory) Cut(row, length int) {
	r := &m.rows[row]
	keep := m.pagesOf(length)
	var ages []int32
	for place := keep; place < len(r.pages); place++ {
		age := m.table.Age(place, m.PagesPerSeq)
		if (place+1)*m.PageSize > r.length {
			age = 0
		}
		ages = append(ages, age)
	}
	m.table.ReleaseOld(r.pages[keep:], ages)
	r.pages, r.length, r.promptLen = r.pages[:keep:keep], length, length
}

// OfContexts returns how many pages contexts hold, each counted once, and how many more are reserved for them.
func (m *memory) OfContexts() (held, reserved int) {
	pages := map[int32]bool{}
	for _, r := range m.rows[m.FirstContext():] {
		if !r.used {
			continue
		}
		for _, page := range r.pages {
			pages[page] = true
		}
		reserved += max(0, r.maxPages-len(r.pages))
	}
	return len(pages), reserved
}
