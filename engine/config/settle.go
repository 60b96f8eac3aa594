package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/collective"
)

// Settle finds the sizes of an engine from the model, the memory and what the config asks for. It compiles nothing.
func Settle(c Config) (*Settled, error) {
	if c.Model == nil || c.Backend == nil {
		return nil, errors.New("engine: Config.Model and Config.Backend are needed")
	}
	if err := c.Model.Config.Generates(); err != nil {
		return nil, err
	}
	s := &Settled{Config: c, Traits: backend.Of(c.Backend)}
	if err := s.settle(); err != nil {
		return nil, fmt.Errorf("planning the engine: %w", err)
	}
	return s, nil
}

// settle fills in the sizes, in the order in which they depend on each other.
func (s *Settled) settle() (err error) {
	c, model := s.Config, s.Config.model()
	if s.DType, s.kvDType, err = c.dtypes(); err != nil {
		return err
	}
	s.Devices = collective.Devices(c.Backend)
	if err := checkExperts(model, s.Devices); err != nil {
		return err
	}
	kv, layers := cmp.Or(c.KV, paged), cmp.Or(c.Layers, LayersUnrolled)
	if err := checkLayers(layers, kv, model); err != nil {
		return err
	}
	s.Parameters = c.Model.NumParameters()
	s.WeightBytes, s.weightForms = heldWeights(c, s.DType)

	z := &s.Sizes
	z.Paged, z.LayerLoop = kv == paged, layers == LayersLoop
	z.Contexts, z.Features, z.Vocabulary = c.Contexts, c.Features, model.VocabSize
	z.BlockPages = device.BlockPages
	if z.Features.Has(feature.Experts) {
		layers, chosen, err := model.Routing()
		if err != nil {
			return setting.Errorf("`columns` has experts, and %w: leave it out", err)
		}
		z.Routes = layers * chosen
	}
	if z.Features.Has(feature.Hidden) {
		if z.Hidden, err = c.Hidden.of(model); err != nil {
			return err
		}
	}
	if z.Features.Has(feature.States) {
		z.HiddenSize = model.HiddenSize
	}
	z.Stops, _ = StopTables(c)
	z.MaxRounds = cmp.Or(c.MaxRounds, defaultMaxRounds)
	z.PrefillTokens = cmp.Or(c.PrefillTokens, c.defaultPrefillTokens(s.WeightBytes, s.Parameters, s.Devices))
	s.MaxModelLen = cmp.Or(c.MaxModelLen, model.MaxPositions)
	s.Model = model
	s.Model.Context = s.MaxModelLen
	s.ShortRope = s.Model.ShortRope()
	z.ShortRope = s.ShortRope > 0
	if err := settleAdapters(s); err != nil {
		return err
	}
	if err := (slotFinder{s}).find(); err != nil {
		return err
	}
	admission := cmp.Or(c.Admission, Overcommit)
	z.Reserve = admission == Reserve
	if err := s.check(admission); err != nil {
		return err
	}
	z.Slots, z.Mixed = slotRows(z.MaxSeqs), c.sameForms()
	if z.Drafts, err = s.drafting(); err != nil {
		return err
	}
	z.Masks = MaskSizes(c, z.Slots)
	z.PrefillTokens = ceilDiv(z.PrefillTokens, rowMultiple) * rowMultiple
	z.PromptLimit = max(s.MaxModelLen, minPromptTokens)
	z.History = max(2, min(s.MaxModelLen, parameter.MaxDRYLastN))

	switch kv {
	case paged:
		z.PrefixRows = prefixRows(z.MaxSeqs)
		z.PagesPerSeq = ceilDiv(s.MaxModelLen, z.PageSize)
		z.PrefixCache = !c.NoPrefixCache
	case basic:
		// The sequence table still counts pages, one per slot, so that admission is the same code. A slot has its row,
		// and nothing is shared.
		z.PageSize, z.PagesPerSeq, z.Reserve = s.MaxModelLen, 1, true
	default:
		return fmt.Errorf("kv is %q: paged or basic is needed", kv)
	}
	z.NameDrawn = z.PrefixCache && z.Mixed
	if err := s.settleCaches(); err != nil {
		return err
	}
	return checkHidden(s)
}

// heldWeights returns the size of all weights, and the forms of matrices that are not in the dtype.
func heldWeights(c Config, dtype dtypes.DType) (bytes int64, forms string) {
	var others []string
	for _, a := range c.arrays() {
		bytes += int64(a.Shape.Memory())
		if f, ok := a.Matrix(); ok && f.Form() != dtype.String() && !slices.Contains(others, f.Form()) {
			others = append(others, f.Form())
		}
	}
	slices.Sort(others)
	return bytes, strings.Join(others, " and ")
}

