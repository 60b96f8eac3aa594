package device

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/models/recurrence"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/tokenqueue"
)

// network is a model with its caches.
type network struct {
	Sizes
	Model models.Config
	DType dtypes.DType // of the hidden states
	// ZeroPages has pages cleared when they are freed.
	ZeroPages bool
	// DrafterLayouts are the layouts of the drafter's caches, which follow the model's; nil without a drafter.
	DrafterLayouts []attention.Layout
}

// forward runs the packed tokens through the model, whose layers write keys and values into the caches and attend to
// them. It returns the hidden states [N, hidden] of the tokens wanted, i32[N], or [T, hidden] of all tokens if wanted
// is nil, and what the program notes of these tokens. rows are of the sequences' rows: which are short, and which
// adapters they have.
func (n network) forward(caches []*Node, w decoder.Weights, packed tokenqueue.Packed, batch tokenqueue.PageBatchInfo,
	prefill, wanted *Node, rows rowParams) (after []*Node, hidden *Node, notes feature.Notes) {
	g := prefill.Graph()
	t, slots := n.StepTokens(), n.Slots
	type model struct {
		Caches []*Node
		Hidden *Node // [N, hidden]
		Notes  feature.Notes
	}
	size := t
	if wanted != nil {
		size = wanted.Shape().Dimensions[0]
	}
	x := decoder.Embed(n.Model, w, packed.Tokens, adaptersOf(rows, packed.SlotIDs), packed.NumTokens)
	if rows.Short != nil {
		x.Short = take(rows.Short, packed.SlotIDs)
	}
	m := model{caches, Zeros(g, shapes.Make(n.DType, size, n.Model.HiddenSize)), n.NoNotes(g, size)}
	of := func(x *Node) *Node { // of [T, ...] or [slots, ...]
		if wanted != nil {
			return take(x, wanted)
		}
		rest := x.Shape().Clone()
		if rest.Dimensions[0] = t - rest.Dimensions[0]; rest.Dimensions[0] > 0 {
			x = Concatenate([]*Node{x, Zeros(g, rest)}, 0)
		}
		return x
	}
	done := func(caches []*Node, hidden *Node, notes feature.Notes) model {
		return model{caches, of(hidden), tree.Map(notes, of)}
	}
	m = control.Once(prefill, m, func(now control.Now, m model) model {
		return done(n.layers(m.Caches, w, control.Hold(now, x), control.Hold(now, packed), batch, false))
	})
	first := func(x *Node, count int) *Node { return SliceAxis(x, 0, AxisRangeFromStart(count)) }
	m = control.Once(LogicalNot(prefill), m, func(now control.Now, m model) model {
		one := tokenqueue.Packed{Tokens: first(packed.Tokens, slots), SlotIDs: first(packed.SlotIDs, slots),
			PosIDs: first(packed.PosIDs, slots), NumTokens: packed.NumTokens}
		b := batch
		b.SlotIDs, b.PageIndices, b.SeqLens, b.CuQLens = first(b.SlotIDs, slots), first(b.PageIndices, slots),
			first(b.SeqLens, slots), first(b.CuQLens, slots+1)
		b.NewTokenDests, b.TokenSeqs, b.PosIDs = first(b.NewTokenDests, slots), first(b.TokenSeqs, slots),
			first(b.PosIDs, slots)
		x := tree.Map(x, func(x *Node) *Node { return first(x, slots) })
		return done(n.layers(m.Caches, w, control.Hold(now, x), control.Hold(now, one), b, true))
	})
	return m.Caches, m.Hidden, m.Notes
}

// adaptersOf are the adapters of tokens of slots i32[N]; nil if rows have none.
func adaptersOf(rows rowParams, slots *Node) *Node {
	if rows.Adapters == nil {
		return nil
	}
	return take(rows.Adapters, slots)
}

// hidden is one variant of forward: for prompts, or for one token per sequence.
func (n network) hidden(caches []*Node, w decoder.Weights, packed tokenqueue.Packed, batch tokenqueue.PageBatchInfo,
	oneToken bool) ([]*Node, *Node) {
	x := decoder.Embed(n.Model, w, packed.Tokens, nil, packed.NumTokens)
	caches, hidden, _ := n.layers(caches, w, x, packed, batch, oneToken)
	return caches, hidden
}

// layers is hidden of the packed tokens, embedded as x. It also returns what the program notes of them.
func (n network) layers(caches []*Node, w decoder.Weights, x decoder.Embedded, packed tokenqueue.Packed,
	batch tokenqueue.PageBatchInfo, oneToken bool) (after []*Node, hidden *Node, notes feature.Notes) {
	attend := n.attend(batch, oneToken, nil)
	wanted := n.Wanted()
	if wanted == nil {
		hidden, after = decoder.Hidden(n.Model, w, x, packed.PosIDs, packed.NumTokens, caches, attend, n.states(batch))
		return after, hidden, notes
	}
	hidden, noted, after := decoder.Noting(n.Model, w, x, packed.PosIDs, packed.NumTokens, caches, attend,
		n.states(batch), *wanted)
	return after, hidden, n.Pack(noted)
}

// attend is attention of a layer, with the batch's places as they are in the array that has the layer. mask is as
// [attention.Options] has it, or nil.
func (n network) attend(batch tokenqueue.PageBatchInfo, oneToken bool, mask *Node) decoder.AttentionFunc {
	layouts, loop := n.cacheLayouts(), n.loop()
	return func(layer decoder.Layer, caches []*Node, q, k, v *Node) (*Node, []*Node) {
		b := batch
		index, _, _ := loop.Body(n.Model.Layers[layer.Number].KVFrom)
		if layer.Turn != nil {
			b.PageIndices = shifted(b.PageIndices, n.Pages, layer.Turn, -1)
			places := n.Pages * n.PageSize
			b.NewTokenDests = shifted(b.NewTokenDests, places, layer.Turn, places*loop.Turns)
		}
		after := append([]*Node(nil), caches...)
		var out *Node
		options := decoder.AttentionOptions(n.Model, layer, oneToken)
		options.Mask = mask
		out, after[index] = layouts[index].Attend(q, k, v, caches[index], b, options)
		return out, after
	}
}

// states returns the places at which layers hold the states of the batch's sequences.
func (n network) states(batch tokenqueue.PageBatchInfo) decoder.StatesFunc {
	if !n.Model.HasStates() {
		return nil
	}
	all, loop := recurrence.RowsOf(batch), n.loop()
	return func(layer decoder.Layer) (array int, rows recurrence.Rows) {
		array, _, _ = loop.Body(layer.Number)
		if rows = all; layer.Turn != nil {
			rows.From = shifted(rows.From, n.Pages, layer.Turn, -1)
			rows.To = shifted(rows.To, n.Pages, layer.Turn, n.Pages*loop.Turns)
		}
		return array, rows
	}
}
