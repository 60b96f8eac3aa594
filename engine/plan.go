package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/backend"
	"github.com/quire/quire/blocks"
	"github.com/quire/quire/collective"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/prefix"
)

// Plan is what an engine settled on before it took its memory. Sizes are in bytes; where several devices run the model
// together, of one of them.
type Plan struct {
	Backend string `json:"backend"`
	// Devices is how many run the model together, each with a part of it: see docs/parallel.md.
	Devices int `json:"devices"`
	// ExpertGroups is in how many groups they share out experts.
	ExpertGroups int `json:"expert_groups"`
	// Replicas is how many engines like this draw from one queue; 0 for one alone.
	Replicas   int    `json:"replicas,omitempty"`
	Model      string `json:"model"`
	Parameters int64  `json:"parameters"`
	DType      string `json:"dtype"`
	// Weights are the forms that matrices are held in where they are not in DType.
	Weights string `json:"weights,omitempty"`
	// Quantization is how a quantized safetensors checkpoint is stored: see [models.Checkpoint.Quantization].
	Quantization    string `json:"quantization,omitempty"`
	KVDType         string `json:"kv_dtype"`
	KV              string `json:"kv"`
	WeightBytes     int64  `json:"weight_bytes"`
	KVBytesPerToken int64  `json:"kv_bytes_per_token"`
	// StateBytes is what a page has beside its tokens: a state of each layer that keeps one.
	StateBytes int64 `json:"state_bytes,omitempty"`
	KVBytes    int64 `json:"kv_bytes"`
	// Lowered says what is less than was asked for, and why.
	Lowered []string `json:"lowered,omitempty"`
	// MaxSeqs is how many sequences decode at once, the slots; Holders is how many prompts wait beside them for their
	// clones.
	MaxSeqs       int `json:"max_seqs"`
	Holders       int `json:"holders"`
	Contexts      int `json:"contexts,omitempty"` // that may be open at once
	Pages         int `json:"pages"`
	PageSize      int `json:"page_size"`
	PagesPerSeq   int `json:"pages_per_seq"`
	MaxModelLen   int `json:"max_model_len"`
	PrefillTokens int `json:"prefill_tokens"`
	MaxRounds     int `json:"max_rounds"`
	// Layers is how the model's layers stand in the programs: LayersUnrolled or LayersLoop.
	Layers string `json:"layers"`
	// PrefixCache says that pages have names, and that prompts that begin with them take them over.
	PrefixCache bool `json:"prefix_cache"`
	// NameDrawn says that pages of completions have names too: where a token has the same bytes in a prompt and behind
	// one.
	NameDrawn bool      `json:"name_drawn"`
	Admission Admission `json:"admission"`
	// Transfers says that pages can be moved to the host and back, which takes two more programs.
	Transfers bool `json:"transfers"`
	// Programs are the names of the programs that the engine compiles.
	Programs []string `json:"programs"`
	// Drafts is how many tokens of a sequence are drafted in a step at most, DraftWidth how many tokens a step with
	// drafts has: see Config.Speculate.
	Drafts     int `json:"drafts,omitempty"`
	DraftWidth int `json:"draft_width,omitempty"`
	// Drafter is the model that drafts them, if one does: see Config.DraftModel.
	Drafter *Drafter `json:"drafter,omitempty"`
	// Features are those that the programs have from the start: see Config.Features. MaskBytes is what the states and
	// masks of structured output take of the device's memory where masks are among them.
	Features  []string `json:"features,omitempty"`
	MaskBytes int64    `json:"mask_bytes,omitempty"`

	stops   *device.StopTables
	slots   int                // MaxSeqs rounded up to whole registers of rows; the surplus is never used
	layouts []attention.Layout // of the caches, one a layer that has one
	mixed   bool               // see schedule.Sizes
	drafts  device.Drafting

	features   Features
	vocabulary int
	masks      feature.MaskSizes

	activations dtypes.DType
	shortRope   int // see [arch.Config.ShortRope]
}

// Brief is the plan in two lines: the model, and what it runs on.
func (p Plan) Brief() string {
	backend, _, _ := strings.Cut(p.Backend, ",")
	if p.Devices > 1 {
		backend += fmt.Sprintf(", %d devices together", p.Devices)
	}
	if p.Replicas > 1 {
		backend += fmt.Sprintf(", %d replicas", p.Replicas)
	}
	const lines = "%-12s %s, %s parameters in %s, %s\n%-12s %s; %s of up to %d tokens; KV cache %s"
	return fmt.Sprintf(lines, "model", p.Model, count(p.Parameters), p.held(), bytesText(p.WeightBytes), "engine",
		backend, plural.Count(p.MaxSeqs, "slot"), p.MaxModelLen, bytesText(p.KVBytes))
}

