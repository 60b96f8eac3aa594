package xla

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute/shapes"
)

// KernelUse tells what became of a composite whose kernels are made for certain shapes, in a program for TPU or GPU.
type KernelUse struct {
	// Composite is the operation, For what it was asked for.
	Composite string `json:"composite"`
	For       string `json:"for"`
	// Kernel says which kernel is called; "" where the plain form was built, and Reason says why.
	Kernel string `json:"kernel,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Tried says which kernels did not fit into a core's memory before.
	Tried string `json:"tried,omitempty"`
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

// forget takes back what was noted of a composite for what begins so: the programs are built anew.
func (u *kernelUses) forget(composite, of string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = slices.DeleteFunc(u.list, func(use KernelUse) bool {
		return use.Composite == composite && strings.HasPrefix(use.For, of)
	})
}

// refuseQuantized notes, and returns as an error, that kernels do not take a cache of bytes with scales: see package
// attention.
func (u *kernelUses) refuseQuantized(composite string, cache shapes.Shape) error {
	if cache.DType.IsFloat() {
		return nil
	}
	use := KernelUse{Composite: composite, For: "keys and values of 8 bits",
		Reason: "kernels read floats only: use --kv-dtype auto"}
	u.note(use)
	return errors.New(use.Reason)
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
