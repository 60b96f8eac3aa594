package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

func firstDevices(n int) []int {
	devices := make([]int, n)
	for i := range devices {
		devices[i] = i
	}
	return devices
}

// ofEight are the families that run on 8 devices: compiling for 8 takes longest.
var ofEight = []string{"smollm2-like", "llama3", "qwen3", "gemma2", "olmo2", "qwen3-moe"}

// Greedy tokens of 2, 4 and 8 devices together are transformers', as those of one device, for every family with
// something of its own: also where heads, MLP and vocabulary do not divide. One family has all combinations, the others
// one in turns; models/decoder compares the scores of all families on all.
func TestGreedyOfDevicesTogether(t *testing.T) {
	type combination struct {
		devices int
		kernels string
	}
	all := []combination{{2, xla.KernelsAuto}, {4, xla.KernelsOff}, {2, xla.KernelsOff}, {4, xla.KernelsAuto}}
	for i, family := range features {
		combinations := all[i%len(all) : i%len(all)+1]
		if family == contractFamily {
			combinations = append(slices.Clone(all), combination{8, xla.KernelsOff})
		}
		if slices.Contains(ofEight, family) {
			combinations = append(slices.Clone(combinations), combination{8, xla.KernelsAuto})
		}
		for _, c := range combinations {
			t.Run(fmt.Sprintf("%s on %d, kernels %s", family, c.devices, c.kernels), func(t *testing.T) {
				if family != contractFamily || c.devices != 4 || c.kernels != xla.KernelsAuto {
					testenv.Slow(t)
				}
				greedyEqualsTransformers(t, family, testenv.Group(t, c.kernels, firstDevices(c.devices)...))
			})
		}
	}
}

// So are those of groups of devices that share out experts, unrolled and as a loop. A row's bytes do not depend on its
// neighbours there either.
func TestGreedyOfExpertGroups(t *testing.T) {
	testenv.Slow(t)
	for _, c := range []struct {
		family          string
		devices, groups int
	}{{"qwen3-moe", 4, 2}, {"gpt-oss", 2, 2}, {"granite-moe-shared", 4, 4}, {"qwen3-next", 2, 2}} {
		t.Run(fmt.Sprintf("%s in %d of %d", c.family, c.groups, c.devices), func(t *testing.T) {
			greedyEqualsTransformers(t, c.family, testenv.Group(t, xla.KernelsAuto, firstDevices(c.devices)...),
				func(cfg *engine.Config) { cfg.ExpertGroups = c.groups })
		})
	}
	t.Run("loop", func(t *testing.T) {
		greedyEqualsTransformers(t, "granite-moe-shared", testenv.Group(t, xla.KernelsAuto, 0, 1),
			func(cfg *engine.Config) { cfg.ExpertGroups, cfg.Layers = 2, engine.LayersLoop })
	})
	for _, weights := range []string{"", "int8", "q8_0"} {
		t.Run("neighbours, weights "+weights, func(t *testing.T) {
			e := newEngine(t, "mixtral", engine.Config{MaxSeqs: 8, PageSize: 16, PrefillTokens: 64, MaxModelLen: 160,
				MaxRounds: 8, StopStates: 256, Weights: weights, Backend: testenv.Group(t, xla.KernelsAuto, 0, 1),
				ExpertGroups: 2})
			want := collect(t, e, contractRequests()...)
			for _, i := range []int{3, 11, 13} {
				sameBytes(t, want, collect(t, e, contractRequests()[i]), false)
			}
		})
	}
}

func TestExpertGroupsThatAreNone(t *testing.T) {
	for _, c := range []struct {
		family          string
		devices, groups int
		want            string
	}{{"mixtral", 2, 3, "ep is 3, which does not divide the 2 devices"}, {"llama3", 2, 2, "has no experts"},
		{"mixtral", 8, 8, "has 5 experts: at most as many groups are possible"}} {
		_, err := engine.Config{Model: testenv.Model(t, c.family), ExpertGroups: c.groups, KVMemory: 1 << 20,
			Backend: testenv.Group(t, xla.KernelsAuto, firstDevices(c.devices)...)}.Plan()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %d groups: %v", c.family, c.groups, err)
		}
	}
}