// check rejects what is out of range.
func (s *Settled) check(admission Admission) error {
	z := s.Sizes
	if admission != Reserve && admission != Overcommit {
		return fmt.Errorf("admission is %q: reserve or overcommit is needed", admission)
	}
	if z.Contexts < 0 {
		return fmt.Errorf("contexts is %d, which is negative", z.Contexts)
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"max-seqs", z.MaxSeqs}, {"page-size", z.PageSize}, {"prefill-tokens", z.PrefillTokens},
		{"max-rounds", z.MaxRounds}, {"max-model-len", s.MaxModelLen}} {
		if f.value < 1 {
			return fmt.Errorf("%s is %d, at least 1 is needed", f.name, f.value)
		}
	}
	switch {
	case s.MaxModelLen < 2:
		return setting.Errorf("`max-model-len` is %d: there must be room for a prompt and a token, 2 at least",
			s.MaxModelLen)
	case s.MaxModelLen > s.Model.MaxPositions:
		return setting.Errorf("`max-model-len` is %d, but the model has %d positions", s.MaxModelLen,
			s.Model.MaxPositions)
	case z.PageSize > 32 && z.PageSize%32 != 0 || z.PageSize < 32 && 32%z.PageSize != 0:
		return setting.Errorf("`page-size` is %d: a power of two up to 32, or a multiple of 32, is needed",
			z.PageSize)
	}
	return nil
}

// checkExperts rejects groups that experts cannot be divided among.
func checkExperts(model models.Config, devices int) error {
	fewest := 0 // for a layer that has any
	for _, l := range model.Layers {
		if n := l.Experts.Count; n > 0 && (fewest == 0 || n < fewest) {
			fewest = n
		}
	}
	switch groups := model.ExpertGroups; {
	case groups == 1:
		return nil
	case devices%groups != 0:
		return fmt.Errorf("ep is %d, which does not divide the %d devices that run the model together (tp)",
			groups, devices)
	case fewest == 0:
		return fmt.Errorf("ep is %d, and %s has no experts: leave it out", groups, model.Architecture)
	case fewest < groups:
		return fmt.Errorf("ep is %d, and a layer of %s has %d experts: at most as many groups are possible",
			groups, model.Architecture, fewest)
	}
	return nil
}

// checkLayers rejects models and caches that have no loop of layers.
func checkLayers(layers, kv string, model models.Config) error {
	switch {
	case layers == LayersUnrolled:
		return nil
	case layers != LayersLoop:
		return fmt.Errorf("layers is %q: unrolled or loop is needed", layers)
	case kv != paged:
		return fmt.Errorf("layers is loop, which kv %s has none of: use kv paged, or layers unrolled", kv)
	}
	if _, err := decoder.LoopOf(model); err != nil {
		return fmt.Errorf("layers is loop: %w: use layers unrolled", err)
	}
	return nil
}

// runtimeOf describes a backend without the level of its kernels.
func runtimeOf(b compute.Backend) string {
	if b, ok := b.(interface{ Runtime() string }); ok {
		return b.Runtime()
	}
	return b.Description()
}

// Plan reports the sizes.
func (s *Settled) Plan() Plan {
	c, z := s.Config, s.Sizes
	p := Plan{
		Backend: c.Backend.Description(), Runtime: runtimeOf(c.Backend),
		Devices: s.Devices, ExpertGroups: s.Model.ExpertGroups,
		Model: s.Model.Architecture, Parameters: s.Parameters, DType: s.DType.String(), Weights: s.weightForms,
		Quantization: c.Model.Quantization(), KVDType: kvName(s.kvDType), KV: basic, WeightBytes: s.WeightBytes,
		KVBytesPerToken: s.KVBytesPerToken, StateBytes: s.StateBytes, KVBytes: s.KVBytes, Lowered: s.lowered,
		MaxSeqs: z.MaxSeqs, Holders: z.PrefixRows, Contexts: z.Contexts, Pages: z.Pages, PageSize: z.PageSize,
		PagesPerSeq: z.PagesPerSeq, MaxModelLen: s.MaxModelLen, PrefillTokens: z.PrefillTokens, MaxRounds: z.MaxRounds,
		Layers: s.layersName(), LayerTurns: 1, PrefixCache: z.PrefixCache, NameDrawn: z.NameDrawn,
		Admission: Overcommit,
		Transfers: z.Transfers, Drafts: z.Drafts.Most, DraftWidth: z.Drafts.Width, Features: c.Features.Names(),
		Slots: z.Slots, MaskStates: z.Masks.States, Masks: z.Masks.Masks, TokenText: s.tokenText(),
	}
	if z.Paged {
		p.KV = paged
	}
	if loop, err := decoder.LoopOf(s.Model); z.LayerLoop && err == nil {
		p.LayerTurns = loop.Turns
	}
	if !s.Traits.IsHost { // whose memory is not the plan's alone
		p.StagingBytes, p.LaterFeatureBytes = s.stagingBytes(), z.LaterExtraBytes()
	}
	if z.Reserve {
		p.Admission = Reserve
	}
	p.Adapters, p.AdapterSlots, p.AdapterBytes = len(c.Adapters), z.Adapters, s.AdapterBytes
	if s.drafter != nil {
		d := s.drafter.Drafter
		p.Drafter = &d
	}
	if z.Features.Has(feature.MaskedTokens) {
		p.MaskBytes = z.MaskBytes()
	}
	for _, program := range s.Graphs().Programs() {
		p.Programs = append(p.Programs, program.Name)
	}
	return p
}

// Plan returns what an engine of this config would settle on. It compiles nothing.
func (c Config) Plan() (Plan, error) {
	s, err := Settle(c)
	if err != nil {
		return Plan{}, err
	}
	return s.Plan(), nil
}
