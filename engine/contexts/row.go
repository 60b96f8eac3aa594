package contexts

import (
	"sync"

	"github.com/quire/quire/engine/prefix"
)

// contextRow is what a context is on the host. The handle that a user has is Context.
type contextRow struct {
	row       int
	tokens    []int32       // the tokens that were run, then the tokens that wait
	done      int           // tokens that were run
	names     []prefix.Hash // names of the full pages
	pages     []*heldPage
	reserved  int // pages guaranteed to it, including those that it holds
	until     int // while tokens are run, how many there will be
	flushing  int // the same, as soon as there are pages for them
	scheduled int // how many of them the next calls run
	from      int // pages that had names before
	closed    bool
	lost      bool
	// mixed is not 0 if earlier weights computed some of its keys and values. Rows with the same number have the same
	// contents for the same tokens.
	mixed int

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

// isGuaranteed reports whether a context with so many pages reserved, and so many in use, is guaranteed them. Then it
// shares its partial page with nobody, so that they suffice.
func isGuaranteed(reserved, pages int) bool { return reserved > 0 && reserved >= pages }

// unheld returns how many pages are guaranteed to the context that it does not hold yet.
func (r *contextRow) unheld(pageSize int) int { return max(0, r.guaranteed(pageSize)-len(r.pages)) }

// guaranteed returns how many pages the context is guaranteed, including the pages that it holds.
func (r *contextRow) guaranteed(pageSize int) int {
	return max(r.reserved, ceilDiv(r.flushing, pageSize))
}

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
