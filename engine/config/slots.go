package config

import (
	"cmp"
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

const (
	// slotTokens are the tokens of each slot that the memory has room for by default, or of the longest sequence.
	slotTokens = 512
	// tableLanes is what kernels pad a row of a page table to.
	tableLanes = 128
	// scalarRest is what kernels read from the memory of page tables besides the table, in bytes.
	scalarRest = 24 << 10
	// mostTablePage is the largest page, in tokens, that is chosen to make page tables smaller. No kernel for larger
	// ones comes with the program.
	mostTablePage = 128
)

// slotFinder finds how many sequences decode at once, and how many tokens a page has.
type slotFinder struct{ *Settled }

// find sets both. If kernels read page tables from a small memory, pages are so large and slots so few that a table
// takes at most half of it, or all but a little if the config leaves no choice: otherwise a step would have no kernel
// for attention.
func (s slotFinder) find() error {
	c, z := s.Config, &s.Sizes
	slots, err := s.defaultSlots()
	if err != nil {
		return err
	}
	z.MaxSeqs = cmp.Or(c.MaxSeqs, slots)
	smallest := max(smallestPage, s.Traits.Page)
	z.PageSize = cmp.Or(c.PageSize, defaultPageSize(s.Model, s.kvDType, s.MaxModelLen, smallest))
	if s.Traits.ScalarMemory == 0 || !z.Paged || z.MaxSeqs < 1 || z.PageSize < 1 || s.MaxModelLen < 1 {
		return nil
	}
	var pages []int // sizes with a kernel, the smallest first
	for page := z.PageSize; page == z.PageSize || c.PageSize == 0 && page <= mostTablePage; page *= 2 {
		if s.hasKernels(page) {
			pages = append(pages, page)
		}
	}
	if len(pages) == 0 {
		return nil // no table is too large for the plain form
	}
	for _, most := range []int{s.Traits.ScalarMemory / 2, s.Traits.ScalarMemory - scalarRest} {
		for n := z.MaxSeqs; n == z.MaxSeqs || c.MaxSeqs == 0 && n >= rowMultiple; n -= rowMultiple {
			for _, page := range pages {
				if s.tableBytes(n, page) > most {
					continue
				}
				if n < z.MaxSeqs {
					s.lowered = append(s.lowered, fmt.Sprintf("slots from %d to %d: the page table of more sequences "+
						"of up to %d tokens is too large for attention's kernel; shorter sequences allow more",
						z.MaxSeqs, n, s.MaxModelLen))
				}
				z.MaxSeqs, z.PageSize = n, page
				return nil
			}
		}
	}
	if c.MaxModelLen == 0 && c.MaxSeqs == 0 {
		return setting.Errorf("the model has %d positions, and the page table of so long sequences is too large for "+
			"attention's kernel: give `max-model-len`, as long as the longest prompt with its completion",
			s.MaxModelLen)
	}
	// There will be no kernel. A plan warns of that, and CheckKernels refuses it.
	z.PageSize = pages[len(pages)-1]
	return nil
}

// defaultSlots is the platform's number of slots, or fewer if the memory that weights leave has no room for slotTokens
// of each.
func (s slotFinder) defaultSlots() (int, error) {
	slots := cmp.Or(s.Traits.Slots, DefaultMaxSeqs)
	m, ok := s.Config.Backend.(memoryReporter)
	if s.Config.MaxSeqs > 0 || !ok || slots <= DefaultMaxSeqs {
		return slots, nil
	}
	free, err := m.FreeMemory(0)
	if err != nil {
		if s.Config.KVMemory > 0 {
			return DefaultMaxSeqs, nil
		}
		return 0, fmt.Errorf("how much memory is free can't be told, give kv-memory: %w", err)
	}
	each := kvBytesPerToken(s.Model, s.kvDType, s.Devices) * int64(min(slotTokens, max(1, s.MaxModelLen)))
	fit := int(min(int64(slots), (free-s.WeightBytes)/max(1, each)))
	return max(fit/rowMultiple*rowMultiple, DefaultMaxSeqs), nil
}

// tableBytes is the size of the largest page table of a step.
func (s slotFinder) tableBytes(slots, page int) int {
	z := s.Sizes
	z.MaxSeqs, z.Slots, z.PrefixRows = slots, slotRows(slots), prefixRows(slots)
	rows := max(z.Slots, min(z.Rows(), z.PrefillTokens))
	columns := ceilDiv(ceilDiv(s.MaxModelLen, page), tableLanes) * tableLanes
	const bytesOfPage = 4
	return bytesOfPage * rows * columns
}

// slotRows is how many rows a step of so many slots has.
func slotRows(slots int) int { return ceilDiv(slots, rowMultiple) * rowMultiple }

// prefixRows is how many prompts may wait for their clones.
func prefixRows(slots int) int { return max(8, slots/2) }

// hasKernels reports whether attention has a kernel in steps of each kind, in all layers that attend, if tables are
// small enough.
func (s slotFinder) hasKernels(page int) bool {
	lacking := s.withoutKernel(page, func(step *attention.Step, oneToken bool) {
		step.Tokens, step.Seqs, step.PagesPerSeq = rowMultiple, 1, 1
		if oneToken {
			step.Tokens = 1
		}
	})
	return lacking == nil
}

// withoutKernel returns the first kind of step for which attention has no kernel, in the sizes that size fills in; nil
// if all have one.
func (s slotFinder) withoutKernel(page int, size func(step *attention.Step, oneToken bool)) *attention.Step {
	model := s.Model
	for i, l := range model.Layers {
		if model.StateSize(i) > 0 {
			continue
		}
		layer := model.OfLayer(i)
		part := decoder.NewPartition(layer, s.Devices)
		layout := attention.PagedLayout(1, page, part.KVHeads, layer.HeadDim, s.kvDType)
		layout.Shared, layout.Paged = l.Latent.Rank > 0, s.Sizes.Paged
		for _, oneToken := range []bool{false, true} {
			step := s.attentionStep(model, i, oneToken)
			size(&step, oneToken)
			if !layout.HasTPUKernel(s.Config.Backend, step) {
				return &step
			}
		}
	}
	return nil
}

// kvBytesPerToken is the size of a token in the caches of one of so many devices.
func kvBytesPerToken(model models.Config, kv dtypes.DType, devices int) (bytes int64) {
	for i := range model.NumCaches() {
		if model.StateSize(i) > 0 {
			continue
		}
		layer := model.OfLayer(i)
		part := decoder.NewPartition(layer, devices)
		l := attention.PagedLayout(1, 1, part.KVHeads, layer.HeadDim, kv)
		l.Shared = model.Layers[i].Latent.Rank > 0
		bytes += l.BytesPerToken()
	}
	return bytes
}
