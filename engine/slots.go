package engine

import "fmt"

// checkSlots refuses more slots than the memory of a CPU holds the logits of. Compilers for accelerators find out
// themselves; on a CPU the first call of the device would fail.
func (c Config) checkSlots(p Plan) error {
	m, ok := c.Backend.(memoryReporter)
	if !ok || c.MaxSeqs <= defaultMaxSeqs || m.Platform() != "cpu" {
		return nil
	}
	free, err := m.FreeMemory(0)
	if err != nil {
		return nil // which the default of the KV memory needs, not this
	}
	const bytesOfLogit = 4
	each := int64(p.vocabulary)*bytesOfLogit + p.sizes().ExtraBytes()/int64(p.slots)
	left := free - p.AllWeightBytes() - p.KVBytes
	fit := left / 5 * 4 / each / rowMultiple * rowMultiple // a fifth is for all else
	if int64(p.slots) <= fit {
		return nil
	}
	return fmt.Errorf("`max-seqs` is %d: the logits of so many sequences take %s, and the weights and the KV cache "+
		"leave %s of memory: give %d or less", c.MaxSeqs, bytesText(each*int64(p.slots)), bytesText(max(0, left)),
		max(fit, defaultMaxSeqs))
}
