package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/backend/xla/mosaic"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// Each model whose config comes with the program has a kernel in both kinds of steps, on every number of devices of
// the topologies that are offered, for every page size; with keys and values in 8-bit floats for pages of 64. If a
// compiler refuses the kernel of a default page size, there is one with smaller blocks.
func TestShippedModelsHaveKernels(t *testing.T) {
	configs, err := filepath.Glob(testenv.Path("configs", "models", "*.json"))
	if err != nil || len(configs) == 0 {
		t.Fatalf("no configs: %v", err)
	}
	store, err := mosaic.Open("")
	if err != nil {
		t.Fatal(err)
	}
	pageSizes := []int{16, 32, 64, 128}
	if testing.Short() {
		pageSizes = []int{128}
	}
	for _, file := range configs {
		model, err := models.OpenConfig(file)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{} // of topologies the chip and the devices together are all that counts
		for _, topology := range []string{"v5e:1x1", "v5e:2x2", "v5e:2x4", "v5e:4x4", "v5e:4x8", "v6e:1x1", "v6e:2x2",
			"v6e:2x4", "v6e:4x4", "v6e:4x8", "v5p:1x1x1", "v5p:2x2x1", "v5p:2x2x2", "v5p:2x2x4", "v5p:2x4x4"} {
			for devices := devicesIn(t, topology); devices >= 1; devices /= 2 {
				key := fmt.Sprint(topology[:3], devices)
				if seen[key] || testing.Short() && devices != 1 && devices != 8 {
					continue
				}
				seen[key] = true
				for _, pageSize := range pageSizes {
					checkKernelsOf(t, store, model, filepath.Base(file), topology, devices, pageSize, dtypes.BFloat16)
				}
				checkKernelsOf(t, store, model, filepath.Base(file), topology, devices, 64, dtypes.F8E4M3FN)
			}
		}
		_ = model.Close()
	}
}

