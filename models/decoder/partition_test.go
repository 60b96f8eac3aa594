package decoder_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
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
						slices.Contains([]string{"gpt-oss", "qwen3-next", "gemma4-moe", "granite4", "deepseek-v3"},
							family)
					if !quick && (family != "smollm2-like" || n == 8) {
						testenv.Slow(t)
					}
					logitsEqualTransformers(t, family, testenv.Group(t, kernels, firstDevices(n)...),
						testenv.Model(t, family))
				})
			}
		}
	}
}

// So do groups of them that divide the experts of a layer: evenly or with some left over, each expert split within
// its group or whole, with biases, a shared expert, and layers without experts.
func TestLogitsOfExpertGroups(t *testing.T) {
	for _, c := range []struct {
		family          string
		devices, groups int
		quick           bool
	}{{"qwen3-moe", 4, 2, true}, {"qwen3-moe", 2, 2, false}, {"qwen3-moe", 8, 4, false}, {"gpt-oss", 4, 2, false},
		{"gpt-oss", 4, 4, true}, {"gemma4-moe", 4, 2, true}, {"gemma4-moe", 2, 2, false}, {"mixtral", 2, 2, false},
		{"granite-moe-shared", 4, 4, false}, {"granite-moe-shared", 2, 2, true}, {"qwen3-next", 4, 2, false},
		{"qwen35-moe", 4, 4, false},
		{"deepseek-v3", 4, 2, true}, {"deepseek-v2", 4, 4, false}} {
		for _, kernels := range []string{xla.KernelsAuto, xla.KernelsOff} {
			name := fmt.Sprintf("%s in %d of %d, kernels %s", c.family, c.groups, c.devices, kernels)
			t.Run(name, func(t *testing.T) {
				if !c.quick || kernels == xla.KernelsOff {
					testenv.Slow(t)
				}
				ckpt := *testenv.Model(t, c.family)
				ckpt.Config.ExpertGroups = c.groups
				logitsEqualTransformers(t, c.family, testenv.Group(t, kernels, firstDevices(c.devices)...), &ckpt)
			})
		}
	}
}

// A device of a group has the experts of its group alone, and its part of their width.
func TestArraysOfExpertGroups(t *testing.T) {
	cfg := testenv.Model(t, "qwen3-moe").Config // 6 experts of 20
	for groups, want := range map[int][]int{1: {6, 2 * 5, 32}, 2: {3, 2 * 10, 32}, 4: {2, 2 * 20, 32}} {
		cfg.ExpertGroups = groups
		s := decoder.Storage{Backend: testenv.Group(t, xla.KernelsOff, firstDevices(4)...), DType: dtypes.Float32}
		found := false
		for _, a := range decoder.Arrays(cfg, s) {
			if a.Name == "layers.0.experts.gate_up.weight" {
				found = true
				if !slices.Equal(a.Shape.Dimensions, want) {
					t.Errorf("in %d groups a device has %s, want %v", groups, a.Shape, want)
				}
			}
		}
		if !found {
			t.Error("there is no such array")
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

// A device's rows of the vocabulary are whole registers of a TPU, unless that is many more.
func TestPartsOfTheVocabulary(t *testing.T) {
	for _, c := range []struct{ size, devices, want int }{{128256, 1, 128256}, {128256, 8, 16128}, {151936, 4, 38016},
		{151936, 2, 76032}, {32000, 4, 8064}, {256, 8, 32}, {1000, 4, 256}} {
		cfg := models.Config{NumHeads: 1, NumKVHeads: 1, HeadDim: 1, IntermediateSize: 1, VocabSize: c.size}
		got := decoder.NewPartition(cfg, c.devices).Vocab
		if got != c.want || got*c.devices < c.size {
			t.Errorf("%d tokens on %d devices: %d each, want %d", c.size, c.devices, got, c.want)
		}
	}
}
