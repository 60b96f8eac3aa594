// Package backend describes the platforms that programs run on. Code that builds a program or chooses sizes asks for
// [Traits], not for a platform by name: a new platform fills in this record, and nothing else changes.
package backend

import (
	"path/filepath"
	"strings"
)

// Platforms, as PJRT and `sample setup` name them.
const (
	CPU  = "cpu"
	CUDA = "cuda"
	TPU  = "tpu"
)

// Backends, as users name them. XLA with another plugin is "xla:" and the plugin's path.
const (
	XLA     = "xla:"
	XLACPU  = XLA + CPU
	XLACUDA = XLA + CUDA
	XLATPU  = XLA + TPU
	Go      = "go"
)

// Names returns the backends that have names.
func Names() []string { return []string{XLACPU, XLACUDA, XLATPU, Go} }

// Aliases maps the words by which other programs name a kind of device to backends.
func Aliases() map[string]string {
	return map[string]string{CPU: XLACPU, CUDA: XLACUDA, "gpu": XLACUDA, TPU: XLATPU}
}

// Traits are the properties of a platform that programs and sizes depend on. The zero value describes GoMLX's own
// backend.
type Traits struct {
	// Platform names the platform in messages and in headers of files; "" for GoMLX's own backend. Do not decide by it.
	Platform string
	// IsHost states that the device is the host's processor. It shares its memory with others, its steps are bound by
	// arithmetic from few tokens on, and it can be divided into any number of devices.
	IsHost bool
	// IsDynamic states that programs can slice arrays at positions that they compute.
	IsDynamic bool
	// WritesBlocks states that a product with a matrix in blocks first writes the whole matrix as floats. So a program
	// unpacks a large matrix slice by slice.
	WritesBlocks bool
	// MultipliesBytes states that the device has units that multiply matrices of int8.
	MultipliesBytes bool
	// Lanes is how many numbers of a row lie together in a tile of memory. Shorter rows are padded, and a change of the
	// order of axes copies the array. 0: arrays lie in memory row by row.
	Lanes int
	// ReadsExpertsTogether states that one product over the matrices of all experts is faster than one for each expert,
	// if few rows go to many experts.
	ReadsExpertsTogether bool
	// SumsOverAxes states that a product can sum over two axes at once without copying its operands.
	SumsOverAxes bool
	// CopiesSlices states that a product copies a matrix that is a slice of a larger array, such as the matrix of a
	// layer in a loop over layers.
	CopiesSlices bool
	// CountsLoops states that the host takes part in each iteration of a loop, unless the program fixes their number.
	CountsLoops bool
	// TunesOnDevice states that programs are tuned on the device while they are compiled, so none is compiled ahead.
	TunesOnDevice bool
	// IsOneHost states that the devices that run a model together belong to one host.
	IsOneHost bool
	// HasChips states that environment variables describe to each process its chips and how they are connected.
	HasChips bool
	// Visible names the environment variable that lists which devices of the host a process has; "" if the platform has
	// none.
	Visible string
	// OpensAll states that a client takes all visible devices and most of their memory, unless its option
	// visible_devices lists some.
	OpensAll bool
	// Slots is how many sequences decode at once by default; 0 if that does not depend on the platform. A step of an
	// accelerator reads all weights, whatever the number of its rows.
	Slots int
	// Page is the number of tokens of the smallest page by default; 0 if that does not depend on the platform. Kernels
	// of some platforms copy page by page, so small pages are slow.
	Page int
	// ScalarMemory is the size of the memory, in bytes, from which kernels read page tables. 0: tables may have any
	// size.
	ScalarMemory int

	// SameForms reports that a token has the same bytes whether it was generated or is part of a prompt, regardless of
	// the number of rows in the step. Other backends may order sums by the shapes of arrays.
	SameForms bool
	// CachesByHead states that attention reads a KV cache faster if the keys of each head of a page lie together.
	CachesByHead bool
}

// For returns the traits of XLA on a platform without kernels. An unknown platform counts as an accelerator.
func For(platform string) Traits {
	t := Traits{Platform: platform, IsDynamic: true, WritesBlocks: true, MultipliesBytes: true, Slots: 256}
	switch platform {
	case CPU:
		t.IsHost, t.WritesBlocks, t.MultipliesBytes, t.Slots = true, false, false, 0
	case CUDA:
		t.ReadsExpertsTogether, t.CopiesSlices, t.CountsLoops = true, true, true
		t.TunesOnDevice, t.IsOneHost, t.OpensAll, t.Visible = true, true, true, "CUDA_VISIBLE_DEVICES"
	case TPU:
		t.Lanes, t.ReadsExpertsTogether, t.SumsOverAxes, t.HasChips = 128, true, true, true
		t.Page, t.ScalarMemory = 64, 1<<20
		t.Visible = "TPU_VISIBLE_CHIPS"
	}
	return t
}

// Of returns the traits of a backend that is open. Package xla's have a method for it; any other is GoMLX's own.
func Of(b any) Traits {
	if b, ok := b.(interface{ Traits() Traits }); ok {
		return b.Traits()
	}
	return Traits{}
}

// Named returns the traits of a backend by the name that a user gave it, as far as the name determines them.
func Named(name string) Traits {
	platform, isXLA := strings.CutPrefix(name, XLA)
	switch {
	case !isXLA:
		return Traits{}
	case strings.Contains(filepath.Base(platform), "libtpu"):
		return For(TPU)
	}
	return For(platform)
}

// IsHost reports whether a text that begins with the name of a backend, such as its description, is of the host's
// processor.
func IsHost(description string) bool { return strings.HasPrefix(description, XLACPU) }