func checkKernelsOf(t *testing.T, store *mosaic.Store, model *models.Checkpoint, file, topology string, devices,
	pageSize int, kv dtypes.DType) {
	t.Helper()
	name := fmt.Sprintf("%s --topology %s --tp %d --page-size %d --kv-dtype %s", file, topology, devices, pageSize, kv)
	cfg := Config{Model: model, DType: dtypes.BFloat16, KVDType: kv, PageSize: pageSize, MaxModelLen: 8192,
		KVMemory: 4 << 30,
		Backend:  kindOnly{platform: "tpu", kind: kindOf[topology[:3]], partitions: devices}}
	settled, err := Settle(cfg)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	found := map[mosaic.Request]bool{} // most layers ask for the same
	for _, s := range settled.attentionSteps(model.Config, 0) {
		r := kernelFor(settled.Sizes.Layouts[0], s)
		if found[r] {
			continue
		}
		found[r] = true
		call, err := store.Find(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := call.Payload.Blocks.Queries; s.Options.OneTokenPerSeq && got != 8 &&
			r.Kernel == mosaic.RaggedPagedAttention {
			t.Errorf("%s: a decode step has blocks of %d queries", name, got)
		}
		if form := call.Payload.Form; form != "" && (form == mosaic.FormDecode) != s.Options.OneTokenPerSeq {
			t.Errorf("%s: a step with one token a sequence, %t, has form %q", name, s.Options.OneTokenPerSeq, form)
		}
		if pageSize < 64 || kv != dtypes.BFloat16 {
			continue
		}
		next, err := store.FindExcept(r, func(p *mosaic.Payload) bool { return p.NeedsAsMuchAs(call.Payload) })
		if err != nil || next.Payload.Form != call.Payload.Form {
			t.Errorf("%s: nothing is smaller than %+v: %v", name, call.Payload.Blocks, err)
		}
	}
}

// withMemory is a TPU of which its memory and its kernels are known, too.
type withMemory struct {
	kindOnly
	bytes   int64
	kernels *xla.Backend
}

func (w withMemory) WantsKernels() bool { return w.kernels.WantsKernels() }

func (w withMemory) FreeMemory(compute.DeviceNum) (int64, error) { return w.bytes, nil }

func (w withMemory) HasKernelFor(op string, attrs json.RawMessage, inputs []shapes.Shape) bool {
	return w.kernels.HasKernelFor(op, attrs, inputs)
}

// memoryOf is what programs have of a chip.
var memoryOf = map[string]int64{"v5e": 16909332480, "v6e": 33550233600, "v5p": 102473326592}

// Without any flags, each model whose config comes with the program has a kernel in both kinds of steps wherever its
// weights fit, with a page table of at most half of what there is room for.
func TestDefaultsHaveKernels(t *testing.T) {
	configs, err := filepath.Glob(testenv.Path("configs", "models", "*.json"))
	if err != nil || len(configs) == 0 {
		t.Fatalf("no configs: %v", err)
	}
	store, err := mosaic.Open("")
	if err != nil {
		t.Fatal(err)
	}
	kernels := testenv.TPUOnCPU(t, xla.KernelsAuto, 1)
	for _, file := range configs {
		model, err := models.OpenConfig(file)
		if err != nil {
			t.Fatal(err)
		}
		for chip, kind := range kindOf {
			for devices := 1; devices <= 16; devices *= 2 {
				if testing.Short() && devices != 8 {
					continue
				}
				name := fmt.Sprintf("%s on %d of %s", filepath.Base(file), devices, chip)
				cfg := Config{Model: model, DType: dtypes.BFloat16, Backend: withMemory{
					kindOnly{platform: "tpu", kind: kind, partitions: devices}, memoryOf[chip], kernels}}
				bytes, _ := heldWeights(cfg, cfg.DType)
				if bytes > memoryOf[chip]/10*9 {
					continue
				}
				s, err := Settle(cfg)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				z := s.Sizes
				t.Logf("%s: %d slots, pages of %d tokens, up to %d tokens", name, z.MaxSeqs, z.PageSize, s.MaxModelLen)
				if bytes := (slotFinder{s}).tableBytes(z.MaxSeqs, z.PageSize); bytes > s.Traits.ScalarMemory/2 {
					t.Errorf("%s: a page table of %d bytes", name, bytes)
				}
				for _, step := range s.attentionSteps(model.Config, 0) {
					if _, err := store.Find(kernelFor(z.Layouts[0], step)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		}
		_ = model.Close()
	}
}

// A plan without a kernel is refused where kernels are not off.
func TestPlainAttentionIsRefused(t *testing.T) {
	model, err := models.OpenConfig(testenv.Path("configs", "models", "llama-3.1-8b.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	wide := func(c *Config) { c.PageSize, c.MaxSeqs, c.MaxModelLen = 16, 64, 131072 }
	for name, c := range map[string]struct {
		change  func(c *Config)
		kernels string
		refused string
	}{
		"defaults":              {func(*Config) {}, xla.KernelsAuto, ""},
		"a page table too wide": {wide, xla.KernelsAuto, " x 8192"},
		"kernels off":           {wide, xla.KernelsOff, ""},
		"8 bits":                {func(c *Config) { c.KVDType = dtypes.Int8 }, xla.KernelsAuto, "values in Int8"},
		"8-bit floats":          {func(c *Config) { c.KVDType = dtypes.F8E4M3FN }, xla.KernelsAuto, ""},
		"pages without payload": {func(c *Config) { c.PageSize = 512 }, xla.KernelsAuto, "pages of 512 tokens"},
	} {
		cfg := Config{Model: model, DType: dtypes.BFloat16, Backend: withMemory{kindOnly{platform: "tpu",
			kind: kindOf["v6e"], partitions: 8}, memoryOf["v6e"], testenv.TPUOnCPU(t, c.kernels, 1)}}
		c.change(&cfg)
		s, err := Settle(cfg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err = s.CheckKernels()
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
	}
}

// Too many positions for any table ask for a shorter limit, and a limit that is given is kept.
func TestTablesThatAreTooLarge(t *testing.T) {
	model, err := models.OpenConfig(testenv.Path("configs", "models", "llama-3.1-8b.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	long := *model
	long.Config.MaxPositions = 10 << 20
	cfg := Config{Model: &long, DType: dtypes.BFloat16, Backend: withMemory{kindOnly{platform: "tpu",
		kind: kindOf["v6e"], partitions: 1}, memoryOf["v6e"], testenv.TPUOnCPU(t, xla.KernelsAuto, 1)}}
	if _, err := Settle(cfg); err == nil || !strings.Contains(err.Error(), "give `max-model-len`") {
		t.Errorf("10 million positions: %v", err)
	}
	cfg.MaxModelLen = 8192
	s, err := Settle(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if z := s.Sizes; z.MaxSeqs != 256 || z.PageSize != 64 || len(s.lowered) > 0 {
		t.Errorf("%d slots, pages of %d tokens, %q", z.MaxSeqs, z.PageSize, s.lowered)
	}
	cfg.MaxModelLen = 131072
	if s, err = Settle(cfg); err != nil {
		t.Fatal(err)
	}
	if z := s.Sizes; z.MaxSeqs != 80 || z.PageSize != 128 || len(s.lowered) != 1 {
		t.Errorf("%d slots, pages of %d tokens, %q", z.MaxSeqs, z.PageSize, s.lowered)
	}
}

// Devices share out experts in as few groups as fill tiles with each device's columns.
func TestDefaultExpertGroups(t *testing.T) {
	for _, c := range []struct {
		model, platform      string
		devices, given, want int
	}{
		{"qwen3-30b-a3b", "tpu", 1, 0, 1}, {"qwen3-30b-a3b", "tpu", 2, 0, 1}, // 768 columns, and 384
		{"qwen3-30b-a3b", "tpu", 4, 0, 2}, {"qwen3-30b-a3b", "tpu", 8, 0, 4}, {"qwen3-30b-a3b", "tpu", 16, 0, 8},
		{"qwen3-30b-a3b", "tpu", 8, 1, 1}, {"qwen3-30b-a3b", "tpu", 8, 8, 8},
		{"qwen3-30b-a3b", "cuda", 8, 0, 1}, {"qwen3-30b-a3b", "cpu", 8, 0, 1},
		{"gpt-oss-20b", "tpu", 8, 0, 1}, // 2,880 columns are no whole tiles on any number of devices
		{"llama-3.1-8b", "tpu", 8, 0, 1},
	} {
		model, err := models.OpenConfig(testenv.Path("configs", "models", c.model+".json"))
		if err != nil {
			t.Fatal(err)
		}
		got := Config{Model: model, ExpertGroups: c.given, Backend: kindOnly{platform: c.platform,
			partitions: c.devices}}.model().ExpertGroups
		if got != c.want {
			t.Errorf("%s on %d devices of %s, --ep %d: %d groups, want %d", c.model, c.devices, c.platform, c.given,
				got, c.want)
		}
		_ = model.Close()
	}
}

// kindOf is what libtpu calls chips.
var kindOf = map[string]string{"v5e": "TPU v5 lite", "v6e": "TPU v6 lite", "v5p": "TPU v5"}

// devicesIn is how many chips a topology has.
func devicesIn(t *testing.T, topology string) int {
	n := 1
	_, axes, _ := strings.Cut(topology, ":")
	for axis := range strings.SplitSeq(axes, "x") {
		chips, err := strconv.Atoi(axis)
		if err != nil {
			t.Fatal(err)
		}
		n *= chips
	}
	return n
}

// kernelFor asks for the kernel of a step as the backend does.
func kernelFor(l attention.Layout, s attention.Step) mosaic.Request {
	kernel := mosaic.PagedAttentionUpdate
	if l.HeadDim != 64 && l.PageSize < 64 { // small pages have the kernel that only attends
		kernel = mosaic.RaggedPagedAttention
	}
	return mosaic.Request{
		Kernel: kernel,
		Config: mosaic.Config{Heads: s.Heads, KVHeads: l.KVHeads, HeadDim: l.HeadDim, PageSize: l.PageSize,
			DType: mosaic.DTypeName(s.DType), KVDType: mosaic.DTypeName(l.DType), Scale: s.Options.Scale,
			Window: s.Options.Window, SoftCap: s.Options.SoftCap, Sinks: s.Sinks},
		Sizes:          mosaic.Sizes{Pages: l.Pages, Seqs: s.Seqs, PagesPerSeq: s.PagesPerSeq, Tokens: s.Tokens},
		OneTokenPerSeq: s.Options.OneTokenPerSeq,
	}
}
