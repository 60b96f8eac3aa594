package contexts

import (
	"errors"
	"fmt"
)

// Errors of contexts, to be distinguished by errors.Is. Too few pages are pagetable.ErrOutOfPages, with the pages
// needed and there.
var (
	// ErrNoContexts: the engine was made without Config.Contexts.
	ErrNoContexts = errors.New("the engine has no contexts: set Config.Contexts")
	// ErrOutOfContexts: as many contexts are open as Config.Contexts allows.
	ErrOutOfContexts = errors.New("out of contexts: close one, or raise Config.Contexts")
	// ErrClosed: the context, or its engine, was closed.
	ErrClosed = errors.New("the context is closed")
	// ErrContextLost: the device failed, and with its state what the context held. Close it.
	ErrContextLost = errors.New("the context was lost when the device failed: close it and open another")
	// ErrNoSnapshot: no snapshot has this name.
	ErrNoSnapshot = errors.New("there is no snapshot of this name")
	// ErrSnapshotExists: another snapshot has this name.
	ErrSnapshotExists = errors.New("there is a snapshot of this name: delete it, or choose another")
)

// ErrPartialPage means that a page is not full, and so has no name. errors.Is matches any ErrPartialPage.
type ErrPartialPage struct {
	Page     int // page of the context, from 0
	Tokens   int // in it
	PageSize int
}

func (e ErrPartialPage) Error() string {
	return fmt.Sprintf("page %d has no name: %d of its %d tokens are there", e.Page, e.Tokens, e.PageSize)
}

// Is reports whether target is an ErrPartialPage.
func (e ErrPartialPage) Is(target error) bool { _, ok := target.(ErrPartialPage); return ok }

// ErrCommittedPage means that an operation which reaches only into the working page would cut a page that is full: it
// never changes, since others may share it. errors.Is matches any ErrCommittedPage.
type ErrCommittedPage struct {
	Page    int // page of the context, from 0
	Working int // tokens after the last full page, including waiting ones
}

func (e ErrCommittedPage) Error() string {
	return fmt.Sprintf("page %d is committed: only the last %d tokens can be truncated; use TruncateCommitted, or "+
		"fork the context before the page is full", e.Page, e.Working)
}

// Is reports whether target is an ErrCommittedPage.
func (e ErrCommittedPage) Is(target error) bool { _, ok := target.(ErrCommittedPage); return ok }

// ErrInvalidPage means that a context has no such page. errors.Is matches any ErrInvalidPage.
type ErrInvalidPage struct {
	Page  int
	Pages int // pages that it has
}

func (e ErrInvalidPage) Error() string {
	return fmt.Sprintf("there is no page %d: the context has %d with tokens that were run", e.Page, e.Pages)
}

// Is reports whether target is an ErrInvalidPage.
func (e ErrInvalidPage) Is(target error) bool { _, ok := target.(ErrInvalidPage); return ok }
