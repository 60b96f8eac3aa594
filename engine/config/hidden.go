package config

import (
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/models"
)

// HiddenStates are the hidden states that completions have.
type HiddenStates struct {
	// Layers are numbers among those of transformers: 0 is the embeddings, n the output of the n-th layer, and the last
	// one is normalized. -1 is the last, -2 the one before it. None stands for -1.
	Layers []int
	DType  dtypes.DType // Float32, BFloat16 or Float16; by default Float32
	// All reports them for each token, in place of the last one alone.
	All bool
	// MaxTokens is the longest that completions get, to know whether the memory has room for all; 0 for MaxModelLen.
	MaxTokens int
}

// of are the places of the layers of a model.
func (h HiddenStates) of(model models.Config) (states feature.HiddenStates, err error) {
	last := len(model.Layers)
	states = feature.HiddenStates{DType: h.DType, Size: model.HiddenSize}
	if h.DType == dtypes.InvalidDType {
		states.DType = dtypes.Float32
	}
	if len(h.Layers) == 0 {
		h.Layers = []int{-1}
	}
	for _, number := range h.Layers {
		place := number
		if number < 0 {
			place += last + 1
		}
		switch {
		case place < 0 || place > last:
			return states, setting.Errorf("`hidden-layers` has %d, and %s has hidden states from 0, its embeddings, "+
				"to %d: give one of these, or -1 for the last", number, model.Architecture, last)
		case slices.Contains(states.Layers, place):
			return states, setting.Errorf("`hidden-layers` has hidden state %d twice: leave one out", place)
		}
		states.Layers = append(states.Layers, place)
	}
	if states.Bytes()%4 > 0 {
		return states, setting.Errorf("`hidden-dtype` has 2 bytes, and the hidden states of a token are %d numbers, "+
			"an odd number: give f32", states.Bytes()/2)
	}
	return states, nil
}

// checkHidden rejects hidden states that the memory has no room for: in the output of two calls, on the device and on
// the host, and in the completions that run.
func checkHidden(s *Settled) error {
	z, each := s.Sizes, int64(s.Sizes.Hidden.Bytes())
	m, ok := s.Config.Backend.(memoryReporter)
	if each == 0 || !ok {
		return nil
	}
	free, err := m.FreeMemory(0)
	if err != nil {
		return nil // nothing is known to check with
	}
	need := each * int64(2*z.Slots*z.Columns()+z.StepTokens())
	if s.Traits.IsHost {
		need *= 2
		if s.Config.Hidden.All {
			tokens := s.MaxModelLen
			if most := s.Config.Hidden.MaxTokens; most > 0 {
				tokens = min(tokens, most)
			}
			need += each * int64(z.Slots) * int64(tokens)
		}
	}
	if left := free - s.AllWeightBytes() - s.KVBytes; need > left {
		return setting.Errorf("`columns` has hidden: the hidden states of %d sequences take %s, and the weights "+
			"and the KV cache leave %s of memory: give fewer `hidden-layers`, `hidden-tokens` last, `hidden-dtype` "+
			"bf16 or f16, or less `max-seqs`, `max-tokens` or `kv-memory`", z.Slots, bytesText(need),
			bytesText(max(0, left)))
	}
	return nil
}
