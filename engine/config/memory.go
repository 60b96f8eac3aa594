package config

import (
	"fmt"

	"github.com/gomlx/compute"

	"github.com/quire/quire/data/setting"
)

const (
	maxCPUKVMemory  = 4 << 30
	unknownKVMemory = 1 << 30 // if the backend does not report its memory
)

// memoryReporter is a backend that knows how much of its device's memory is free.
type memoryReporter interface {
	FreeMemory(device compute.DeviceNum) (int64, error)
}

// Bounds of what programs need, which only the compiler tells exactly.
const (
	arraysOfLogits = 4       // arrays of a number for each slot and token of the vocabulary, in float32
	codeOfLayer    = 4 << 20 // bytes of the programs, for each layer that they contain
	codeOfRest     = 64 << 20
	// unknownShare of the memory is for inputs and outputs, what layouts pad, and what the allocator can't use.
	unknownShare = 64
	// Blocks on their way take at most one in stagingShare of the memory that weights leave, if that is one block.
	stagingShare = 16
)

// defaultKVMemory is the size of the cache if the config gives none. On an accelerator it is the memory that is left by
// weights, blocks of pages on their way, arrays of features, and bounds of what programs need. On a CPU, whose memory
// other programs use too, it is half of what weights leave, within a bound.
func (s *Settled) defaultKVMemory() (int64, error) {
	m, ok := s.Config.Backend.(memoryReporter)
	if !ok {
		return unknownKVMemory, nil
	}
	free, err := m.FreeMemory(0)
	if err != nil {
		return 0, fmt.Errorf("the free memory is not known, give kv-memory: %w", err)
	}
	weights := s.AllWeightBytes() + s.Sizes.ExtraBytes()
	if s.Config.SwapWeights {
		weights += s.WeightBytes
	}
	left := free - weights
	switch {
	case left <= 0:
		return 0, fmt.Errorf("the weights take %s and %s of memory is free: nothing is left for the KV cache",
			bytesText(weights), bytesText(free))
	case s.Traits.IsHost:
		return min(left/2, maxCPUKVMemory), nil
	}
	rest := s.stagingBytes() + s.Sizes.LaterExtraBytes() + s.programBytes() + free/unknownShare
	return left - min(rest, left/2), nil // the bounds are far, and must not take all of a little
}

// programBytes bounds the code of all programs, and the temporaries of one.
func (s *Settled) programBytes() int64 {
	z := s.Sizes
	layers := s.Model.NumLayers
	if z.LayerLoop {
		layers = 1
	}
	logits := arraysOfLogits * 4 * int64(z.Slots) * int64(z.Vocabulary)
	return codeOfRest + codeOfLayer*int64(layers) + logits + s.Config.stepBytes(z.PrefillTokens, s.Devices) +
		8*int64(z.Rows())*int64(z.PagesPerSeq) // the page table, twice
}

// stagingBytes is the size of blocks of pages on their way between host and device, in both directions.
func (s *Settled) stagingBytes() int64 {
	if !s.mayTransfer() {
		return 0
	}
	return 2 * int64(s.Sizes.Staged) * int64(s.Sizes.BlockPages) * s.ModelPageBytes()
}

// mayTransfer reports whether pages can be moved to the host, unless the pool has room for all.
func (s *Settled) mayTransfer() bool {
	return s.Sizes.Paged && (!s.Sizes.Reserve || s.Config.HostKVMemory > 0 || s.Config.Contexts > 0 ||
		s.Config.SwapWeights)
}

// CannotHold returns why completions cannot stop at any token until the engine has other weights; nil if they can.
func CannotHold(s *Settled) error {
	switch {
	case !s.Sizes.Transfers:
		return setting.Errorf("`kv` basic has no pages of keys and values that can be moved to the host")
	case s.Sizes.Drafts.On():
		return setting.Errorf("with `speculate` on, a step may generate several tokens of it")
	}
	return nil
}

// stagedBlocks is how many blocks may be on their way in each direction.
func (s *Settled) stagedBlocks() int {
	m, ok := s.Config.Backend.(memoryReporter)
	if !ok || s.Traits.IsHost {
		return BlocksInFlight
	}
	free, err := m.FreeMemory(0)
	if err != nil {
		return BlocksInFlight
	}
	block := int64(s.Sizes.BlockPages) * s.ModelPageBytes()
	fit := (free - s.AllWeightBytes()) / stagingShare / (2 * max(1, block))
	return int(min(max(1, fit), BlocksInFlight))
}

// CheckMemory rejects more slots than the memory of a CPU has room for their logits. Compilers for accelerators find
// out themselves; on a CPU the first call of the device would fail.
func (s *Settled) CheckMemory() error {
	c, z := s.Config, s.Sizes
	m, ok := c.Backend.(memoryReporter)
	if !ok || c.MaxSeqs <= DefaultMaxSeqs || !s.Traits.IsHost {
		return nil
	}
	free, err := m.FreeMemory(0)
	if err != nil {
		return nil // the default of the KV memory needs it, this does not
	}
	const bytesOfLogit = 4
	each := int64(z.Vocabulary)*bytesOfLogit + z.ExtraBytes()/int64(z.Slots)
	left := free - s.AllWeightBytes() - s.KVBytes
	fit := left / 5 * 4 / each / rowMultiple * rowMultiple // a fifth is for all else
	if int64(z.Slots) <= fit {
		return nil
	}
	return setting.Errorf("planning the engine: `max-seqs` is %d: the logits of so many sequences take %s, and the "+
		"weights and the KV cache leave %s of memory: give %d or less", c.MaxSeqs, bytesText(each*int64(z.Slots)),
		bytesText(max(0, left)), max(fit, DefaultMaxSeqs))
}
