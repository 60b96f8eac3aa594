package spec

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/config"
)

// Engine describes what runs the model of a job: devices, and an engine's sizes. Sizes that are 0 are found from the
// model and the memory, by the first process of the job for all of them.
type Engine struct {
	// Backend is xla:cpu, xla:cuda, xla:tpu, xla:/path/plugin.so or go.
	Backend string
	// Kernels is xla.KernelsAuto or xla.KernelsOff.
	Kernels string
	// Layers is engine.LayersUnrolled or engine.LayersLoop.
	Layers string
	// Weights is how matrices are held: see engine.Config.
	Weights string
	// DType is of the weights on the device, KVDType of keys and values: f32, bf16, f16 or auto; int8 and fp8 are of
	// keys and values only.
	DType, KVDType string
	// KV is the kind of KV cache: paged or basic.
	KV string
	// KVMemory is the bytes of the KV cache.
	KVMemory                                                 int64
	MaxSeqs, PageSize, MaxModelLen, PrefillTokens, MaxRounds int
	// ZeroPages overwrites freed pages with zeros.
	ZeroPages     bool
	NoPrefixCache bool
	// Speculate is how many tokens are drafted: auto, off or a number, see engine.Config.
	Speculate string
	// DraftModel is the model that drafts them, named like [Spec.Model]; "" drafts from a row's own text.
	DraftModel string `json:",omitempty"`
	// Admission is how pages are reserved: engine.Overcommit or engine.Reserve.
	Admission engine.Admission
	// HostKVMemory is the bytes of the host's memory for prefixes that had to leave the device.
	HostKVMemory int64
	// Features are names of engine.Features, with commas between, that rows may ask for without a program being
	// compiled during the run: in addition to the features that the job's own parameters need.
	Features string
	// TP is the devices that each model is split over, DP the number of models.
	TP, DP int
	// EP is in how many groups the devices of a model share out experts; 0 is found from the model and the platform.
	EP int
}

func defaultEngine() Engine {
	return Engine{Backend: backend.XLACPU, Kernels: xla.KernelsAuto, Layers: engine.LayersUnrolled, Weights: "auto",
		DType: "auto", KVDType: "auto", KV: "paged", Admission: engine.Overcommit, Speculate: "off", TP: 1, DP: 1}
}

// Validate checks what does not need the model. The error is a [*FieldError].
func (e *Engine) Validate() error {
	choices := []struct {
		field, value string
		allowed      []string
	}{
		{"kernels", e.Kernels, []string{xla.KernelsAuto, xla.KernelsOff}},
		{"layers", e.Layers, []string{engine.LayersUnrolled, engine.LayersLoop}},
		{"weights", e.Weights, config.Weights},
		{"kv", e.KV, []string{"paged", "basic"}},
		{"admission", string(e.Admission), []string{string(engine.Reserve), string(engine.Overcommit)}},
	}
	for _, c := range choices {
		if err := oneOf(c.field, c.value, c.allowed...); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		field string
		value int64
	}{{"max-seqs", int64(e.MaxSeqs)}, {"page-size", int64(e.PageSize)}, {"max-model-len", int64(e.MaxModelLen)},
		{"prefill-tokens", int64(e.PrefillTokens)}, {"max-rounds", int64(e.MaxRounds)}, {"kv-memory", e.KVMemory},
		{"host-kv-memory", e.HostKVMemory}} {
		if c.value < 0 {
			return Invalid(c.field, "is %d, but must be 0 (found automatically) or more", c.value)
		}
	}
	drafts, err := parseSpeculate(e.Speculate)
	if err != nil {
		return err
	}
	if e.DraftModel != "" && drafts == 0 {
		return Invalid("draft-model", "is %s, but `speculate` is off: use auto, a number, or no draft model",
			storage.Redact(e.DraftModel))
	}
	if _, err := e.features(); err != nil {
		return Invalid("features", "has %v", err)
	}
	if _, err := parseDType("dtype", e.DType); err != nil {
		return err
	}
	if _, err := parseDType(kvDType, e.KVDType); err != nil {
		return err
	}
	if _, err := ParseBackend(e.Backend); err != nil {
		return err
	}
	return e.validateDevices()
}