// sameTokens fails unless got has the completions of want: the same tokens, with logprobs that differ by 1e-4 at most.
func sameTokens(t *testing.T, want, got map[string]*engine.Completion) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %d completions, want %d", len(got), len(want))
	}
	for key, w := range want {
		g := got[key]
		if g == nil || !slices.Equal(g.Tokens, w.Tokens) {
			t.Errorf("%s: got %+v, want %v", key, g, w.Tokens)
			continue
		}
		for i := range w.Logprobs {
			if d := math.Abs(float64(g.Logprobs[i] - w.Logprobs[i])); d > 1e-4 || math.IsNaN(d) {
				t.Errorf("%s: logprob %d differs by %g", key, i, d)
			}
		}
	}
}

// together is the contract's engine on two devices together.
func together(t *testing.T, change func(*engine.Config)) *engine.Engine {
	return contractEngine(t, func(c *engine.Config) {
		c.Backend = testenv.Group(t, xla.KernelsAuto, 0, 1)
		if change != nil {
			change(c)
		}
	})
}

// Devices together draw what one draws, sampled too.
func TestDevicesTogetherDrawTheSame(t *testing.T) {
	e := together(t, nil)
	sameTokens(t, wantOfContract(t), collect(t, e, contractRequests()...))
	if p := e.Plan(); p.Devices != 2 || p.KVBytesPerToken != 2*2*2*8*4 {
		t.Errorf("%d devices with %d bytes a token", p.Devices, p.KVBytesPerToken) // 2 layers, K and V, 2 of 3 KV heads
	}
}

// What devices together draw does not depend on what becomes of pages: moved to the host and back, shared,
// over-committed, in contexts and snapshots.
func TestPagesOfDevicesTogether(t *testing.T) {
	testenv.Slow(t)
	plain := together(t, nil)
	want := collect(t, plain, contractRequests()...)
	small := func(c *engine.Config) { // 16 pages
		c.KVMemory, c.HostKVMemory, c.Admission, c.Contexts = 16*16*2*2*2*8*4, 64<<20, engine.Overcommit, 4
	}
	e := together(t, small)
	sameBytes(t, collect(t, plain, longRequests(12)...), collectInOrder(t, e, longRequests(12)...), true)
	if e.Stats().Preemptions == 0 {
		t.Error("no sequence was moved: the test does not reach what it is for")
	}
	sameBytes(t, want, collect(t, e, contractRequests()...), true)

	r := contractRequests()[13]
	c, err := e.Contexts().Open()
	if err == nil {
		err = c.Append(r.Tokens[:60]...)
	}
	if err != nil {
		t.Fatal(err)
	}
	rest := *r
	rest.Tokens = r.Tokens[60:]
	completions, err := c.Generate(t.Context(), &rest)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*engine.Completion{}
	for _, d := range completions {
		got[fmt.Sprintf("%s/%d", d.Request.ID, d.Generation)] = d
	}
	sameBytes(t, want, got, false)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}

	var file bytes.Buffer
	if n, err := e.SavePrefix(context.Background(), r.Tokens, &file); err != nil || n != 96 {
		t.Fatalf("saved %d tokens: %v", n, err)
	}
	other := together(t, small)
	if _, err := other.LoadPrefix(bytes.NewReader(file.Bytes())); err != nil {
		t.Fatal(err)
	}
	sameBytes(t, want, collect(t, other, r), false)
	if hit := other.Stats().HitTokens; hit < 96 {
		t.Errorf("%d tokens were taken over from the snapshot", hit)
	}
	single := contractEngine(t, func(c *engine.Config) { c.HostKVMemory = 64 << 20 })
	if _, err := single.LoadPrefix(bytes.NewReader(file.Bytes())); !errors.Is(err, engine.ErrSnapshotMismatch) ||
		!strings.Contains(err.Error(), "devices is 2 in the file and 0 here") {
		t.Error(err)
	}
}
