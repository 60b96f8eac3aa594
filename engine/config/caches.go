package config

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// Tokens of a page, unless the config gives a number.
const (
	smallestPage = 16
	largestPage  = 512
)

// settleCaches finds the layouts of the caches, and how many pages there are memory for.
func (s *Settled) settleCaches() (err error) {
	c, z := s.Config, &s.Sizes
	z.Layouts = s.layouts(c.Model.Config, s.kvDType)
	s.KVBytesPerToken, s.StateBytes = bytesOf(z.Layouts)
	z.States = s.StateBytes > 0
	if c.DraftModel != nil {
		d := c.drafter()
		s.drafter = &settledDrafter{layouts: s.layouts(d.Model.Config, d.KVDType)}
		s.drafter.Drafter = Drafter{Model: d.Model.Config.Architecture, Parameters: d.Model.NumParameters(),
			DType: d.DType.String()}
		s.drafter.WeightBytes, s.drafter.Weights = heldWeights(d, d.DType)
		s.drafter.KVBytesPerToken, _ = bytesOf(s.drafter.layouts)
	}
	z.Staged = s.stagedBlocks()
	budget := c.KVMemory
	if budget == 0 {
		if budget, err = s.defaultKVMemory(); err != nil {
			return err
		}
	}
	if z.Paged {
		err = s.settlePages(budget)
	} else {
		err = s.settleRows(budget)
	}
	if err != nil {
		return err
	}
	for i := range z.Layouts {
		z.Layouts[i].Pages = z.Pages
	}
	if s.drafter != nil {
		for i := range s.drafter.layouts {
			s.drafter.layouts[i].Pages = z.Pages
		}
	}
	return nil
}

// settlePages finds the number of pages of a paged cache.
func (s *Settled) settlePages(budget int64) error {
	c, z, page := s.Config, &s.Sizes, s.pageBytes()
	// More than every row at its longest is never used, and then there is nothing to over-commit.
	most := int64(z.MaxSeqs+z.PrefixRows+z.Contexts) * int64(z.PagesPerSeq)
	if z.Pages = int(min(budget/page, most)); int64(z.Pages) == most {
		z.Reserve = true
	}
	z.Transfers = s.mayTransfer()
	if z.Pages < 1 {
		return setting.Errorf("a KV memory of %s does not hold one page of %s: raise `kv-memory`",
			bytesText(budget), bytesText(page))
	}
	s.KVBytes = int64(z.Pages) * page
	if c.KVMemory > 0 && int64(z.Pages) == most && s.KVBytes < c.KVMemory {
		s.lowered = append(s.lowered, fmt.Sprintf("KV memory from %s to %s, which hold all sequences at their longest",
			bytesText(c.KVMemory), bytesText(s.KVBytes)))
	}
	return nil
}

// settleRows finds the number of rows of the contiguous cache.
func (s *Settled) settleRows(budget int64) error {
	c, z := s.Config, &s.Sizes
	if z.Contexts > 0 {
		return setting.Errorf("contexts share pages, which `kv` basic has none of: use `kv` paged")
	}
	row := s.pageBytes()
	if c.MaxSeqs == 0 { // as many slots as fit
		fit := max(int(min(budget/row, int64(z.Slots)))/rowMultiple, 1) * rowMultiple
		if fit < z.MaxSeqs {
			s.lowered = append(s.lowered, fmt.Sprintf("slots from %d to %d: a KV memory of %s holds no more rows of "+
				"%d tokens", z.MaxSeqs, fit, bytesText(budget), s.MaxModelLen))
		}
		z.Slots, z.MaxSeqs = fit, min(z.MaxSeqs, fit)
		z.Layouts = s.layouts(c.Model.Config, s.kvDType)
	}
	if need := row * int64(z.Slots); need > budget {
		return setting.Errorf("`kv` basic keeps %d rows of %d tokens, %s, and the KV memory is %s: "+
			"lower `max-seqs` or `max-model-len`, raise `kv-memory`, or use `kv` paged",
			z.Slots, s.MaxModelLen, bytesText(need), bytesText(budget))
	}
	z.Pages, s.KVBytes = z.Slots, row*int64(z.Slots)
	return nil
}

// pageBytes is the size of a page in all layers, including the draft model's layers.
func (s *Settled) pageBytes() int64 {
	if s.drafter != nil {
		return s.ModelPageBytes() + s.drafter.KVBytesPerToken*int64(s.Sizes.PageSize)
	}
	return s.ModelPageBytes()
}

