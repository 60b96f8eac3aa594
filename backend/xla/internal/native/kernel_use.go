package native

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute/shapes"
)

// KernelUse reports what became of a composite with kernels for certain shapes, in a program for TPU or GPU.
type KernelUse struct {
	// Composite is the operation, and For what it was asked for.
	Composite string `json:"composite"`
	For       string `json:"for"`
	// Kernel is the kernel that is called. It is "" if the plain form was built, and Reason is why.
	Kernel string `json:"kernel,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Tried lists the kernels that did not fit into a core's memory before.
	Tried string `json:"tried,omitempty"`
}

// kernelUses collects what became of composites.
type kernelUses struct {
	mu   sync.Mutex
	list []KernelUse // mu protects it
}

func (u *kernelUses) note(use KernelUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Contains(u.list, use) {
		u.list = append(u.list, use)
	}
}

// isPlain reports whether it is noted that a composite was asked for this, and got its plain form.
func (u *kernelUses) isPlain(asked string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.list, func(use KernelUse) bool { return use.For == asked && use.Kernel == "" })
}

// hasPlain reports whether it is noted that any composite got its plain form.
func (u *kernelUses) hasPlain() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.list, func(use KernelUse) bool { return use.Kernel == "" })
}

// forget removes the uses of a composite that were asked for with this prefix, because their programs are built again.
func (u *kernelUses) forget(composite, prefix string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = slices.DeleteFunc(u.list, func(use KernelUse) bool {
		return use.Composite == composite && strings.HasPrefix(use.For, prefix)
	})
}

// refuseQuantized returns an error, and notes it unless there is a reason already, if the cache has bytes with scales,
// which kernels do not read: see package attention. The remedy is a --kv-dtype that they read.
func (u *kernelUses) refuseQuantized(composite string, cache shapes.Shape, remedy string) error {
	if cache.DType.IsFloat() {
		return nil
	}
	use := KernelUse{Composite: composite, For: "keys and values of 8 bits",
		Reason: "kernels read floats only: use --kv-dtype " + remedy}
	if !u.hasPlain() {
		u.note(use)
	}
	return errors.New(use.Reason)
}

// all returns a copy of the list.
func (u *kernelUses) all() []KernelUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.list)
}
