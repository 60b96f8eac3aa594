package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/stopping"
	"github.com/quire/quire/tree"
)

// Features is a set of what rows may ask for that needs arrays of its own on the device. The program run is built for a
// set: one that has fewer lacks the arrays and the work. Rows that do not ask for a feature draw the same with it and
// without.
//
// The arrays of features that stay on the device are extras: the last leaves of the state, of the program run alone. A
// row's extras are made from the input when the row is admitted, also when it goes on after it was swapped out. Zeros
// are the extras of a row that does not ask for the feature.
type Features uint32

const (
	Penalties      Features = 1 << iota // penalties of tokens that a sequence has
	MaskedTokens                        // masks of the tokens that may come next
	Biases                              // biases of tokens
	Filters                             // filters beside top-k, top-p and min-p
	TopLogprobs                         // the likeliest tokens with each that is drawn
	PromptLogprobs                      // how likely the tokens of prompts are, and the likeliest ones
	WideLogprobs                        // of these more than NarrowTops
	Thinking                            // bounds of reasoning
	DRY                                 // penalties of tokens that repeat a sequence
)

var featureNames = []string{"penalties", "masks", "biases", "filters", "top_logprobs", "prompt_logprobs",
	"wide_logprobs", "thinking", "dry"}

// Has says that all of others are among f.
func (f Features) Has(others Features) bool { return f&others == others }

