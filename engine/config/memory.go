package config

import (
	"fmt"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend"
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

// defaultKVMemory is the size of the cache if the config gives none: on an accelerator most of the memory that the
// weights leave free; on a CPU, whose memory other programs use too, half of it within a bound.
func (c Config) defaultKVMemory(weights int64) (int64, error) {
	m, ok := c.Backend.(memoryReporter)
	if !ok {
		return unknownKVMemory, nil
	}
	free, err := m.FreeMemory(0)
	if err != nil {
		return 0, fmt.Errorf("the free memory is not known, give kv-memory: %w", err)
	}
	left := free - weights
	if left <= 0 {
		return 0, fmt.Errorf("the weights take %s and %s of memory is free: nothing is left for the KV cache",
			bytesText(weights), bytesText(free))
	}
	if backend.Of(m).IsHost {
		return min(left/2, maxCPUKVMemory), nil
	}
	return left / 20 * 17, nil // the rest is for temporaries and the programs
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
