// Package ask turns the rows of a job into requests of the engine: prompt, parameters, thinking, structure and masks.
package ask

import (
	"slices"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
)

// Settings are what a job sets for all its rows.
type Settings struct {
	Sampling                        parameter.Set // what rows that give no parameters of their own take
	ServedModels                    []string      // models that rows may name; none allows any
	ReasoningParser, ToolCallParser string        // forms of package reply
	Embedding                       *Embedding    // nil if rows have completions
	ScoresChoices                   bool          // the output has the probabilities of choices
	Embeds                          bool          // the output has vectors of prompts alongside completions
	CallsTools                      bool          // completions call tools, whose strict ones are held to their schemas
}

// Builder turns rows into requests: the job's parameters, overridden by the row's own.
type Builder struct {
	Settings Settings
	Text     *Text
	// MaxModelLen is the longest sequence of the engine that is open.
	MaxModelLen func() int
	Common      CommonPrefix // common prefix of all prompts
	Leaves      bool         // no row continues another one
	Adapters    []string     // names of the adapters that rows may name, sorted
}

// New makes the requests of a job for a model that is open, or will be.
func New(settings Settings) *Builder { return &Builder{Settings: settings} }

// isAdapter reports whether a name is of an adapter.
func (b *Builder) isAdapter(name string) bool {
	_, found := slices.BinarySearch(b.Adapters, name)
	return found
}

// Parameters returns what a row asks for; it is not checked.
func (b *Builder) Parameters(row *promptset.Row) parameter.Set {
	return row.Overrides.Over(b.Settings.Sampling)
}
