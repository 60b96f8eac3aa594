package schedule

import (
	"sync/atomic"
	"time"

	"github.com/quire/quire/engine/prefix"
)

// Config is what a run works with. The run does not change it.
type Config struct {
	Sizes
	Device    Device
	Host      *HostCache    // nil: pages that others take are forgotten
	Index     *prefix.Index // names of the device's pages; nil without Sizes.PrefixCache
	Stops     Stops         // nil: no request has stops or an adapter that need room
	ByAdapter bool          // the device does not hold all adapters: requests with the same one run together
	Contexts  []*Context    // the rows that belong to no completion
	FreePages int           // free pages on the device when nothing runs
	Pool      int           // pages that the run may use: contexts hold the others, or have them reserved
	// Between delivers operations to be done between two calls; nil for none. The sender must see to it that
	// completions are read meanwhile.
	Between <-chan *Operation
	// Moved is called when a call ran tokens of a context, with the tokens that it has now and the pages that it took,
	// by place; None for a place without such a page.
	Moved func(row, done int, pages []int32)
	// Short makes the error for a request that needs more pages than the pool has.
	Short func(need, pool int) error

	PrefixSeed prefix.Hash // the names of pages begin with it
	Weights    string      // the version of the weights at first: see [Between.ReplaceWeights]
	// NewStream turns the tokens of a completion of r into text; nil: completions have none. The run's goroutine calls
	// it, and the drain's.
	NewStream func(r *Request) Stream

	// Stats are written by the run's goroutine, and read when Run has returned.
	Stats *Stats
	Calls *atomic.Int64 // counts calls; others may read it during the run
	// Observe is called after each call, with the free pages after each step that generated.
	Observe func(c Call, freePages []int32)
	Note    func(event string) // called when a call starts and ends
	Trace   Tracer             // receives what takes time; nil for nobody
	// Inspect is called after each call, and with the failure when the run fails: then its result replaces the failure.
	// view describes the rows as they are. nil for nobody.
	Inspect func(view func() View, failure error) error
	Now     func() time.Time
	// InOrder makes each call wait until it has all the requests that there is room for, and until the drain has read
	// the last one: for tests, whose figures it makes the same each time.
	InOrder bool
	// Debug makes the drain also look for stop strings that the device finds, and compare.
	Debug bool
}

// Call has the figures of one call of the device.
type Call struct {
	PrefillSteps, DecodeSteps int
	Tokens                    int     // generated
	Seconds                   float64 // seconds that the device ran the program
	Active, Waiting           int     // sequences in slots, and requests that wait for one
	FreePages, FewestFree     int     // when the call ended, and after any of its steps
}
