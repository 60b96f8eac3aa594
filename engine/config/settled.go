package config

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/backend"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models"
)

// Settled is a config with all that follows from it before anything is compiled or allocated.
type Settled struct {
	Config Config       // the config as given: zero fields stay zero
	Sizes  device.Sizes // sizes of the device state and the programs
	Model  models.Config
	Traits backend.Traits // traits of Config.Backend
	// DType is the type of activations, kvDType the type of keys and values.
	DType, kvDType dtypes.DType
	Devices        int // devices that run the model together
	MaxModelLen    int
	// ShortRope is the length up to which sequences have the short divisors of a longrope; 0 if there is one rope.
	ShortRope  int
	Parameters int64
	// WeightBytes and weightForms describe the weights on one device: see [Plan].
	WeightBytes int64
	weightForms string
	// AdapterBytes is the size of the arrays of adapters.
	AdapterBytes int64
	// KVBytesPerToken is the size of a token in all caches, StateBytes the size of a page's states.
	KVBytesPerToken, StateBytes int64
	KVBytes                     int64
	lowered                     []string // see [Plan]
	drafter                     *settledDrafter
}

// settledDrafter is a draft model as it is held.
type settledDrafter struct {
	Drafter
	layouts []attention.Layout
}

const (
	DefaultMaxSeqs   = 64
	defaultMaxRounds = 16
	// rowMultiple is what the rows of a product of matrices are rounded up to. A backend computes the rows that are
	// left over after whole registers in another order of sums, so a row's result would depend on its place.
	rowMultiple = 16
	// minPromptTokens is the least number of prompt tokens that a call takes; the longest prompt always fits.
	minPromptTokens = 8192
	// BlocksInFlight is the largest number of blocks of device.BlockPages pages that are on the device in addition to
	// the pool, in each direction. If memory is short, it is fewer.
	BlocksInFlight = 4
)

// Graphs builds the graphs of the programs.
func (s *Settled) Graphs() *device.Graphs {
	gr := &device.Graphs{Sizes: s.Sizes, Model: s.Model, Arrays: s.Config.arrays(), DType: s.DType,
		ZeroPages: s.Config.ZeroPages, Debug: s.Config.Debug,
		AdapterArrays: s.Config.adapterArrays(s.Sizes.Adapters)}
	if s.drafter != nil {
		d, sizes := s.Config.drafter(), s.Sizes
		sizes.Layouts, sizes.Routes, sizes.Hidden, sizes.HiddenSize = s.drafter.layouts, 0, feature.HiddenStates{}, 0
		model := d.model()
		model.Context = s.MaxModelLen
		gr.Drafter = &device.Graphs{Sizes: sizes, Model: model, Arrays: d.arrays(), DType: d.DType,
			ZeroPages: s.Config.ZeroPages}
	}
	return gr
}

// Schedule are the sizes that the scheduler knows.
func (s *Settled) Schedule() schedule.Sizes { return s.Sizes.Sizes.Sizes }

// PrefixSeed begins the names of pages that weights of a version compute. Two engines with the same seed have the same
// contents for the same tokens, apart from rounding, which depends on devices and kernels.
func (s *Settled) PrefixSeed(version string) prefix.Hash {
	parts := []string{version, s.DType.String(), s.weightForms, kvName(s.kvDType),
		fmt.Sprint(s.Sizes.PageSize)}
	if s.Model.LongRope() { // other keys
		parts = append(parts, "long rope")
	}
	return prefix.Seed(parts...)
}

// IsShort reports whether sequences that may reach this length have the short divisors of a longrope; longer ones have
// the long ones.
func (s *Settled) IsShort(length int) bool { return s.ShortRope > 0 && length <= s.ShortRope }

// AllWeightBytes is the size of the weights of the model, its adapters and the draft model.
func (s *Settled) AllWeightBytes() int64 {
	if s.drafter == nil {
		return s.WeightBytes + s.AdapterBytes
	}
	return s.WeightBytes + s.AdapterBytes + s.drafter.WeightBytes
}

// ModelPageBytes is the size of a page in the model's layers.
func (s *Settled) ModelPageBytes() int64 {
	return s.KVBytesPerToken*int64(s.Sizes.PageSize) + s.StateBytes
}

// kvName is the name of a dtype of keys and values in plans, jobs and snapshots.
func kvName(d dtypes.DType) string {
	if d == dtypes.F8E4M3FN {
		return "FP8"
	}
	return d.String()
}

// Warnings names what is slow about the plan on the backend's platform.
func (s *Settled) Warnings() []setting.Text {
	return Plan{Layers: s.layersName()}.Warnings(s.Traits)
}

// layersName is a value of Config.Layers.
func (s *Settled) layersName() string {
	if s.Sizes.LayerLoop {
		return LayersLoop
	}
	return LayersUnrolled
}

// CheckKernels rejects a plan in which attention has its plain form, though the backend has kernels for it and its
// platform is many times slower without.
func (s *Settled) CheckKernels() error {
	b, ok := s.Config.Backend.(interface{ WantsKernels() bool })
	if !ok || !b.WantsKernels() || s.Traits.ScalarMemory == 0 {
		return nil
	}
	z := s.Sizes
	step := slotFinder{s}.withoutKernel(z.PageSize, s.sizeStep)
	if step == nil {
		return nil
	}
	if s.kvDType == dtypes.Int8 {
		return setting.Errorf("no kernel for attention reads keys and values in %s: give `kv-dtype` fp8 or auto, or "+
			"`kernels` off for ordinary operations, which take many times as long", kvName(s.kvDType))
	}
	return setting.Errorf("attention has no kernel for steps of %d tokens with %d heads on a device, keys and values "+
		"in %s, pages of %d tokens and a page table of %d x %d: change `page-size`, `max-seqs` or `max-model-len`, or "+
		"give `kernels` off for ordinary operations, which take many times as long", step.Tokens, step.Heads,
		kvName(s.kvDType), z.PageSize, step.Seqs, step.PagesPerSeq)
}
