package attention_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/internal/testenv"
)

// Where values are keys they are stored once, and attention is the same: in all layouts and dtypes, for few queries of
// a KV head and for many.
func TestSharedVectors(t *testing.T) {
	batches := [][]ragged{{{20, 20}, {70, 12}, {90, 3}}, {{96, 1}, {40, 1}, {16, 1}, {17, 1}}}
	for i, f := range forms(t) {
		for _, c := range []struct {
			heads, headDim   int
			dtype, kv        dtypes.DType
			contiguous, flat bool
			tolerance        float64
			slow             bool // but with kernels
		}{
			{4, 24, dtypes.Float32, dtypes.Float32, false, false, 3e-6, false},
			{4, 24, dtypes.Float32, dtypes.Float32, true, false, 3e-6, true},
			{4, 24, dtypes.Float32, dtypes.Float32, false, true, 3e-6, false},
			{16, 576, dtypes.Float32, dtypes.Float32, false, false, 5e-5, true},
			{16, 80, dtypes.BFloat16, dtypes.BFloat16, false, false, 4e-2, true},
			{16, 576, dtypes.BFloat16, dtypes.BFloat16, false, false, 8e-2, false},
			{3, 64, dtypes.BFloat16, dtypes.BFloat16, true, false, 4e-2, false},
			{3, 64, dtypes.Float32, dtypes.Int8, false, false, 3e-6, false},
			{3, 40, dtypes.Float32, dtypes.F8E4M3FN, false, true, 3e-6, false},
		} {
			if f.name == "go" && (c.headDim > 100 || c.dtype != dtypes.Float32 || c.kv == dtypes.F8E4M3FN) {
				continue
			}
			if f.kernels && c.flat {
				continue // kernels read caches with an axis for heads
			}
			t.Run(fmt.Sprintf("%s/%+v", f.name, c), func(t *testing.T) {
				if c.slow && !f.kernels {
					testenv.Slow(t)
				}
				s := base
				s.heads, s.kvHeads, s.headDim, s.kvType = c.heads, 1, c.headDim, c.kv
				s.shared, s.contiguous, s.flat = true, c.contiguous, c.flat
				s.byHead, s.opts = f.kernels && !c.contiguous, attention.Options{Scale: 0.2}
				check(t, f, s, c.dtype, c.tolerance, batches...)
				check(t, f, s.decode(), c.dtype, c.tolerance, batches[1:]...)
			})
		}
		if i == 0 {
			for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
				for _, dim := range []int{80, 96} {
					t.Run(fmt.Sprintf("same bytes/%s/%d", dtype, dim), func(t *testing.T) {
						s := base
						s.heads, s.kvHeads, s.headDim, s.shared = 16, 1, dim, true
						sameBytesAlone(t, compile(t, f.backend, s, dtype), s, dtype)
					})
				}
			}
		}
	}
}

// sameBytesAlone runs a sequence beside others, alone, and alone in two steps.
func sameBytesAlone(t *testing.T, run program, s shape, dtype dtypes.DType) {
	t.Helper()
	b := newBatch(s, dtype, 6, ragged{7, 7}, ragged{21, 21}, ragged{19, 19})
	zero, _, all := b.ranges()
	_, beside := run(t, s.emptyCache(dtype, false), b, zero, all)
	alone, row := b.only(1), s.heads*s.headDim
	_, want := run(t, s.emptyCache(dtype, false), alone, zero[:1], all[1:2])
	if !slices.Equal(beside[7*row:28*row], want[:21*row]) {
		t.Error("the same sequence gives other bits beside others")
	}
	cache, _ := run(t, s.emptyCache(dtype, false), alone, zero[:1], []int{20})
	if _, last := run(t, cache, alone, []int{20}, all[1:2]); !slices.Equal(last[:row], want[20*row:21*row]) {
		t.Error("the last token gives other bits in a step of its own")
	}
}

// A token takes half of what it takes where keys and values are stored both.
func TestBytesOfSharedVectors(t *testing.T) {
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Int8} {
		l := attention.PagedLayout(4, 16, 1, 576, dtype)
		both := l.BytesPerToken()
		if l.Shared = true; 2*l.BytesPerToken() != both || int64(l.Shape().Memory()) != 4*16*l.BytesPerToken() {
			t.Errorf("%s: %d bytes a token in an array %s, %d with values", dtype, l.BytesPerToken(), l.Shape(), both)
		}
	}
}