// layouts are the layouts of a model's caches, without the number of pages. A layer that keeps a state has it in place
// of keys and values.
func (s *Settled) layouts(model models.Config, kv dtypes.DType) []attention.Layout {
	list := make([]attention.Layout, model.NumCaches())
	tiled := s.Traits.Lanes > 0
	onTPU := map[attention.Layout]attention.Layout{}
	for i := range list {
		sizes := model.OfLayer(i)
		part := decoder.NewPartition(sizes, s.Devices)
		l := attention.ContiguousLayout(1, s.Sizes.PageSize, part.KVHeads, sizes.HeadDim, kv)
		l.Paged, l.Shared = s.Sizes.Paged, model.Layers[i].Latent.Rank > 0
		l.ByHead = s.Traits.CachesByHead
		if n := model.StateSize(i); n > 0 {
			list[i] = l.StateLayout(n)
			continue
		}
		if _, done := onTPU[l]; tiled && !done {
			onTPU[l] = l.ForTPU(s.Config.Backend, s.attentionSteps(model, i)...)
		}
		if list[i] = l; tiled {
			list[i] = onTPU[l]
		}
	}
	return list
}

// attentionSteps are the kinds of steps in which each layer attends that has heads of the same sizes as the given one.
func (s *Settled) attentionSteps(model models.Config, like int) (steps []attention.Step) {
	for layer, l := range model.Layers {
		if model.StateSize(layer) > 0 || l.HeadDim != model.Layers[like].HeadDim ||
			l.KVHeads != model.Layers[like].KVHeads {
			continue
		}
		for _, oneToken := range []bool{false, true} {
			step := s.attentionStep(model, layer, oneToken)
			s.sizeStep(&step, oneToken)
			steps = append(steps, step)
		}
	}
	return steps
}

// sizeStep fills in the shapes of a kind of step.
func (s *Settled) sizeStep(step *attention.Step, oneToken bool) {
	step.Tokens, step.PagesPerSeq = s.Sizes.StepTokens(), s.Sizes.PagesPerSeq
	if oneToken {
		step.Tokens = s.Sizes.Slots
	}
	step.Seqs = min(s.Sizes.Rows(), step.Tokens)
}

// attentionStep is a kind of step of a layer, without its shapes.
func (s *Settled) attentionStep(model models.Config, layer int, oneToken bool) attention.Step {
	part := decoder.NewPartition(model.OfLayer(layer), s.Devices)
	return attention.Step{Heads: part.KVHeads * part.QueriesPerKV, DType: s.DType,
		Options: decoder.AttentionOptions(model, decoder.Layer{Number: layer}, oneToken),
		Sinks:   model.Layers[layer].Sinks, Stored: !model.Owns(layer)}
}

// bytesOf is the size of a token in all caches, and of a page's states.
func bytesOf(layouts []attention.Layout) (token, states int64) {
	for _, l := range layouts {
		if l.State > 0 {
			states += l.PageBytes()
		} else {
			token += l.BytesPerToken()
		}
	}
	return token, states
}

// tokenText describes what the keys and values of a token consist of.
func (s *Settled) tokenText() string {
	layouts := s.Sizes.Layouts
	heads, vector := "2 x layers x KV heads", "head dim x "+kvName(s.kvDType)
	if slices.ContainsFunc(layouts, func(l attention.Layout) bool { return l.Shared }) {
		heads, vector = "layers", "latent and turned key x "+kvName(s.kvDType)
	}
	if slices.ContainsFunc(layouts, attention.Layout.Quantized) {
		vector = "(" + vector + " + a scale)"
	}
	text := heads + " x " + vector
	var sizes []int64
	for _, l := range layouts {
		if l.State == 0 && !slices.Contains(sizes, l.BytesPerToken()) {
			sizes = append(sizes, l.BytesPerToken())
		}
	}
	if len(sizes) > 1 {
		text += ", which differ between layers"
	}
	return text
}

// KVBytesPerToken is the size of a token in all caches of a model with keys and values of a type.
func KVBytesPerToken(model models.Config, kv dtypes.DType) int64 {
	return kvBytesPerToken(model, kv, 1)
}

// defaultPageSize is the smallest page, or so large that the states of a page, one for each layer that keeps one, take
// at most half as much memory as the keys and values of its tokens, up to a limit and the longest sequence.
func defaultPageSize(model models.Config, kv dtypes.DType, longest, smallest int) int {
	token, states := int(KVBytesPerToken(model, kv)), 0 // bytes
	for i := range model.NumCaches() {
		states += max(0, model.StateSize(i)) * dtypes.Float32.Size()
	}
	size := smallest
	for size < min(largestPage, longest) && states > size*token/2 {
		size *= 2
	}
	return size
}
