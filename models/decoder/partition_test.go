package decoder_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

func firstDevices(n int) []int {
	devices := make([]int, n)
	for i := range devices {
		devices[i] = i
	}
	return devices
}

// Devices together give transformers' scores, for every family: those whose heads divide and those whose heads are
// shared or padded.
func TestLogitsOfDevicesTogether(t *testing.T) {
	for _, kernels := range []string{xla.KernelsAuto, xla.KernelsOff} {
		for _, n := range []int{2, 4, 8} {
			for _, family := range testenv.Families(t) {
				t.Run(fmt.Sprintf("%s on %d, kernels %s", family, n, kernels), func(t *testing.T) {
					quick := n == 4 && kernels == xla.KernelsAuto &&
						slices.Contains([]string{"llama-bias", "llama3", "qwen3", "gemma2", "gemma3", "olmo2", "glm4",
							"starcoder2", "qwen3-moe", "gpt-oss", "granite-moe-shared",
							"qwen3-next"}, family)
					if !quick && family != "smollm2-like" {
						testenv.Slow(t)
					}
					ckpt := testenv.Model(t, family)
					var golden testenv.Golden
					testenv.ReadGolden(t, family, &golden)
					score := scorer(t, testenv.Group(t, kernels, firstDevices(n)...), ckpt)
					for _, c := range golden.Cases {
						got := score(c.Prompt)
						worst := 0.0
						for i := range c.Logits {
							worst = max(worst, math.Abs(float64(got[i]-c.Logits[i])))
						}
						if worst > 1e-4 || math.IsNaN(worst) {
							t.Errorf("prompt of %d tokens: logits differ by up to %g, want 1e-4", len(c.Prompt), worst)
						}
					}
				})
			}
		}
	}
}

// Every query head is on one device, in a slot of the KV head that it reads; no device has more slots than it must.
func TestPartitionOfHeads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kv, perHead := rapid.IntRange(1, 20).Draw(t, "KV heads"), rapid.IntRange(1, 20).Draw(t, "queries per KV head")
		devices := rapid.IntRange(1, 33).Draw(t, "devices")
		cfg := models.Config{NumHeads: kv * perHead, NumKVHeads: kv, HeadDim: 1, IntermediateSize: 1, VocabSize: 1}
		p := decoder.NewPartition(cfg, devices)
		if want := (kv + devices - 1) / devices; p.KVHeads != want {
			t.Fatalf("%d KV slots a device, want %d", p.KVHeads, want)
		}
		if devices == 1 && (p.Heads() != cfg.NumHeads || p.KVHeads != kv) {
			t.Fatalf("one device has %d heads, %d KV heads", p.Heads(), p.KVHeads)
		}
		reads := make([][]int, cfg.NumHeads) // the KV heads that each query head reads
		for d := range devices {
			slots := slices.Repeat([]int{-1}, p.KVHeads)
			for _, s := range decoder.KeysOf(p, d) {
				for i := range s.N {
					slots[s.To+i] = s.From + i
				}
			}
			for _, s := range decoder.QueriesOf(p, d) {
				for i := range s.N {
					reads[s.From+i] = append(reads[s.From+i], slots[(s.To+i)/p.QueriesPerKV])
				}
			}
		}
		for head, got := range reads {
			if !slices.Equal(got, []int{head / perHead}) {
				t.Fatalf("query head %d of %d reads KV heads %v", head, cfg.NumHeads, got)
			}
		}
	})
}

// Which heads the usual models get.
func TestPartitionsOfModels(t *testing.T) {
	for _, c := range []struct{ heads, kv, devices, wantKV, wantQueries int }{
		{32, 8, 8, 1, 4}, {64, 8, 8, 1, 8}, {64, 8, 16, 1, 4}, {32, 8, 2, 4, 4}, {9, 3, 2, 2, 3}, {9, 3, 4, 1, 3},
		{9, 3, 8, 1, 2}, {4, 1, 8, 1, 1}, {28, 4, 8, 1, 4},
	} {
		p := decoder.NewPartition(models.Config{NumHeads: c.heads, NumKVHeads: c.kv, HeadDim: 1, IntermediateSize: 1,
			VocabSize: 1}, c.devices)
		if p.KVHeads != c.wantKV || p.QueriesPerKV != c.wantQueries {
			t.Errorf("%d heads, %d KV heads on %d: %d KV slots of %d, want %d of %d", c.heads, c.kv, c.devices,
				p.KVHeads, p.QueriesPerKV, c.wantKV, c.wantQueries)
		}
	}
}