// held is the type of weights and activations.
func (p Plan) held() string {
	if p.Weights != "" {
		return fmt.Sprintf("%s, activations in %s", p.Weights, p.DType)
	}
	return p.DType
}

// String shows the plan as a table.
func (p Plan) String() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s "+format+"\n", append([]any{name}, args...)...)
	}
	row("backend", "%s", p.Backend)
	if p.Devices > 1 {
		virtual := ""
		if strings.HasPrefix(p.Backend, "xla:cpu") {
			virtual = " virtual ones of the CPU"
		}
		row("devices", "%d%s run the model together; sizes are those of one", p.Devices, virtual)
	}
	if p.ExpertGroups > 1 {
		row("experts", "shared out to %d groups of devices", p.ExpertGroups)
	}
	if p.Replicas > 1 {
		row("replicas", "%d with a queue in common; sizes are those of one", p.Replicas)
	}
	row("model", "%s, %s parameters in %s, %s", p.Model, count(p.Parameters), p.held(), bytesText(p.WeightBytes))
	if p.Drafter != nil {
		row("draft model", "%s", p.Drafter)
	}
	if p.Quantization != "" {
		row("stored as", "%s", p.Quantization)
	}
	heads, vector := "2 x layers x KV heads", "head dim x "+p.KVDType
	if slices.ContainsFunc(p.layouts, func(l attention.Layout) bool { return l.Shared }) {
		heads, vector = "layers", "latent and turned key x "+p.KVDType
	}
	if slices.ContainsFunc(p.layouts, attention.Layout.Quantized) {
		vector = "(" + vector + " + a scale)"
	}
	row("KV cache", "%s, %s a token (%s x %s%s), %s in all", p.KV, bytesText(p.KVBytesPerToken),
		heads, vector, p.differing(), bytesText(p.KVBytes))
	if p.StateBytes > 0 {
		row("states", "%s a page, of the layers that keep a state of a sequence; in the %s above",
			bytesText(p.StateBytes), bytesText(p.KVBytes))
	}
	if p.KV == "paged" {
		row("pages", "%d of %s: %d tokens of context; up to %s a sequence", p.Pages, plural.Count(p.PageSize, "token"),
			p.Pages*p.PageSize, plural.Count(p.PagesPerSeq, "page"))
	}
	for _, text := range p.Lowered {
		row("lowered", "%s", text)
	}
	row("sequences", "%s, up to %d tokens each; %s", plural.Count(p.MaxSeqs, "slot"), p.MaxModelLen,
		fmt.Sprintf("%d waiting %s", p.Holders, plural.Noun(p.Holders, "prompt")))
	if p.Contexts > 0 {
		row("contexts", "up to %d", p.Contexts)
	}
	row("steps", "prefill %d tokens, decode %d rows, up to %s a call", p.PrefillTokens, p.slots,
		plural.Count(p.MaxRounds, "step"))
	if p.Drafts > 0 {
		row("speculation", "up to %s a sequence, %d tokens a step with drafts",
			plural.Count(p.Drafts, "drafted token"), p.DraftWidth)
	}
	row("programs", "%s", strings.Join(p.Programs, ", "))
	if len(p.Features) > 0 {
		row("features", "%s", strings.Join(p.Features, ", "))
	}
	if p.MaskBytes > 0 {
		row("masks", "%s, %s", p.MaskRoom(), bytesText(p.MaskBytes))
	}
	return b.String()
}

// MaskRoom says what there is room for in MaskBytes.
func (p Plan) MaskRoom() string {
	return fmt.Sprintf("%d states of grammars and %d masks of tokens", p.masks.States, p.masks.Masks)
}

