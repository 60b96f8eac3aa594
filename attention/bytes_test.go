package attention_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/tokenqueue"
)

// batchOf is a batch of which only the places of new tokens matter.
func batchOf(dests *Node) tokenqueue.PageBatchInfo {
	return tokenqueue.PageBatchInfo{NewTokenDests: dests}
}

// oneThread returns a backend whose plugin runs on one thread.
func oneThread(t *testing.T) compute.Backend {
	t.Helper()
	plugin, err := setup.FindPlugin("cpu")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NPROC", "1") // the plugin's, read when a client is made
	b, err := xla.New(xla.Options{Plugin: plugin, Platform: "cpu",
		ClientOptions: map[string]any{"cpu_device_count": 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Finalize)
	return b
}

// The kernels give a token the same bytes alone and beside others, in a prompt of one chunk or several, as a part of a
// prompt or in a decode step, with any pages and sizes of them, by token or by head, in a contiguous cache, and on one
// thread or more.
func TestSameBytes(t *testing.T) {
	for i, c := range []struct{ dtype, kv dtypes.DType }{{dtype: dtypes.Float32}, {dtype: dtypes.BFloat16},
		{dtype: dtypes.Float16}, {dtypes.BFloat16, dtypes.Int8}, {dtypes.Float32, dtypes.F8E4M3FN},
		{dtypes.Float32, dtypes.BFloat16}, {dtype: dtypes.BFloat16}} {
		opts := []attention.Options{{Scale: 0.3}, {Scale: 0.3, Window: 41}, {Scale: 0.3, SoftCap: 4}}[i%3]
		dtype := c.dtype
		t.Run(fmt.Sprintf("%s/%s/%+v", dtype, c.kv, opts), func(t *testing.T) {
			first := base
			first.heads, first.kvHeads, first.headDim, first.opts, first.kvType = 6, 2, 40+8*(i/3)+8*(i/6), opts, c.kv
			first.sinks = i%3 == 1
			reference := first
			reference.tokens, reference.seqs = 96, 1
			whole := compile(t, testenv.XLA(t), reference, dtype)
			type variant struct {
				shape
				prefill, decode program
			}
			variants := map[string]variant{}
			var names []string
			add := func(name string, b compute.Backend, s shape) {
				variants[name] = variant{s, compile(t, b, s, dtype), compile(t, b, s.decode(), dtype)}
				names = append(names, name)
			}
			for _, pageSize := range []int{8, 5, 32, 96} {
				add(fmt.Sprintf("page size %d", pageSize), testenv.XLA(t), first.withPages(pageSize))
			}
			contiguous := first
			contiguous.contiguous = true
			add("contiguous", testenv.XLA(t), contiguous)
			byHead := first
			byHead.byHead, contiguous.byHead = true, true
			add("by head", testenv.XLA(t), byHead)
			add("by head, page size 5", testenv.XLA(t), byHead.withPages(5))
			add("by head, contiguous", testenv.XLA(t), contiguous)
			add("one thread", oneThread(t), first)

			rapid.Check(t, func(r *rapid.T) {
				var seqs []ragged
				for range rapid.IntRange(1, first.seqs).Draw(r, "sequences") {
					n := rapid.OneOf(rapid.IntRange(1, 96), rapid.SampledFrom([]int{31, 32, 33, 64, 96})).Draw(r,
						"length")
					seqs = append(seqs, ragged{n, n})
				}
				name := rapid.SampledFrom(names).Draw(r, "variant")
				v := variants[name]
				b := newBatch(v.shape, dtype, rapid.Uint64().Draw(r, "seed"), seqs...)

				row := first.heads * first.headDim
				want, got := make([][]float32, len(seqs)), make([][]float32, len(seqs))
				for i := range seqs {
					alone := b.only(i)
					alone.shape = reference
					alone.placePages(uint64(i))
					zero, _, all := alone.ranges()
					_, out := whole(t, reference.emptyCache(dtype, true), alone, zero, all)
					want[i] = out[:all[0]*row]
				}

				cache := v.emptyCache(dtype, true)
				from, _, end := b.ranges()
				for !slices.Equal(from, end) {
					to := slices.Clone(from)
					room, longest := first.tokens, 0
					for i := range seqs {
						n := rapid.OneOf(rapid.IntRange(0, 1), rapid.IntRange(0, first.tokens)).Draw(r, "chunk")
						n = min(n, room, end[i]-from[i])
						to[i], room, longest = from[i]+n, room-n, max(longest, n)
					}
					if longest == 0 { // not to go on for ever
						i := slices.IndexFunc(from, func(int) bool { return true })
						for from[i] == end[i] {
							i++
						}
						to[i] = from[i] + 1
					}
					run := v.prefill
					if longest <= 1 {
						run = v.decode
					}
					var out []float32
					cache, out = run(t, cache, b, from, to)
					for i := range seqs {
						n := (to[i] - from[i]) * row
						got[i], out = append(got[i], out[:n]...), out[n:]
					}
					from = to
				}
				for i := range seqs {
					for pos := range end[i] {
						if !slices.Equal(got[i][pos*row:(pos+1)*row], want[i][pos*row:(pos+1)*row]) {
							r.Fatalf("%s: token %d of sequence %d of %v has other bytes than alone in one chunk", name,
								pos, i, seqs)
						}
					}
				}
			})
		})
	}
}
