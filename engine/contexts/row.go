package contexts

import (
	"sync"

	"github.com/quire/quire/engine/prefix"
)

// contextRow is what a context is on the host. The handle that a user has is Context.
type contextRow struct {
	row      int
	tokens   []int32       // those that were run, then those that wait
	done     int           // tokens that were run
	names    []prefix.Hash // names of the full pages
	pages    []*heldPage
	reserved int // pages that are sure for it, with those it holds
	until    int // while tokens are run, how many of them there are to be
	flushing int // the same, from when there are pages for them
	riding   int // of those, how many the next calls run
	from     int // pages that had names before
	closed   bool
	lost     bool

	busy sync.Mutex // one operation is done at a time; acquired before the engine's lock
}

// heldPage is a page that contexts hold.
type heldPage struct {
	holders int
	id      int32 // None if the host does not know it: without a prefix cache
	full    bool  // it has its name, until it is written to again
}

// borrows reports whether others hold the partial page of the context too: it needs one of its own before it is written
// to.
func (r *contextRow) borrows(pageSize int) bool {
	return r.done%pageSize != 0 && r.pages[len(r.pages)-1].holders > 1
}

// flushed reports whether all tokens that are to be run were run.
func (r *contextRow) flushed() bool { return r.done >= r.until }

// sure reports whether a context with so many pages reserved, and so many in use, may count on them. Then it has its
// partial page alone, so that they suffice.
func sure(reserved, pages int) bool { return reserved > 0 && reserved >= pages }

// unheld is the pages that are promised to the context and that it does not hold yet.
func (r *contextRow) unheld(pageSize int) int { return max(0, r.sure(pageSize)-len(r.pages)) }

// sure is the pages that nobody else gets, with those it holds.
func (r *contextRow) sure(pageSize int) int { return max(r.reserved, ceilDiv(r.flushing, pageSize)) }

// rewrites reports whether the context, when it continues, writes to a page that was full before a cut.
func (r *contextRow) rewrites(pageSize int) bool {
	return r.done%pageSize != 0 && r.pages[len(r.pages)-1].full
}

// usable returns why the context cannot be used any more.
func (r *contextRow) usable() error {
	switch {
	case r.closed:
		return ErrClosed
	case r.lost:
		return ErrContextLost
	}
	return nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