func (c Config) dtypes() (weights, kv dtypes.DType, err error) {
	weights, kv = c.DType, c.KVDType
	if weights == dtypes.InvalidDType {
		weights = c.Model.DType()
	}
	if kv == dtypes.InvalidDType {
		kv = weights
	}
	floats := []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Float16}
	if !slices.Contains(floats, weights) {
		return 0, 0, fmt.Errorf("dtype %s is not supported: choose float32, bfloat16 or float16", weights)
	}
	if !slices.Contains(floats, kv) && kv != dtypes.Int8 && kv != dtypes.F8E4M3FN {
		return 0, 0, fmt.Errorf("kv dtype %s is not supported: choose float32, bfloat16, float16, int8 or fp8", kv)
	}
	if !slices.Contains(Weights, c.Weights) && c.Weights != "" {
		return 0, 0, fmt.Errorf("weights %q are not supported: choose %s", c.Weights, strings.Join(Weights, ", "))
	}
	return weights, kv, nil
}

// kvName is the name of a dtype of keys and values in plans, jobs and snapshots.
func kvName(d dtypes.DType) string {
	if d == dtypes.F8E4M3FN {
		return "FP8"
	}
	return d.String()
}

// Weights are the values of [Config.Weights], beside "".
var Weights = []string{WeightsAuto, "f32", "bf16", "f16", "q8_0", "q4_0", "int8"}

// WeightsAuto holds matrices as the checkpoint has them.
const WeightsAuto = "auto"

// blocks is the format that a tensor of the model is held in: see decoder.Storage.
func (c Config) blocks() func(tensor string) blocks.Format {
	switch c.Weights {
	case WeightsAuto:
		return c.Model.Blocks
	case "q8_0":
		return func(string) blocks.Format { return blocks.Q8_0 }
	case "q4_0":
		return func(string) blocks.Format { return blocks.Q4_0 }
	}
	return nil
}

// storage is how the engine holds the model's arrays.
func (c Config) storage() decoder.Storage {
	weights, _, _ := c.dtypes() // plan has checked them
	matrices := map[string]dtypes.DType{"f32": dtypes.Float32, "bf16": dtypes.BFloat16, "f16": dtypes.Float16}
	return decoder.Storage{Backend: c.Backend, DType: weights, Int8: c.Weights == "int8", Blocks: c.blocks(),
		Matrices: matrices[c.Weights], LayerLoop: c.Layers == LayersLoop}
}

// plan settles the sizes of the engine from the model, the memory and what the config asks for.
func (c Config) plan() (Plan, error) {
	model := c.model()
	weights, kv, err := c.dtypes()
	if err != nil {
		return Plan{}, err
	}
	p := Plan{
		Backend: c.Backend.Description(), Model: model.Architecture, DType: weights.String(), KVDType: kvName(kv),
		KV: c.KV, MaxSeqs: c.MaxSeqs, PageSize: c.PageSize, MaxModelLen: c.MaxModelLen, PrefillTokens: c.PrefillTokens,
		MaxRounds: c.MaxRounds, ExpertGroups: model.ExpertGroups,
		Devices: collective.Devices(c.Backend), PrefixCache: !c.NoPrefixCache, Admission: c.Admission,
		Layers: c.Layers, Contexts: c.Contexts, activations: weights, Features: c.Features.Names(),
		features: c.Features, vocabulary: model.VocabSize,
	}
	if err := p.checkExperts(model); err != nil {
		return Plan{}, err
	}
	orDefault(&p.KV, "paged")
	orDefault(&p.Layers, LayersUnrolled)
	if err := p.checkLayers(model); err != nil {
		return Plan{}, err
	}
	p.stops, _ = c.stopTables()
	p.Parameters, p.Quantization = c.Model.NumParameters(), c.Model.Quantization()
	p.setWeights(c)
	orDefault(&p.MaxSeqs, defaultMaxSeqs)
	orDefault(&p.PrefillTokens, c.defaultPrefillTokens(p))
	orDefault(&p.MaxRounds, defaultMaxRounds)
	orDefault(&p.Admission, Overcommit)
	orDefault(&p.MaxModelLen, model.MaxPositions)
	p.shortRope = p.model(c).ShortRope()
	orDefault(&p.PageSize, defaultPageSize(model, kv, p.MaxModelLen))
	if err := p.check(model); err != nil {
		return Plan{}, err
	}
	p.slots, p.mixed = ceilDiv(p.MaxSeqs, rowMultiple)*rowMultiple, c.sameForms()
	if err := p.setDrafts(c); err != nil {
		return Plan{}, err
	}
	p.masks = c.maskSizes(p.slots)
	if p.features.Has(MaskedTokens) {
		p.MaskBytes = p.sizes().MaskBytes()
	}
	p.PrefillTokens = ceilDiv(p.PrefillTokens, rowMultiple) * rowMultiple

	switch p.KV {
	case "paged":
		p.Holders = max(8, p.MaxSeqs/2)
		p.PagesPerSeq = ceilDiv(p.MaxModelLen, p.PageSize)
	case "basic":
		// The sequence table still counts pages, one a slot, so that admission is the same code.
		p.PageSize, p.PagesPerSeq, p.PrefixCache = p.MaxModelLen, 1, false
		p.Admission, p.Transfers = Reserve, false // a slot has its row, and nothing is shared
	default:
		return Plan{}, fmt.Errorf("kv is %q: paged or basic is needed", p.KV)
	}
	p.NameDrawn = p.PrefixCache && p.mixed
	p.layouts = c.layouts(p, kv)
	p.KVBytesPerToken, p.StateBytes = bytesOf(p.layouts)
	p.setDrafter(c)
	budget := c.KVMemory
	if budget == 0 {
		if budget, err = c.defaultKVMemory(p.AllWeightBytes() + p.sizes().ExtraBytes()); err != nil {
			return Plan{}, err
		}
	}
	if p.KV == "paged" {
		err = c.planPages(&p, budget)
	} else {
		err = c.planRows(&p, kv, budget)
	}
	if err != nil {
		return Plan{}, err
	}
	for i := range p.layouts {
		p.layouts[i].Pages = p.Pages
	}
	p.Drafter.setPages(p.Pages)
	return p, nil
}

