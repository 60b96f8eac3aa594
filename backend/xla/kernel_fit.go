package xla

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

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
	if lack.Space == SMEM { // it has the page table, whatever the blocks
		for _, e := range m.store.Entries() {
			if e.Serves(largest.request) {
				m.refuse(e.Payload, lack)
			}
		}
	}
	if next, err := m.store.FindExcept(largest.request, m.isRefused); err == nil {
		lack.again = blocksText(next.Payload)
	} else {
		lack.again = "the plain form"
	}
}

// refuse notes that a payload is not to be used any more.
func (m *mosaicKernels) refuse(p *mosaic.Payload, lack *KernelMemoryError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	why := fmt.Sprintf("%s need more %s than there is", blocksText(p), lack.space())
	if lack.Needed > 0 {
		why = fmt.Sprintf("%s need %s of %s, and may have %s", blocksText(p), sizeText(lack.Needed), lack.space(),
			sizeText(lack.Limit))
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

// kernelMemory reads what the compiler says of a core's memory; nil where it says nothing of that.
func kernelMemory(text string) *KernelMemoryError {
	if m := allocation.FindStringSubmatch(text); m != nil && m[3] != "hbm" {
		return &KernelMemoryError{Space: m[3], Needed: compilerBytes(m[1]), Limit: compilerBytes(m[2])}
	}
	space := memorySpace.FindStringSubmatch(text)
	if space == nil || space[1] == "hbm" {
		return nil
	}
	lack := &KernelMemoryError{Space: space[1]}
	if m := operationOf.FindStringSubmatch(text); m != nil {
		lack.Operation = m[1]
	}
	if m := scopedSize.FindStringSubmatch(text); m != nil {
		lack.Needed, lack.Limit = compilerBytes(m[1]), compilerBytes(m[2])
	} else if m := usedOf.FindStringSubmatch(text); m != nil {
		lack.Needed, lack.Limit = compilerBytes(m[1]), compilerBytes(m[2])
	}
	return lack
}

// allocation is what a kernel asks for outright; the others are of what it and the compiler put on its stack.
var (
	allocation = regexp.MustCompile(
		`Allocation \(size=(\d+)\) would exceed memory \(size=(\d+)\)[^\n]*?\bspace=(\w+)`)
	memorySpace = regexp.MustCompile(`[Rr]an out of memory in memory space (\w+)`)
	operationOf = regexp.MustCompile(`allocating on stack for (%?[^\n]+?)\. Scoped allocation`)
	scopedSize  = regexp.MustCompile(
		`Scoped allocation with size ([0-9.]+[KMGT]?) and limit ([0-9.]+[KMGT]?) exceeded scoped \w+ limit`)
	usedOf = regexp.MustCompile(`Used ([0-9.]+[KMGT]?) of ([0-9.]+[KMGT]?) \w+`)
)
