package interactive

import (
	"errors"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/contexts"
	"github.com/quire/quire/engine/prefixes"
	"github.com/quire/quire/pagetable"
)

// message is the text of an error without the file that a row comes from: it has none.
func message(err error) string {
	if row, ok := err.(*promptset.RowError); ok {
		return row.What
	}
	return err.Error()
}

// codeOf names the errors that a program may want to tell apart; "" for others.
func codeOf(err error) string {
	for _, e := range []struct {
		code string
		err  error
	}{
		{"out_of_pages", pagetable.ErrOutOfPages{}}, {"partial_page", contexts.ErrPartialPage{}},
		{"committed_page", contexts.ErrCommittedPage{}}, {"invalid_page", contexts.ErrInvalidPage{}},
		{"out_of_contexts", contexts.ErrOutOfContexts}, {"closed", contexts.ErrClosed},
		{"context_lost", contexts.ErrContextLost}, {"no_snapshot", contexts.ErrNoSnapshot},
		{"snapshot_exists", contexts.ErrSnapshotExists}, {"no_host_memory", prefixes.ErrNoHostMemory},
		{"too_long", admit.ErrPromptTooLong}, {"empty", admit.ErrEmptyPrompt},
		{"not_a_number", admit.ErrNotANumber}, {"invalid", admit.ErrInvalidRequest},
	} {
		if errors.Is(err, e.err) {
			return e.code
		}
	}
	return ""
}