// setWeights settles how matrices are held, and what all weights take.
func (p *Plan) setWeights(c Config) {
	var forms []string
	for _, a := range decoder.Arrays(c.model(), c.storage()) {
		p.WeightBytes += int64(a.Shape.Memory())
		if f, ok := a.Matrix(); ok && f.Form() != p.DType && !slices.Contains(forms, f.Form()) {
			forms = append(forms, f.Form())
		}
	}
	slices.Sort(forms)
	p.Weights = strings.Join(forms, " and ")
}

// check refuses what is out of range.
func (p Plan) check(model models.Config) error {
	if p.Admission != Reserve && p.Admission != Overcommit {
		return fmt.Errorf("admission is %q: reserve or overcommit is needed", p.Admission)
	}
	if p.Contexts < 0 {
		return fmt.Errorf("contexts is %d, which is negative", p.Contexts)
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"max-seqs", p.MaxSeqs}, {"page-size", p.PageSize}, {"prefill-tokens", p.PrefillTokens},
		{"max-rounds", p.MaxRounds}, {"max-model-len", p.MaxModelLen}} {
		if f.value < 1 {
			return fmt.Errorf("%s is %d, at least 1 is needed", f.name, f.value)
		}
	}
	switch {
	case p.MaxModelLen < 2:
		return fmt.Errorf("`max-model-len` is %d: there must be room for a prompt and a token, 2 at least",
			p.MaxModelLen)
	case p.MaxModelLen > model.MaxPositions:
		return fmt.Errorf("`max-model-len` is %d, but the model has %d positions", p.MaxModelLen,
			model.MaxPositions)
	case p.PageSize > 32 && p.PageSize%32 != 0 || p.PageSize < 32 && 32%p.PageSize != 0:
		return fmt.Errorf("`page-size` is %d: a power of two up to 32, or a multiple of 32, is needed",
			p.PageSize)
	}
	return nil
}

// planPages settles the pages of a paged cache.
func (c Config) planPages(p *Plan, budget int64) error {
	page := p.PageBytes()
	// More than every row at its longest is never used, and then there is nothing to over-commit.
	most := int64(p.MaxSeqs+p.Holders+p.Contexts) * int64(p.PagesPerSeq)
	if p.Pages = int(min(budget/page, most)); int64(p.Pages) == most {
		p.Admission = Reserve
	}
	p.Transfers = p.Admission == Overcommit || c.HostKVMemory > 0 || c.Contexts > 0
	if p.Pages < 1 {
		return fmt.Errorf("a KV memory of %s does not hold one page of %s: raise `kv-memory`",
			bytesText(budget), bytesText(page))
	}
	p.KVBytes = int64(p.Pages) * page
	if c.KVMemory > 0 && int64(p.Pages) == most && p.KVBytes < c.KVMemory {
		p.Lowered = append(p.Lowered, fmt.Sprintf("KV memory from %s to %s, which hold all sequences at their longest",
			bytesText(c.KVMemory), bytesText(p.KVBytes)))
	}
	return nil
}

