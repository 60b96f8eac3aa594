package decoder

import (
	"cmp"
	"slices"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
)

// Partition describes what each of several devices holds that run a model together: some of the heads of attention,
// columns of the MLP, and rows of the vocabulary. Remainders are padded with zeros, which add nothing to any sum.
//
// A KV slot is a KV head with some of the query heads that read it. If there are more devices than KV heads, or the
// number of devices does not divide the number of KV heads, a head is in several slots, each with different queries,
// and some slots may be empty.
type Partition struct {
	Devices int
	// KVHeads is the number of KV slots of a device, and QueriesPerKV the number of query heads in each.
	KVHeads, QueriesPerKV int
	// Intermediate is the number of the MLP's columns on a device, and Vocab the number of rows of the vocabulary.
	Intermediate, Vocab int
	// ExpertGroups is the number of groups of consecutive devices that divide the experts among them: see
	// [models.Config].
	ExpertGroups int

	heads, perHead int // query heads of the model, and per KV head of the model
}

// NewPartition partitions a model for a number of devices. Of all ways to divide the heads it takes the one with the
// fewest KV slots per device, and among those the one with the fewest query heads.
func NewPartition(cfg models.Config, devices int) Partition {
	s := Partition{
		Devices: devices, Intermediate: ceilDiv(cfg.IntermediateSize, devices), Vocab: vocabOf(cfg.VocabSize, devices),
		heads: cfg.NumHeads, perHead: cfg.NumHeads / cfg.NumKVHeads, ExpertGroups: max(1, cfg.ExpertGroups),
	}
	for queries := s.perHead; queries >= 1; queries-- {
		slots := ceilDiv(cfg.NumKVHeads*ceilDiv(s.perHead, queries), devices)
		if s.KVHeads == 0 || slots < s.KVHeads || slots == s.KVHeads && queries < s.QueriesPerKV {
			s.KVHeads, s.QueriesPerKV = slots, queries
		}
	}
	return s
}

// vocabOf returns the number of the vocabulary's rows per device: a multiple of a TPU's lanes if that adds little.
// Otherwise the devices' scores would have to be shifted to concatenate them.
func vocabOf(size, devices int) int {
	const lanes = 128
	share := ceilDiv(size, devices)
	if wide := ceilDiv(share, lanes) * lanes; devices > 1 && wide-share <= share/16 {
		return wide
	}
	return share
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// Heads returns the number of query heads of a device.
func (s Partition) Heads() int { return s.KVHeads * s.QueriesPerKV }

// Local returns the config of the part of the model that one device has. Its vocabulary is the whole one.
func (s Partition) Local(cfg models.Config) models.Config {
	cfg.NumHeads, cfg.NumKVHeads, cfg.IntermediateSize = s.Heads(), s.KVHeads, s.Intermediate
	return cfg
}

// experts returns how many of a layer's experts a device has. The first of them is group * experts, where group is
// the number of the device's group; the last groups may have fewer.
func (s Partition) experts(count int) int { return ceilDiv(count, s.ExpertGroups) }

func (s Partition) group(device int) int { return device / (s.Devices / s.ExpertGroups) }

// span is a run of n rows, or columns: from is its start in the tensor, and to its start in the array.
type span struct{ from, to, n int }

// merged returns what any of several devices has of a tensor, each run once, in order.
func merged(devices [][]span) []span {
	all := slices.Concat(devices...)
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var runs []span
	for _, s := range all {
		if last := len(runs) - 1; last >= 0 && s.from <= runs[last].from+runs[last].n {
			runs[last].n = max(runs[last].n, s.from+s.n-runs[last].from)
			continue
		}
		runs = append(runs, span{from: s.from, n: s.n})
	}
	return runs
}

// place returns the position of a row, or column, in concatenated runs.
func place(runs []span, from int) int {
	before := 0
	for _, run := range runs {
		if from < run.from+run.n {
			return before + from - run.from
		}
		before += run.n
	}
	return before
}

// slot returns the KV head of a device's slot, and its query heads. An empty slot has none.
func (s Partition) slot(device, slot int) (kv, firstQuery, queries int) {
	parts := ceilDiv(s.perHead, s.QueriesPerKV) // number of slots per KV head
	position := device*s.KVHeads + slot
	kv = position / parts
	firstQuery = kv*s.perHead + position%parts*s.QueriesPerKV
	return kv, firstQuery, max(0, min(s.QueriesPerKV, (kv+1)*s.perHead-firstQuery, s.heads-firstQuery))
}

// queries and keys return the places of a device's query and KV heads, each size wide.
func (s Partition) queries(device, size int) (spans []span) {
	for slot := range s.KVHeads {
		if _, first, n := s.slot(device, slot); n > 0 {
			spans = append(spans, span{first * size, slot * s.QueriesPerKV * size, n * size})
		}
	}
	return spans
}

func (s Partition) keys(device, size int) (spans []span) {
	for slot := range s.KVHeads {
		if kv, _, n := s.slot(device, slot); n > 0 {
			spans = append(spans, span{kv * size, slot * size, size})
		}
	}
	return spans
}

// firstKeys sets a one for each KV slot of a device whose head is in no earlier slot.
func (s Partition) firstKeys(device int, ones []float32) {
	seen := -1 // heads are in the order of slots
	if device > 0 {
		seen, _, _ = s.slot(device-1, s.KVHeads-1)
	}
	for slot := range s.KVHeads {
		if kv, _, n := s.slot(device, slot); n > 0 && kv > seen {
			ones[slot], seen = 1, kv
		}
	}
}

// spansOf returns the spans of a device along the divided axis of a tensor, and how much of the axis a device holds.
// Heads are HeadDim wide.
func (s Partition) spansOf(cfg models.Config, t arch.Tensor) (spans func(device int) []span, share int) {
	if t.Experts > 0 && s.ExpertGroups > 1 { // divide within the group only
		s.Devices /= s.ExpertGroups
		s.ExpertGroups = 1
		within, share := s.spansOf(cfg, t)
		return func(d int) []span { return within(d % s.Devices) }, share
	}
	switch t.Over {
	case arch.ByQueryHeads, arch.ByGatedHeads:
		each := t.Shape[t.Axis] / cfg.NumHeads // width of a head
		return func(d int) []span { return s.queries(d, each) }, s.Heads() * each
	case arch.ByKVHeads:
		return func(d int) []span { return s.keys(d, cfg.HeadDim) }, s.KVHeads * cfg.HeadDim
	case arch.ByIntermediate:
		width := t.Shape[t.Axis]
		share = ceilDiv(width, s.Devices)
		return func(d int) []span { return block(d, share, width) }, share
	case arch.OnOne:
		share = t.Shape[t.Axis]
		return func(d int) []span { return block(d, share, share) }, share
	case arch.ByVocabulary:
		return func(d int) []span { return block(d, s.Vocab, cfg.VocabSize) }, s.Vocab
	}
	return nil, 0
}

// block returns the device's part of size elements. Each device has share of them, the last ones fewer.
func block(device, share, size int) []span {
	from := device * share
	if n := min(share, size-from); n > 0 {
		return []span{{from, 0, n}}
	}
	return nil
}