// Config is the engine's, without model, tokenizer and backend. [Spec.EngineConfig] has the features of the job's
// parameters too.
func (e *Engine) Config() engine.Config {
	weights, _ := parseDType("dtype", e.DType) // Validate reports what is wrong
	kv, _ := parseDType(kvDType, e.KVDType)
	features, _ := e.features()
	drafts, _ := parseSpeculate(e.Speculate)
	return engine.Config{
		MaxSeqs: e.MaxSeqs, PageSize: e.PageSize, MaxModelLen: e.MaxModelLen, PrefillTokens: e.PrefillTokens,
		MaxRounds: e.MaxRounds, KVMemory: e.KVMemory, KV: e.KV, DType: weights, KVDType: kv, Layers: e.Layers,
		Weights: e.Weights, ZeroPages: e.ZeroPages, NoPrefixCache: e.NoPrefixCache, Admission: e.Admission,
		HostKVMemory: e.HostKVMemory, Speculate: drafts, Features: features,
		ExpertGroups: e.EP,
	}
}

// parseSpeculate parses Speculate into the engine's setting.
func parseSpeculate(text string) (int, error) {
	switch text {
	case "off", "":
		return 0, nil
	case "auto":
		return engine.SpeculateAuto, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > engine.MaxDrafts {
		return 0, Invalid("speculate", "is %q, but must be auto, off or a number from 1 to %d", text, engine.MaxDrafts)
	}
	return n, nil
}

// features is Features as the engine has them.
func (e *Engine) features() (engine.Features, error) {
	return engine.FeaturesNamed(strings.FieldsFunc(e.Features, func(r rune) bool { return r == ',' || r == ' ' })...)
}

const kvDType = "kv-dtype"

// parseDType parses the name of a type; auto is InvalidDType, which lets the engine choose. Field kv-dtype has two
// more.
func parseDType(field, name string) (dtypes.DType, error) {
	choices := "auto, f32, bf16 or f16"
	if field == kvDType {
		choices = "auto, f32, bf16, f16, int8 or fp8"
		switch strings.ToLower(name) {
		case "int8":
			return dtypes.Int8, nil
		case "fp8":
			return dtypes.F8E4M3FN, nil
		}
	}
	switch strings.ToLower(name) {
	case "auto":
		return dtypes.InvalidDType, nil
	case "f32", "float32":
		return dtypes.Float32, nil
	case "bf16", "bfloat16":
		return dtypes.BFloat16, nil
	case "f16", "float16":
		return dtypes.Float16, nil
	}
	return dtypes.InvalidDType, Invalid(field, "is %q, but must be %s", name, choices)
}

// ParseBackend checks the name of a backend and returns it as package xla takes it: with an absolute path.
func ParseBackend(backend string) (spec string, err error) {
	platform, isXLA := strings.CutPrefix(backend, "xla:")
	switch {
	case isXLA && platform == setup.CUDACompile:
		return "", Invalid("backend", "is %s, which compiles programs but does not run them: run on xla:cuda, or "+
			"compile with \"sample plan `topology`\"", backend)
	case backend == "go", isXLA && slices.Contains(setup.Platforms(), platform):
		return backend, nil
	case isXLA && strings.ContainsRune(platform, filepath.Separator):
		path, err := filepath.Abs(platform)
		return "xla:" + path, err
	}
	return "", Invalid("backend", "is %q, but must be xla:cpu, xla:cuda, xla:tpu, xla:/path/plugin.so or go", backend)
}

// validateDevices checks, for each backend, what can be checked without it.
func (e *Engine) validateDevices() error {
	switch {
	case e.TP < 1:
		return Invalid("tp", "is %d, but must be at least 1", e.TP)
	case e.DP < 1:
		return Invalid("dp", "is %d, but must be at least 1", e.DP)
	case e.EP < 0 || e.EP > 1 && e.TP%e.EP != 0:
		return Invalid("ep", "is %d, but must divide `tp`, which is %d", e.EP, e.TP)
	case e.Devices() > 1 && e.Backend == "go":
		return setting.Errorf("`tp` and `dp` need several devices, and `backend` go has one: use a backend of xla")
	}
	return nil
}

func (e *Engine) Devices() int { return max(1, e.TP) * max(1, e.DP) }