// planRows settles the rows of the contiguous cache.
func (c Config) planRows(p *Plan, kv dtypes.DType, budget int64) error {
	if p.Contexts > 0 {
		return fmt.Errorf("contexts share pages, which `kv` basic has none of: use `kv` paged")
	}
	row := p.PageBytes()
	if c.MaxSeqs == 0 { // as many slots as fit
		fit := max(int(min(budget/row, int64(p.slots)))/rowMultiple, 1) * rowMultiple
		if fit < p.MaxSeqs {
			p.Lowered = append(p.Lowered, fmt.Sprintf("slots from %d to %d: a KV memory of %s holds no more rows of "+
				"%d tokens", p.MaxSeqs, fit, bytesText(budget), p.MaxModelLen))
		}
		p.slots, p.MaxSeqs = fit, min(p.MaxSeqs, fit)
		p.layouts = c.layouts(*p, kv)
	}
	if need := row * int64(p.slots); need > budget {
		return fmt.Errorf("`kv` basic keeps %d rows of %d tokens, %s, and the KV memory is %s: "+
			"lower `max-seqs` or `max-model-len`, raise `kv-memory`, or use `kv` paged",
			p.slots, p.MaxModelLen, bytesText(need), bytesText(budget))
	}
	p.Pages, p.KVBytes = p.slots, row*int64(p.slots)
	return nil
}

// sameForms says that a drawn token may run in a step of prompts, and its page may serve a prompt: it gets the same
// bytes there. So it is with the kernels for CPUs, which compute each row by itself. Without kernels, prompts and drawn
// tokens have forms of their own.
func (c Config) sameForms() bool {
	return backend.Of(c.Backend).SameForms
}

// newPrefixSeed begins the names of pages: two engines with the same have the same contents for the same tokens, but
// for rounding, which is a matter of devices and kernels.
func newPrefixSeed(cfg Config, p Plan) prefix.Hash {
	model := p.model(cfg)
	of := []string{cfg.Model.FingerPrint(), p.DType, p.Weights, p.KVDType, fmt.Sprint(p.PageSize)}
	if model.LongRope() { // other keys
		of = append(of, "long rope")
	}
	return prefix.Seed(of...)
}

// PageBytes is what a page takes in all layers, those of the draft model among them.
func (p Plan) PageBytes() int64 {
	if p.Drafter != nil {
		return p.modelPageBytes() + p.Drafter.KVBytesPerToken*int64(p.PageSize)
	}
	return p.modelPageBytes()
}

// modelPageBytes is what a page takes in the model's layers.
func (p Plan) modelPageBytes() int64 { return p.KVBytesPerToken*int64(p.PageSize) + p.StateBytes }

const (
	defaultMaxSeqs   = 64
	smallestPage     = 16
	largestPage      = 512
	defaultMaxRounds = 16
	maxCPUKVMemory   = 4 << 30
	unknownKVMemory  = 1 << 30 // where the backend does not say
	// rowMultiple is what rows of a matmul are rounded up to: a backend computes the rows that are left over after
	// whole registers in another order of sums, and then a row's result would depend on where it stands.
	rowMultiple = 16
)

// memoryReporter is a backend that knows how much memory is left where it computes.
type memoryReporter interface {
	Platform() string
	FreeMemory(device compute.DeviceNum) (int64, error)
}

// defaultKVMemory is what the cache takes if nothing is said: on an accelerator most of what the weights leave free; on
// a CPU, whose memory others use too, half of it within a bound.
func (c Config) defaultKVMemory(weights int64) (int64, error) {
	m, ok := c.Backend.(memoryReporter)
	if !ok {
		return unknownKVMemory, nil
	}
	free, err := m.FreeMemory(0)
	if err != nil {
		return 0, fmt.Errorf("how much memory is free can't be told, give kv-memory: %w", err)
	}
	left := free - weights
	if left <= 0 {
		return 0, fmt.Errorf("the weights take %s and %s of memory is free: nothing is left for the KV cache",
			bytesText(weights), bytesText(free))
	}
	if m.Platform() == "cpu" {
		return min(left/2, maxCPUKVMemory), nil
	}
	return left / 20 * 17, nil // the rest is for temporaries and the programs
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
