package native

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/backend/xla/internal/memoryerror"
	"github.com/quire/quire/backend/xla/mosaic"
)

// isNamed reports whether the compiler's text of an operation may be about this call. The text does not have the
// kernel's name, but it has the dimensions of all operands.
func isNamed(call *mosaic.Call, operation string) bool {
	if !strings.Contains(operation, mosaic.Target) {
		return false
	}
	for _, o := range call.Operands {
		if !strings.Contains(operation, strings.ReplaceAll(fmt.Sprint(o.Shape.Dimensions), " ", ",")) {
			return false
		}
	}
	return true
}

// blocksText names a kernel by its blocks.
func blocksText(p *mosaic.Payload) string {
	return fmt.Sprintf("blocks of %d queries and %d pages", p.Blocks.Queries, p.Blocks.Pages)
}

// tooLarge notes that a kernel of a program did not fit into a core's memory. It sets in lack which kernel it was, and
// what replaces it when the program is built again. If the program has several kernels, it is the one with the operands
// that the compiler shows, or else the one with the largest blocks.
func (m *mosaicKernels) tooLarge(lack *memoryerror.Kernel, calls []*mosaic.Call) {
	calls = slices.DeleteFunc(slices.Clone(calls), func(c *mosaic.Call) bool { return m.isRefused(c.Payload) })
	named := slices.DeleteFunc(slices.Clone(calls), func(c *mosaic.Call) bool { return !isNamed(c, lack.Operation) })
	if len(named) > 0 {
		calls = named
	} else if lack.Operation != "" && !strings.Contains(lack.Operation, mosaic.Target) {
		return // it is the compiler's own operation
	}
	if len(calls) == 0 {
		return
	}
	size := func(c *mosaic.Call) int { return c.Payload.Blocks.Queries * c.Payload.Blocks.Pages }
	largest := slices.MaxFunc(calls, func(a, b *mosaic.Call) int { return cmp.Compare(size(a), size(b)) })
	p := largest.Payload
	lack.Kernel = fmt.Sprintf("%s with %s", p.Kernel, blocksText(p))
	m.refuse(p, lack)
	m.uses.forget(p.Kernel, largest.Request.Config.String())
	if lack.Space == memoryerror.SMEM { // which has the page table, with any blocks
		for _, e := range m.store.Entries() {
			if e.Serves(largest.Request) {
				m.refuse(e.Payload, lack)
			}
		}
	}
	if next, err := m.store.FindExcept(largest.Request, m.isRefused); err == nil {
		lack.Next = blocksText(next.Payload)
	} else {
		lack.Next = "the plain form"
	}
}

// refuse notes that a payload must not be used any more.
func (m *mosaicKernels) refuse(p *mosaic.Payload, lack *memoryerror.Kernel) {
	m.mu.Lock()
	defer m.mu.Unlock()
	why := fmt.Sprintf("%s need more %s than there is", blocksText(p), lack.SpaceName())
	if lack.Needed > 0 {
		why = fmt.Sprintf("%s need %s of %s, and may have %s", blocksText(p), memoryerror.SizeText(lack.Needed),
			lack.SpaceName(), memoryerror.SizeText(lack.Limit))
	}
	if m.refused == nil {
		m.refused = map[*mosaic.Payload]string{}
	}
	m.refused[p] = why
}

// isRefused reports whether a payload did not fit, or is as large as one that did not.
func (m *mosaicKernels) isRefused(p *mosaic.Payload) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for q := range m.refused {
		if p == q || p.NeedsAsMuchAs(q) {
			return true
		}
	}
	return false
}

// tried lists the payloads for a request that did not fit.
func (m *mosaicKernels) tried(r mosaic.Request) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for p, why := range m.refused {
		if p.Serves(r) {
			list = append(list, why)
		}
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}
