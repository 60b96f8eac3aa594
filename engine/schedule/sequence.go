package schedule

import (
	"sync/atomic"

	"github.com/quire/quire/engine/prefix"
)

// group is a sequence group: a request whose completions are not all admitted or not all done. The run's goroutine owns
// it, except scores: see there.
//
// A sequence runs its prompt from position 0, or starts as a clone of a prefix row that has run a part of it: full
// pages are shared, a partial one is copied, and the clone runs the rest. The rest is never empty: the first token is
// generated from the last one of the prompt.
type group struct {
	*Request
	// asked is the request as it was taken in, which has the completions. Request is a part of it if the others were
	// admitted under earlier weights.
	asked    *Request
	seed     prefix.Hash // begins the names of its pages
	admitted int         // completions; they are admitted in order of their generation
	ended    int         // completions; when all have ended, the room for the stops is released
	// passed counts the groups that came later and were inserted before this one. It bounds how long a group waits.
	passed int
	// sourced reports whether the source is chosen. It stays chosen from one call to the next, because the source
	// counts this group among its users; a stall takes the choice back.
	sourced    bool
	source     *prefixRow // nil: named pages, or nothing
	sourcedFor int        // admitted when the source was chosen: this completion's pages may be reserved with the row
	held       int        // tokens taken over from the source or from named pages
	stopsHeld  bool       // the device has room for the stops
	// scores are of the prompt; nil unless it is scored. The run's goroutine writes a score before it hands the call
	// that generated a completion to the drain, and never again.
	scores    *Scores
	inherited inheritedScores // scores of the held tokens
}

// prefixRow is a row that runs a prompt, or the common part of several, for sequences that start as its clones. It is
// dropped when the last of them has started: its full pages have names, and others begin with these. The row of a
// context is one that stays. The run's goroutine owns it.
type prefixRow struct {
	row    int
	tokens []int32
	// chain names the full pages; if the row is scored also one that lacks its last token.
	chain []prefix.Hash
	// source is the row whose clone this row is going to be. The row counts among the users of its source until it is
	// opened, and then forgets it.
	source *prefixRow
	held   int  // tokens taken over from the source or from named pages
	opened bool // the device has the row
	holding
	done      int      // tokens that the row has run
	pinned    *Context // the context whose row it is; nil for none
	score     int      // see Request
	variant   Variant  // of the requests that use it
	scores    *Scores  // scores of the tokens; nil unless they are scored
	inherited inheritedScores
	// first is the group whose next sequence has its pages reserved with the row, until that sequence is admitted.
	first *group
}

// placed returns the tokens that the row runs, and the token after them if the row is scored: the score of that token
// comes from the last one that the row runs.
func (p *prefixRow) placed() []int32 {
	if p.score > 0 {
		return p.tokens[:len(p.tokens)+1]
	}
	return p.tokens
}

// sequence is one completion that waits, runs or is swapped out. The run's goroutine owns it, except cancelled and
// text.
type sequence struct {
	group      *group
	generation int
	row        int
	done       int   // its tokens in the cache after the last call
	last       int32 // the token generated last, which is not in the cache yet
	names      *prefix.Namer
	mixed      bool    // earlier weights computed some of its keys and values: its pages get no names
	generated  []int32 // all generated tokens, if the request recalls them
	holding
	admission int // counts admissions of the run: the latest is swapped out first

	// cancelled is set by the drain at a stop string that the device does not know, and read by the run's goroutine
	// between two calls.
	cancelled atomic.Bool
	// text is written before the sequence is first handed to the drain, and then owned by the drain.
	text completionText
}

// swapped is a sequence whose keys and values are on the host.
type swapped struct {
	seq   *sequence
	pages *Pages
	stops []int32    // see Entry.StopStates
	back  *prefixRow // the row that holds the sequence again, from which it gets a slot; nil before
}

// holding is the pages that a row took, as far as the host knows them.
type holding struct {
	ids     []int32 // ids by place in the sequence; None if the row did not take the page itself
	settled int     // how many of the first places have names, or will have none
}

// put records that the row took a page.
func (h *holding) put(place int, page int32) {
	for len(h.ids) <= place {
		h.ids = append(h.ids, None)
	}
	h.ids[place] = page
}
