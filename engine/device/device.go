// Package device builds the programs that run on the device: the state that stays there between calls, what a call
// takes and returns, and what it does in between. It admits sequences, runs prompts, decodes, moves pages to the host
// and back, and runs the verbs of contexts.
//
// A [Program] is a graph with an input and an output, of which the host has twins such as [Input] and [Output].
package device

import (
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// Graphs builds the programs' graphs for one model.
type Graphs struct {
	Sizes
	Model  models.Config
	Arrays []decoder.Array
	// AdapterArrays hold the low-rank adapters that rows may have; nil for none.
	AdapterArrays []decoder.AdapterArray
	DType         dtypes.DType // of the hidden states
	ZeroPages     bool         // clears pages when they are freed
	Debug         bool         // checks the rules of the state after each step
	// Drafter is the model that drafts tokens if Drafts.ByModel is set: it has the same sizes except for its layouts.
	Drafter *Graphs
}

// network is the model, without the drafter.
func (gr *Graphs) network() network {
	n := network{Sizes: gr.Sizes, Model: gr.Model, DType: gr.DType, ZeroPages: gr.ZeroPages}
	if gr.Drafter != nil {
		n.DrafterLayouts = gr.Drafter.Layouts
	}
	return n
}

func (gr *Graphs) speculation() speculation {
	sp := speculation{network: gr.network()}
	if gr.Drafter != nil {
		drafter := gr.Drafter.network()
		sp.Drafter = &drafter
	}
	return sp
}

func (gr *Graphs) recorder() recorder { return recorder{gr.speculation(), gr.Debug} }

// BlockPages is how many pages one call of the transfer programs moves.
const BlockPages = 16

// MaxStopTokens is the number of stop tokens that a row holds in addition to those in its automata.
const MaxStopTokens = 8

// Names of programs.
const (
	Init  = "init"    // makes the state
	Run   = "run"     // admits, runs prompts, decodes
	Save  = "save"    // copies pages of a row
	Load  = "load"    // gives a row pages and their contents
	Verbs = "context" // verbs of contexts
	Score = "score"   // how likely tokens are
	Pass  = "pass"    // tokens of a context with positions and masks of the caller's
)