// Names are those of the features, in order; nil where there are none.
func (f Features) Names() (names []string) {
	for i, name := range featureNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String lists the features.
func (f Features) String() string { return strings.Join(f.Names(), ", ") }

// FeaturesNamed are the features of these names.
func FeaturesNamed(names ...string) (f Features, err error) {
	for _, name := range names {
		i := slices.Index(featureNames, name)
		if i < 0 {
			return 0, fmt.Errorf("%q, which is none of %s", name, strings.Join(featureNames, ", "))
		}
		f |= 1 << i
	}
	return f, nil
}

// extras are what features keep on the device, of slots. What features that the program lacks would keep is absent.
type extras struct {
	Penalties penalties
	Masks     masks
	Biases    biases
	Filters   sampling.Filters
	Thinking  thinking
	DRY       dry
	Scoring   scoring
	Drafts    drafting
}

// newExtras makes the extras of features, all zero.
func (gr *Graphs) newExtras(g *Graph) (ex extras) {
	if gr.Features.Has(Penalties) {
		ex.Penalties = gr.newPenaltyState(g)
	}
	if gr.Features.Has(MaskedTokens) {
		ex.Masks = gr.newMasks(g)
	}
	if gr.Features.Has(Biases) {
		ex.Biases = gr.newBiasState(g)
	}
	if gr.Features.Has(Filters) {
		ex.Filters = gr.newFilterState(g)
	}
	if gr.Features.Has(Thinking) {
		ex.Thinking = gr.newThinking(g)
	}
	if gr.Features.Has(DRY) {
		ex.DRY = gr.newDRY(g)
	}
	ex.Scoring, ex.Drafts = gr.newScoring(g), gr.newDrafting(g)
	return ex
}

// ExtraBytes is the memory that the extras take.
func (p Sizes) ExtraBytes() (n int64) {
	if p.Features.Has(Penalties) {
		n += p.penaltyBytes()
	}
	if p.Features.Has(MaskedTokens) {
		n += p.MaskBytes()
	}
	if p.Features.Has(Biases) {
		n += p.biasBytes()
	}
	if p.Features.Has(Filters) {
		n += p.filterBytes()
	}
	if p.Features.Has(Thinking) {
		n += p.thinkingBytes()
	}
	if p.Features.Has(DRY) {
		n += p.dryBytes()
	}
	return n + p.scoringBytes() + p.draftingBytes()
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
}

type (
	asked = askedOf[*Node, *Node, *Node, *Node]
	Asked = askedOf[[]float32, []int32, []uint32, [][stopping.Lanes]int32]
)

// newAsked asks for nothing.
func (p Sizes) newAsked() (in Asked) {
	if p.Features.Has(Penalties) {
		in.Penalties = p.newPenalties()
	}
	if p.Features.Has(MaskedTokens) {
		in.MaskStates = noStates(p.WaitingLen())
	}
	if p.Features.Has(Biases) {
		in.Biases = p.newBiases()
	}
	if p.Features.Has(Filters) {
		in.Filters = tree.Make[sampling.FiltersOf[[]float32]](p.WaitingLen())
	}
	if p.Features.Has(Thinking) {
		in.Thinking = tree.Make[thinkingOf[[]int32]](p.WaitingLen())
	}
	if p.Features.Has(DRY) {
		in.DRY = p.newAskedDRY()
	}
	in.Scoring = p.newAskedScoring()
	return in
}

// setAsked fills in what the row of entry i asks for.
func (p Sizes) setAsked(in *Asked, i int, row Row, e schedule.Entry) {
	if p.Features.Has(Penalties) {
		p.setPenalties(&in.Penalties, i, row, e)
	}
	if p.Features.Has(Biases) {
		in.Biases.set(i, row.Biases)
	}
	if p.Features.Has(Filters) {
		sampling.SetFilters(in.Filters, i, row.Sampling)
	}
	if p.Features.Has(Thinking) {
		setThinking(in.Thinking, i, row.Thought, row.Prompt, e.Drawn)
	}
	if p.Features.Has(DRY) {
		p.setDRY(&in.DRY, i, row, e)
	}
	setScoring(&in.Scoring, i, e)
}

// beginExtras brings extras to where the host has them when a call begins.
func (gr *Graphs) beginExtras(ex extras, in input) extras {
	if gr.Features.Has(MaskedTokens) {
		ex.Masks = gr.beginMasks(ex.Masks, in.Masks)
	}
	return ex
}

// admitExtras makes the extras of the slots that entries get.
func (gr *Graphs) admitExtras(ex extras, in input, a admission) extras {
	if gr.Features.Has(Penalties) {
		ex.Penalties = gr.admitPenalties(ex.Penalties, in.Asked.Penalties, a)
	}
	if gr.Features.Has(MaskedTokens) {
		ex.Masks = gr.admitMasks(ex.Masks, in.Asked.MaskStates, a)
	}
	if gr.Features.Has(Biases) {
		ex.Biases = gr.admitBiases(ex.Biases, in.Asked.Biases, a)
	}
	if gr.Features.Has(Filters) {
		ex.Filters = gr.admitFilters(ex.Filters, in.Asked.Filters, a)
	}
	if gr.Features.Has(Thinking) {
		ex.Thinking = gr.admitThinking(ex.Thinking, in.Asked.Thinking, a)
	}
	if gr.Features.Has(DRY) {
		ex.DRY = gr.admitDRY(ex.DRY, in.Asked.DRY, a)
	}
	ex.Scoring, ex.Drafts.Log = gr.admitScoring(ex.Scoring, in, a), ex.Drafts.Log.admit(a)
	return ex
}

// processors are those of the logits of rows. ends says which rows have masks of nothing but tokens that end their
// completions, bool[S]; nil without masks.
func (gr *Graphs) processors(st state, rows samplers) (by sampling.Processors, ends *Node) {
	if gr.Features.Has(Penalties) {
		p := tree.Map(st.Extras.Penalties, func(of *Node) *Node { return take(of, rows.Slots) })
		by.Penalties, by.Seen = &p.Penalties, p.Seen
	}
	if m := st.Extras.Masks; gr.Features.Has(MaskedTokens) {
		by.Masks, ends = m.Tables.Masks(maskStates(m, rows))
	}
	if gr.Features.Has(Biases) {
		b := gr.biasesOf(st, rows)
		by.Biases = &b
	}
	if gr.Features.Has(Filters) {
		f := tree.Map(st.Extras.Filters, func(of *Node) *Node { return take(of, rows.Slots) })
		by.Filters = &f
	}
	if gr.Features.Has(Thinking) {
		t := tree.Map(st.Extras.Thinking, func(of *Node) *Node { return take(of, rows.Slots) })
		if rows.Behind != nil {
			t.Left, t.Open = rows.Behind.Left, rows.Behind.Open
		}
		by.Forced = forcedBy(t)
	}
	if gr.Features.Has(DRY) {
		by.DRY = gr.dryBy(st.Extras.DRY, rows)
	}
	return by, ends
}

// drew brings the extras of rows behind the tokens that they drew. finish says how they stand there.
func (gr *Graphs) drew(ex extras, in input, rows samplers, d drawn) extras {
	if gr.Features.Has(Penalties) {
		ex.Penalties = gr.countDrawn(ex.Penalties, rows, d.Tokens)
	}
	if gr.Features.Has(MaskedTokens) {
		ex.Masks = gr.walkMasks(ex.Masks, in.MaskTexts, rows, d.Tokens)
	}
	if gr.Features.Has(Thinking) {
		ex.Thinking = gr.think(ex.Thinking, rows, d.Tokens)
	}
	if gr.Features.Has(DRY) {
		ex.DRY = gr.pushDrawn(ex.DRY, rows, d.Tokens)
	}
	return ex
}

// words is how many u32 hold a bit for each token of the vocabulary.
func (p Sizes) words() int { return (p.Vocabulary + 31) / 32 }

func zeros(g *Graph, dtype dtypes.DType, dims ...int) *Node {
	return Zeros(g, shapes.Make(dtype, dims...))
}
