package model

import "slices"

// Verbs does operations on contexts, as one program between two calls, and returns what Output.Pages says of pages,
// with rows as owners.
func (d *Device) Verbs(do func()) []int32 {
	d.table.Begin()
	for row := range d.rows {
		d.rows[row].owner = row
	}
	do()
	d.check(nil)
	if !d.table.Keeps() {
		return nil
	}
	return d.fates()
}

// OpenContext gives a context a row with tokens and reserves pages for it, beside those that it has.
func (d *Device) OpenContext(row int, tokens []int32, maxPages int) {
	r := &d.rows[row]
	if r.used {
		panic("a row is used twice")
	}
	r.used, r.promptLen, r.maxPages = true, len(tokens), maxPages
	d.take(d.pagesOf(len(tokens)))
	for _, token := range tokens {
		d.write(r, token)
	}
}

// CloseContext frees the row of a context.
func (d *Device) CloseContext(row int) { d.release(row) }

// Promise says how many tokens a context is to have, and how many pages are sure for it.
func (d *Device) Promise(row, tokens, maxPages int) {
	d.rows[row].promptLen, d.rows[row].maxPages = tokens, maxPages
}

// Fork begins a row with all pages of a context, the partial one too.
func (d *Device) Fork(to, from int) {
	r, of := &d.rows[to], &d.rows[from]
	if r.used || !of.used {
		panic("a fork of a row that is not used, or to one that is")
	}
	r.used, r.promptLen, r.maxPages = true, of.length, 0
	r.pages, r.length = slices.Clone(of.pages), of.length
	d.table.Share(r.pages)
}

// Own gives a context a copy of its partial page, if others hold it too. It returns the page, and whether it is a copy.
func (d *Device) Own(row int) (page int32, copied bool) {
	r := &d.rows[row]
	last := len(r.pages) - 1
	old := r.pages[last]
	if d.table.RefCounts[old] == 1 {
		return old, false
	}
	d.take(1)
	r.pages = r.pages[:last:last]
	d.alloc(r)
	copy(d.pages[r.pages[last]], d.pages[old][:r.length%d.PageSize])
	d.table.Release([]int32{old})
	return r.pages[last], true
}

// Borrows says that others hold the partial page of a context too.
func (d *Device) Borrows(row int) bool {
	r := &d.rows[row]
	return r.length%d.PageSize != 0 && d.table.RefCounts[r.pages[len(r.pages)-1]] > 1
}

// Cut makes a context shorter.
func (d *Device) Cut(row, length int) {
	r := &d.rows[row]
	keep := d.pagesOf(length)
	var ages []int32
	for place := keep; place < len(r.pages); place++ {
		age := d.table.Age(place, d.PagesPerSeq)
		if (place+1)*d.PageSize > r.length {
			age = 0
		}
		ages = append(ages, age)
	}
	d.table.ReleaseOld(r.pages[keep:], ages)
	r.pages, r.length, r.promptLen = r.pages[:keep:keep], length, length
}

// OfContexts is how many pages contexts hold, each counted once, and how many more are reserved for them.
func (d *Device) OfContexts() (held, reserved int) {
	pages := map[int32]bool{}
	for _, r := range d.rows[d.FirstContext():] {
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
