package prefix

import (
	"cmp"
	"slices"
)

// Index knows which pages of the device have which names. A page has the name of its contents from when it is full
// until it is taken for others, whether somebody holds it or not. Of two pages with equal contents one has the name.
type Index struct {
	pages  []named
	byName map[Hash]int32
	clock  int
}

// named is what is known of a page.
type named struct {
	name, parent Hash // parent is that of the page before it in its sequence
	place        int  // pages before it
	isNamed      bool
	held         bool // somebody holds it
	shared       bool // others began with it than the one that ran it
	used         int  // when somebody held it last
}

// NewIndex returns an index of pages without names.
func NewIndex(pages int) *Index {
	return &Index{pages: make([]named, pages), byName: map[Hash]int32{}}
}

// Tick moves the clock on: what is held or named from now on is younger than what was before.
func (x *Index) Tick() { x.clock++ }

// Hold says whether somebody holds a page.
func (x *Index) Hold(page int32, held bool) {
	p := &x.pages[page]
	if p.held = held; held {
		p.used = x.clock
	}
}

// Name says that a page has the contents of place of chain. It is left without a name if another page has that one,
// unless it is held and the other is not.
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

// Forget says that a page was taken for other contents.
func (x *Index) Forget(page int32) {
	if p := &x.pages[page]; p.isNamed {
		delete(x.byName, p.name)
		p.isNamed, p.shared = false, false
	}
}

// Clear forgets all.
func (x *Index) Clear() {
	clear(x.pages)
	clear(x.byName)
}

// Len is how many pages have names.
func (x *Index) Len() int { return len(x.byName) }

// Longest returns the pages that have the names of chain, from its begin to the first that none has.
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

// Share says that others begin with pages than the ones that ran them.
func (x *Index) Share(pages ...int32) {
	for _, page := range pages {
		x.pages[page].shared = true
	}
}

// Page returns the page that has a name.
func (x *Index) Page(name Hash) (page int32, ok bool) {
	page, ok = x.byName[name]
	return page, ok
}

// Free says that nobody holds a page.
func (x *Index) Free(page int32) bool { return !x.pages[page].held }

// Kept is how many pages have names and are held by nobody.
func (x *Index) Kept() (n int) {
	for i := range x.pages {
		if x.pages[i].isNamed && !x.pages[i].held {
			n++
		}
	}
	return n
}

// Oldest returns the names of up to n pages for which wanted holds, among those that nobody holds, and those that are
// held and shared. The ones used longest ago come first, of a sequence the last ones.
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

// Block returns the pages of a sequence up to the one that has a name, and their names: those of its block of size
// pages, the first of which is at place from. It returns none if one of them is gone.
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
