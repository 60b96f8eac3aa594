package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/backend/xla/mosaic"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// Each model whose config comes with the program has a kernel in both kinds of steps, on every number of devices of
// the topologies that are offered, for every page size.
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
		pageSizes = []int{16, 128}
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
				if seen[key] {
					continue
				}
				seen[key] = true
				for _, pageSize := range pageSizes {
					checkKernelsOf(t, store, model, filepath.Base(file), topology, devices, pageSize)
				}
			}
		}
		_ = model.Close()
	}
}

func checkKernelsOf(t *testing.T, store *mosaic.Store, model *models.Checkpoint, file, topology string, devices,
	pageSize int) {
	t.Helper()
	name := fmt.Sprintf("%s --topology %s --tp %d --page-size %d", file, topology, devices, pageSize)
	cfg := Config{Model: model, DType: dtypes.BFloat16, PageSize: pageSize, MaxModelLen: 8192, KVMemory: 4 << 30,
		Backend: kindOnly{platform: "tpu", kind: kindOf[topology[:3]], partitions: devices}}
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
			r.Kernel == mosaic.RaggedPagedAttention { // the other one has both ways
			t.Errorf("%s: a decode step has blocks of %d queries", name, got)
		}
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
	kernel := mosaic.RaggedPagedAttention
	if l.HeadDim == 64 {
		kernel = mosaic.PagedAttentionUpdate
	}
	return mosaic.Request{
		Kernel: kernel,
		Config: mosaic.Config{Heads: s.Heads, KVHeads: l.KVHeads, HeadDim: l.HeadDim, PageSize: l.PageSize,
			DType: mosaic.DTypeName(s.DType), KVDType: mosaic.DTypeName(l.DType), Scale: s.Options.Scale,
			Window: s.Options.Window, SoftCap: s.Options.SoftCap, Sinks: s.Sinks},
		Sizes:          mosaic.Sizes{Pages: l.Pages, Seqs: s.Seqs, PagesPerSeq: s.PagesPerSeq, Tokens: s.Tokens},
		OneTokenPerSeq: s.Tokens <= s.Seqs,
	}
}
