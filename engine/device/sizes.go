package device

import (
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/ops/stopping"
)

// Sizes are the sizes of the device state and of the programs' inputs and outputs.
type Sizes struct {
	feature.Sizes
	// LayerLoop has the layers as a loop, see decoder.Loop, and one cache for all turns of a layer.
	LayerLoop bool
	Layouts   []attention.Layout // of the caches, one a layer that has one
	Transfers bool               // pages can be moved to the host and back
	Drafts    Drafting
	// ShortRope reports that rows may use the short divisors of a longrope: see schedule.Request.Short.
	ShortRope bool
	// Adapters is how many low-rank adapters there is room for; 0 if rows have none.
	Adapters int
	// Stops are the shapes of the tables that find stop strings and sequences of stop tokens; nil if rows have none.
	Stops *StopTables
}

// StopTables are the shapes of tables of stops.
type StopTables = stopping.TablesOf[shapes.Shape]

// features returns the features of the run program, with their arrays.
func (s Sizes) features() feature.List { return feature.Of(s.Sizes) }

// scores find how likely tokens are.
func (s Sizes) scores() feature.Scores { return feature.Scores{Sizes: s.Sizes} }

// fillTogether is the number of free slots at which waiting sequences get them, if at least as many wait.
func (s Sizes) fillTogether() int { return max(1, s.MaxSeqs/16) }

// Drafting controls how many tokens are drafted: see docs/speculation.md. All zero: none.
type Drafting struct {
	Most  int // of a sequence in a step
	Width int // tokens of a step that has drafts, including the tokens that drafts follow
	// Logged is how many sampled tokens are remembered in addition to those in the cache: a power of 2, more than the
	// slots.
	Logged int
	// Adapts limits drafts to those that are worth it, by the share of their class that was accepted.
	Adapts bool
	// CostRows is, if drafts adapt, how many more rows a step may have before it takes about twice as long as a step of
	// one row.
	CostRows int
	// ByModel has a model draft them, Graphs.Drafter, in place of texts.
	ByModel bool
}

// On reports whether tokens are drafted.
func (d Drafting) On() bool { return d.Most > 0 }

// Rows is how many sequences may run for any to have drafts.
func (d Drafting) Rows() int { return d.Width / 2 }

// Draws returns the most tokens that a step samples.
func (p Sizes) Draws() int { return max(p.Slots, p.Drafts.Width) }

// Columns is how many columns the output of a call has. With drafts a step fills several.
func (p Sizes) Columns() int {
	if p.Drafts.On() {
		return draftColumns * p.MaxRounds
	}
	return p.MaxRounds
}

const draftColumns = 4
