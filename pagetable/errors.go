package pagetable

import "fmt"

// ErrOutOfPages reports that more pages were needed than were free. errors.Is matches any ErrOutOfPages, regardless
// of its numbers.
type ErrOutOfPages struct {
	Need   int // Pages needed.
	Have   int // Pages free.
	Pinned int // Pages that cannot be preempted: contexts of the engine hold them, or were promised them.
}

func (e ErrOutOfPages) Error() string {
	if e.Pinned > 0 {
		return fmt.Sprintf(
			"out of KV pages: %d needed, %d free, and contexts hold %d; close or truncate some of these, or raise "+
				"--kv-memory", e.Need, e.Have, e.Pinned)
	}
	return fmt.Sprintf(
		"out of KV pages: %d needed, %d free; lower --max-seqs or the tokens a request may take, or raise --kv-memory",
		e.Need, e.Have)
}

// Is reports whether target is an ErrOutOfPages.
func (e ErrOutOfPages) Is(target error) bool { _, ok := target.(ErrOutOfPages); return ok }

// ErrInvalidPage reports that a page id cannot be used: it is out of range, or the page is free but must be held.
// errors.Is matches any ErrInvalidPage.
type ErrInvalidPage struct {
	Slot  int // The sequence whose table has the page id, or -1.
	Count int // Number of references to such pages.
	Pages int // Number of pages in the table.
}

func (e ErrInvalidPage) Error() string {
	where := "a list of pages"
	if e.Slot >= 0 {
		where = fmt.Sprintf("the page table of slot %d", e.Slot)
	}
	return fmt.Sprintf(
		"%d invalid page ids in %s (pages are 0 to %d and must be held): the device tables are corrupt, please "+
			"report this with the output of a run with --debug", e.Count, where, e.Pages-1)
}

// Is reports whether target is an ErrInvalidPage.
func (e ErrInvalidPage) Is(target error) bool { _, ok := target.(ErrInvalidPage); return ok }

// ErrDoubleFree reports that pages were released more often than they were referenced. errors.Is matches any
// ErrDoubleFree.
type ErrDoubleFree struct {
	Count int // Number of releases of a page that had no reference left.
}

func (e ErrDoubleFree) Error() string {
	return fmt.Sprintf(
		"%d releases of KV pages that were already free: the device tables are corrupt, please report this with the "+
			"output of a run with --debug", e.Count)
}

// Is reports whether target is an ErrDoubleFree.
func (e ErrDoubleFree) Is(target error) bool { _, ok := target.(ErrDoubleFree); return ok }
