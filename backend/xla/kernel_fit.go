package xla

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/backend/xla/internal/memoryerror"
	"github.com/quire/quire/backend/xla/mosaic"
)

// kernelCall is a kernel with blocks that a program calls.
type kernelCall struct {
	request mosaic.Request
	payload *mosaic.Payload
	// operands are the dimensions of the call's operands as the compiler writes them.
	operands []string
}

func newKernelCall(call *mosaic.Call) kernelCall {
	k := kernelCall{request: call.Request, payload: call.Payload}
	for _, o := range call.Operands {
		k.operands = append(k.operands, strings.ReplaceAll(fmt.Sprint(o.Shape.Dimensions), " ", ","))
	}
	return k
}

// isNamedBy says that the compiler's text of an operation may be of this call: it has no name of ours, but all
// operands.
func (k kernelCall) isNamedBy(operation string) bool {
	return strings.Contains(operation, mosaic.Target) && !slices.ContainsFunc(k.operands, func(dims string) bool {
		return !strings.Contains(operation, dims)
	})
}

// blocksText names a kernel by its blocks.
func blocksText(p *mosaic.Payload) string {
	return fmt.Sprintf("blocks of %d queries and %d pages", p.Blocks.Queries, p.Blocks.Pages)
}

// tooLarge notes that a kernel of a program did not fit into a core's memory, and says in lack which it was and what a
// program that is built anew has in its place. Of several kernels in a program it is the one with the operands that the
// compiler shows, or the one with the largest blocks.
func (m *mosaicKernels) tooLarge(lack *KernelMemoryError, calls []kernelCall) {
	calls = slices.DeleteFunc(slices.Clone(calls), func(c kernelCall) bool { return m.isRefused(c.payload) })
	named := slices.DeleteFunc(slices.Clone(calls), func(c kernelCall) bool { return !c.isNamedBy(lack.Operation) })
	if len(named) > 0 {
		calls = named
	} else if lack.Operation != "" && !strings.Contains(lack.Operation, mosaic.Target) {
		return // an operation of the compiler's
	}
	if len(calls) == 0 {
		return
	}
	size := func(c kernelCall) int { return c.payload.Blocks.Queries * c.payload.Blocks.Pages }
	largest := slices.MaxFunc(calls, func(a, b kernelCall) int { return cmp.Compare(size(a), size(b)) })
	p := largest.payload
	lack.Kernel = fmt.Sprintf("%s with %s", p.Kernel, blocksText(p))
	m.refuse(p, lack)
	m.uses.forget(p.Kernel, largest.request.Config.String())
	if lack.Space == memoryerror.SMEM { // it has the page table, whatever the blocks
		for _, e := range m.store.Entries() {
			if e.Serves(largest.request) {
				m.refuse(e.Payload, lack)
			}
		}
	}
	if next, err := m.store.FindExcept(largest.request, m.isRefused); err == nil {
		lack.Next = blocksText(next.Payload)
	} else {
		lack.Next = "the plain form"
	}
}

// refuse notes that a payload is not to be used any more.
func (m *mosaicKernels) refuse(p *mosaic.Payload, lack *KernelMemoryError) {
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

// isRefused says that a payload did not fit, or is as large as one that did not.
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

// tried says which payloads for a request did not fit.
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
