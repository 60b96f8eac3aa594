package feature

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/stopping"
)

// State is what features keep on the device, of slots. The fields of features that a program lacks are nil. Zeros are
// the state of a row that does not ask for a feature. A row's state is made from the input when the row is admitted,
// also when it continues after it was swapped out.
type State struct {
	Penalties penalties
	Masks     masks
	Biases    biases
	Filters   sampling.Filters
	Thinking  thinking
	DRY       dry
	Scoring   scoring
	NoRepeat  noRepeatOf[*Node]
}

// askedOf is what the host gives of the features that A waiting entries ask for.
type askedOf[Floats, Ints, Words, States any] struct {
	Penalties  penaltiesOf[Floats, Ints, Words]
	MaskStates States // i32[A, stopping.Lanes]: see masks
	Biases     biasesOf[Floats, Ints]
	Filters    sampling.FiltersOf[Floats]
	Thinking   thinkingOf[Ints]
	DRY        dryOf[Floats, Ints, Words]
	Scoring    scoringOf[Ints]
	NoRepeat   noRepeatOf[Ints]
}

type (
	// Given is what the host gave, on the device.
	Given = askedOf[*Node, *Node, *Node, *Node]
	// Asked is what the host gives.
	Asked = askedOf[[]float32, []int32, []uint32, [][stopping.Lanes]int32]
)

// Row is what the features know of a row, on the host.
type Row struct {
	Sampling sampling.Settings
	Prompt   []int32 // all of it
	Biases   []Bias  // MaxBiases at most
	Thought  *Thought
	Breakers *sampling.Breakers // of what DRY takes for repeated; nil for none
}

// Input is what a call has of the host for features.
type Input struct {
	Asked Given
	Masks MaskInput
	Texts stopping.Tables // of tokens, for masks
}
