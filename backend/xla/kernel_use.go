package xla

import (
	"slices"
	"sync"
)

// KernelUse tells what became of a composite whose kernels are made for certain shapes, in a program for TPU or GPU.
type KernelUse struct {
	// Composite is the operation, For what it was asked for.
	Composite string `json:"composite"`
	For       string `json:"for"`
	// Kernel says which kernel is called; "" where the plain form was built, and Reason says why.
	Kernel string `json:"kernel,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// kernelUses notes what became of composites.
type kernelUses struct {
	mu   sync.Mutex
	list []KernelUse
}

func (u *kernelUses) note(use KernelUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Contains(u.list, use) {
		u.list = append(u.list, use)
	}
}

// KernelUses returns what became of each composite with kernels for certain shapes in the programs built so far, each
// case once; nil on platforms without such kernels and with kernels off.
func (b *Backend) KernelUses() []KernelUse {
	if b.uses == nil {
		return nil
	}
	b.uses.mu.Lock()
	defer b.uses.mu.Unlock()
	return slices.Clone(b.uses.list)
}
