package prefix

import (
	"cmp"
	"slices"
)

// Index records which pages on the device have which names. A page is named after its contents from when it is full
// until it is reused, whether it is held or not. Of two pages with equal contents only one has the name.
type Index struct {
	pages  []named
	byName map[Hash]int32
	clock  int
}

// named is the record of a page.
type named struct {
	name, parent Hash // parent is the name of the page before it in its sequence
	place        int  // number of pages before it in its sequence
	isNamed      bool
	held         bool // a sequence holds it
	shared       bool // sequences other than the one that ran it started with it
	used         int  // the clock when it was last held
}

// NewIndex returns an index of pages that have no names.
func NewIndex(pages int) *Index {
	return &Index{pages: make([]named, pages), byName: map[Hash]int32{}}
}

// Tick advances the clock: pages that are held or named afterwards are younger than all before.
func (x *Index) Tick() { x.clock++ }

// Hold sets whether a page is held.
func (x *Index) Hold(page int32, held bool) {
	p := &x.pages[page]
	if p.held = held; held {
		p.used = x.clock
	}
}

// Name names a page after the contents at place in chain. If another page has that name already, the page takes the
// name over only if it is held and the other one is not.
func (x *Index) Name(page int32, chain []Hash, place int) {
	if other, there := x.byName[chain[place]]; there {
		if other == page || x.pages[other].held || !x.pages[page].held {
			return
		}
		x.Forget(other)
	}
	x.Forget(page)
	p := &x.pages[page]
	p.name, p.place, p.isNamed, p.used = chain[place], place, true, x.clock
	if p.parent = (Hash{}); place > 0 {
		p.parent = chain[place-1]
	}
	x.byName[p.name] = page
}

// Forget removes a page's name, because the page is reused.
func (x *Index) Forget(page int32) {
	if p := &x.pages[page]; p.isNamed {
		delete(x.byName, p.name)
		p.isNamed, p.shared = false, false
	}
}

// Clear removes all names.
func (x *Index) Clear() {
	clear(x.pages)
	clear(x.byName)
}

// Len returns how many pages have names.
func (x *Index) Len() int { return len(x.byName) }

// Longest returns the pages named by chain, from its start to the first name that no page has.
func (x *Index) Longest(chain []Hash) (pages []int32) {
	for _, h := range chain {
		page, ok := x.byName[h]
		if !ok {
			break
		}
		pages = append(pages, page)
	}
	return pages
}

// Share marks pages as shared: sequences other than the ones that ran them started with them.
func (x *Index) Share(pages ...int32) {
	for _, page := range pages {
		x.pages[page].shared = true
	}
}

// Page returns the page that has this name.
func (x *Index) Page(name Hash) (page int32, ok bool) {
	page, ok = x.byName[name]
	return page, ok
}

// Free reports whether a page is not held.
func (x *Index) Free(page int32) bool { return !x.pages[page].held }

// Kept returns how many pages have names and are not held.
func (x *Index) Kept() (n int) {
	for i := range x.pages {
		if x.pages[i].isNamed && !x.pages[i].held {
			n++
		}
	}
	return n
}

// Oldest returns the names of up to n pages for which wanted holds, among the pages that are not held and the held
// pages that are shared. The least recently used come first; of equal ones, the last pages of a sequence.
func (x *Index) Oldest(n int, wanted func(Hash) bool) []Hash {
	var list []*named
	for i := range x.pages {
		if p := &x.pages[i]; p.isNamed && (!p.held || p.shared) && wanted(p.name) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *named) int {
		return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(b.place, a.place), slices.Compare(a.name[:], b.name[:]))
	})
	var names []Hash
	for _, p := range list[:min(n, len(list))] {
		names = append(names, p.name)
	}
	return names
}

// Block returns the pages of the block that contains the named page, up to and including that page, and their names.
// Blocks have size pages; the first page of this block is at place from. It returns nothing if a page is gone.
func (x *Index) Block(name Hash, size int) (chain []Hash, pages []int32, from int) {
	page, ok := x.byName[name]
	if !ok {
		return nil, nil, 0
	}
	place := x.pages[page].place
	from = place / size * size
	for ; place >= from; place-- {
		if page, ok = x.byName[name]; !ok {
			return nil, nil, 0
		}
		chain, pages = append(chain, name), append(pages, page)
		name = x.pages[page].parent
	}
	slices.Reverse(chain)
	slices.Reverse(pages)
	return chain, pages, from
}
