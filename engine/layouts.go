package engine

import (
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/backend"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// layouts are those of the caches, one a layer that has one, but for the number of pages. A layer that keeps a state
// has it in place of keys and values.
func (c Config) layouts(p Plan, kv dtypes.DType) []attention.Layout {
	model := c.Model.Config
	list := make([]attention.Layout, model.NumCaches())
	on, ok := c.Backend.(interface{ Platform() string })
	isTPU := ok && on.Platform() == "tpu"
	byHead := c.cachesByHead()
	onTPU := map[attention.Layout]attention.Layout{}
	for i := range list {
		sizes := model.OfLayer(i)
		part := decoder.NewPartition(sizes, p.Devices)
		l := attention.ContiguousLayout(1, p.PageSize, part.KVHeads, sizes.HeadDim, kv)
		l.Paged, l.Shared = p.KV == "paged", model.Layers[i].Latent.Rank > 0
		l.ByHead = byHead
		if n := model.StateSize(i); n > 0 {
			list[i] = l.StateLayout(n)
			continue
		}
		if _, done := onTPU[l]; isTPU && !done {
			onTPU[l] = l.ForTPU(c.Backend, c.attentionSteps(p, i)...)
		}
		if list[i] = l; isTPU {
			list[i] = onTPU[l]
		}
	}
	return list
}

// cachesByHead says that the backend reads the keys of a head sooner where those of a page lie side by side.
func (c Config) cachesByHead() bool {
	return backend.Of(c.Backend).CachesByHead
}

// bytesOf is what a token takes in all caches, and what a page has beside its tokens.
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

// differing says for people that layers have keys and values of several sizes.
func (p Plan) differing() string {
	var sizes []int64
	for _, l := range p.layouts {
		if l.State == 0 && !slices.Contains(sizes, l.BytesPerToken()) {
			sizes = append(sizes, l.BytesPerToken())
		}
	}
	if len(sizes) < 2 {
		return ""
	}
	return ", which differ between layers"
}

// attentionSteps are the kinds of steps in which each layer attends that has heads of the same sizes as the given one.
func (c Config) attentionSteps(p Plan, like int) (steps []attention.Step) {
	model := c.Model.Config
	part := decoder.NewPartition(model.OfLayer(like), p.Devices)
	for layer, l := range model.Layers {
		if model.StateSize(layer) > 0 || l.HeadDim != model.Layers[like].HeadDim ||
			l.KVHeads != model.Layers[like].KVHeads {
			continue
		}
		for _, oneToken := range []bool{false, true} {
			s := attention.Step{Tokens: p.sizes().StepTokens(), PagesPerSeq: p.PagesPerSeq,
				Heads: part.KVHeads * part.QueriesPerKV, DType: p.activations,
				Options: decoder.AttentionOptions(model, decoder.Layer{Number: layer}, oneToken),
				Sinks:   l.Sinks, Stored: !model.Owns(layer)}
			if oneToken {
				s.Tokens = p.slots
			}
			s.Seqs = min(p.sizes().Rows(), s.Tokens)
			steps = append(steps, s)
		}
	}
	return steps
}

// KVBytesPerToken is what a token takes in all caches of a model with keys and values of a type.
func KVBytesPerToken(model models.Config, kv dtypes.DType) (bytes int64) {
	for i := range model.NumCaches() {
		if sizes := model.OfLayer(i); model.StateSize(i) == 0 {
			l := attention.PagedLayout(1, 1, sizes.NumKVHeads, sizes.HeadDim, kv)
			l.Shared = model.Layers[i].Latent.Rank > 0
			bytes += l.BytesPerToken()
		}
	}
	return bytes
}

// defaultPageSize is so large that states, of which a page has one a layer, take no more than half of what the keys and
// values of its tokens do, up to a limit and the longest sequence.
func defaultPageSize(model models.Config, kv dtypes.DType, longest int) int {
	token, states := int(KVBytesPerToken(model, kv)), 0 // bytes
	for i := range model.NumCaches() {
		states += max(0, model.StateSize(i)) * dtypes.Float32.Size()
	}
	size := smallestPage
	for size < min(largestPage, longest) && states > size*token/2 {
		size *= 2
	}
	return size
}
