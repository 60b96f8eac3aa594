package pagetable

import "slices"

// Host is the plain-Go twin of [Table]: the same operations with the same results, one page at a time. Property tests
// compare the two, and host code may use it for bookkeeping.
type Host struct {
	RefCounts []int32
	Ages      []int32 // nil if pages are not kept
	Takers    []int32
	Clock     int32
}

// NewHost returns a table of free pages.
func NewHost(pages int) *Host { return &Host{RefCounts: make([]int32, pages)} }

// NewKeepingHost is NewHost for a table that keeps free pages.
func NewKeepingHost(pages int) *Host {
	h := NewHost(pages)
	h.Ages, h.Takers = make([]int32, pages), make([]int32, pages)
	h.forgetTakers()
	return h
}

// Keeps reports whether free pages are kept.
func (h *Host) Keeps() bool { return h.Ages != nil }

func (h *Host) forgetTakers() {
	for p := range h.Takers {
		h.Takers[p] = -1
	}
}

// Begin advances the clock and clears the record of who took pages: see [Table.Begin].
func (h *Host) Begin() {
	if h.Keeps() {
		h.Clock = min(h.Clock+1, maxClock)
		h.forgetTakers()
	}
}

// Mark records by whom a page was taken: see [Table.Mark].
func (h *Host) Mark(page, by int32) {
	if h.Keeps() && page >= 0 {
		h.Takers[page] = by
	}
}

// Age returns the age of a full page that is released now: see [Table.Age].
func (h *Host) Age(place, most int) int32 {
	depth := min(place/((most+Depths-1)/Depths), Depths-1)
	return (h.Clock+1)*Depths - 1 - int32(depth)
}

// NumFree returns the number of free pages.
func (h *Host) NumFree() int {
	free := 0
	for _, c := range h.RefCounts {
		if c == 0 {
			free++
		}
	}
	return free
}

// Blank blanks kept pages until n free pages are blank, if that many are free: [Table.Take] does so first.
func (h *Host) Blank(n int) {
	if !h.Keeps() {
		return
	}
	var ages []int32
	for p, c := range h.RefCounts {
		if c == 0 && h.Ages[p] == 0 {
			n--
		} else if c == 0 {
			ages = append(ages, h.Ages[p])
		}
	}
	if n <= 0 || len(ages) == 0 {
		return
	}
	slices.Sort(ages)
	last := ages[min(max(n, len(h.Ages)/reclaimShare), len(ages))-1]
	for p, c := range h.RefCounts {
		if c == 0 && h.Ages[p] <= last {
			h.Ages[p] = 0
		}
	}
}

// Take allocates the first n blank pages, or all if there are fewer: see [Table.Take].
func (h *Host) Take(n int) (pages []int32) {
	h.Blank(n)
	for p, c := range h.RefCounts {
		if len(pages) == n {
			break
		}
		if c == 0 && (!h.Keeps() || h.Ages[p] == 0) {
			h.RefCounts[p] = 1
			pages = append(pages, int32(p))
		}
	}
	return pages
}

// Allocate assigns a page to each set element of need: see [Table.Allocate].
func (h *Host) Allocate(need []bool) (pages []int32, short int) {
	pages = make([]int32, len(need))
	n := 0
	for _, needed := range need {
		if needed {
			n++
		}
	}
	taken := h.Take(n)
	short = n - len(taken)
	for i, needed := range need {
		pages[i] = -1
		if needed && len(taken) > 0 {
			pages[i], taken = taken[0], taken[1:]
		}
	}
	return pages, short
}

// Share adds a reference to each page: see [Table.Share].
func (h *Host) Share(pages []int32) (invalid int) {
	free := slices.Clone(h.RefCounts)
	for _, p := range pages {
		switch {
		case p == -1:
		case p < 0 || int(p) >= len(h.RefCounts) || free[p] == 0:
			invalid++
		default:
			h.RefCounts[p]++
		}
	}
	return invalid
}

// Pin adds a reference to each page, including free ones: see [Table.Pin].
func (h *Host) Pin(pages []int32) (invalid int) {
	for _, p := range pages {
		switch {
		case p == -1:
		case p < 0 || int(p) >= len(h.RefCounts):
			invalid++
		default:
			h.RefCounts[p]++
		}
	}
	return invalid
}

// Release drops a reference to each page: see [Table.Release].
func (h *Host) Release(pages []int32) (doubleFree, invalid int) {
	return h.ReleaseOld(pages, nil)
}

// ReleaseOld is Release for pages that are kept with ages; ages is nil if none are.
func (h *Host) ReleaseOld(pages, ages []int32) (doubleFree, invalid int) {
	for i, p := range pages {
		switch {
		case p == -1:
			continue
		case p < 0 || int(p) >= len(h.RefCounts):
			invalid++
			continue
		case h.RefCounts[p] == 0:
			doubleFree++
		default:
			h.RefCounts[p]--
		}
		if h.Keeps() && ages != nil {
			h.Ages[p] = max(h.Ages[p], ages[i])
		}
	}
	return doubleFree, invalid
}
