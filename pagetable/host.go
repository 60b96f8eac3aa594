package pagetable

// Host is the plain-Go twin of [Table]: the same verbs with the same results, one page at a time. Property tests
// compare the two, and host code may use it to keep account.
type Host struct {
	RefCounts []int32
}

// NewHost returns a table of pages free pages.
func NewHost(pages int) *Host { return &Host{RefCounts: make([]int32, pages)} }

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

// Take gives the first free page, or -1.
func (h *Host) Take() int32 {
	for p, c := range h.RefCounts {
		if c == 0 {
			h.RefCounts[p] = 1
			return int32(p)
		}
	}
	return -1
}

// Allocate gives a page to each element of need that is set: see [Table.Allocate].
func (h *Host) Allocate(need []bool) (pages []int32, short int) {
	pages = make([]int32, len(need))
	for i, n := range need {
		pages[i] = -1
		if n {
			if pages[i] = h.Take(); pages[i] < 0 {
				short++
			}
		}
	}
	return pages, short
}

// Share adds a reference to each page: see [Table.Share].
func (h *Host) Share(pages []int32) (invalid int) {
	for _, p := range pages {
		switch {
		case p == -1:
		case p < 0 || int(p) >= len(h.RefCounts) || h.RefCounts[p] == 0:
			invalid++
		default:
			h.RefCounts[p]++
		}
	}
	return invalid
}

// Release takes back a reference to each page: see [Table.Release].
func (h *Host) Release(pages []int32) (doubleFree, invalid int) {
	for _, p := range pages {
		switch {
		case p == -1:
		case p < 0 || int(p) >= len(h.RefCounts):
			invalid++
		case h.RefCounts[p] == 0:
			doubleFree++
		default:
			h.RefCounts[p]--
		}
	}
	return doubleFree, invalid
}
