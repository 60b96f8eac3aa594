package attention_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/tokenqueue"
)

// shape is the size of an attention layer and of a batch.
type shape struct {
	heads, kvHeads, headDim int
	tokens, seqs            int // of the program: T and B
	pageSize, perSeq, pages int
	opts                    attention.Options
	contiguous              bool
}

func (s shape) layout(dtype dtypes.DType) attention.Layout {
	if s.contiguous {
		return attention.ContiguousLayout(s.seqs, s.perSeq*s.pageSize, s.kvHeads, s.headDim, dtype)
	}
	return attention.PagedLayout(s.pages, s.pageSize, s.kvHeads, s.headDim, dtype)
}

// ragged is one sequence of a batch: the last of its tokens are new.
type ragged struct{ length, fresh int }

// batch lays sequences out in random pages, and all of their tokens at once: first the old ones, which a first call writes to the cache,
// then the new ones, which attend.
type batch struct {
	shape
	seqs        []ragged
	pageIndices [][]int32
	k, v, q     [][]float32 // by sequence: length tokens of flat heads
}

func newBatch(s shape, seed uint64, seqs ...ragged) *batch {
	rng := rand.New(rand.NewPCG(seed, 1))
	free := rng.Perm(s.pages)
	b := &batch{shape: s, seqs: seqs}
	values := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	for _, q := range seqs {
		row := slices.Repeat([]int32{-1}, s.perSeq)
		for i := range (q.length + s.pageSize - 1) / s.pageSize {
			row[i], free = int32(free[0]), free[1:]
		}
		b.pageIndices = append(b.pageIndices, row)
		b.k = append(b.k, values(q.length*s.kvHeads*s.headDim))
		b.v = append(b.v, values(q.length*s.kvHeads*s.headDim))
		b.q = append(b.q, values(q.length*s.heads*s.headDim))
	}
	return b
}

// want is attention by the textbook, in float64: for each new token its heads, flat, in the order of the batch.
func (b *batch) want() []float64 {
	var out []float64
	group := b.heads / b.kvHeads
	for i, seq := range b.seqs {
		for pos := seq.length - seq.fresh; pos < seq.length; pos++ {
			for h := range b.heads {
				kvHead := h / group
				var scores []float64
				from := 0
				if b.opts.Window > 0 {
					from = max(0, pos+1-b.opts.Window)
				}
				top := math.Inf(-1)
				for t := from; t <= pos; t++ {
					dot := 0.0
					for d := range b.headDim {
						dot += float64(b.q[i][(pos*b.heads+h)*b.headDim+d]) * float64(b.k[i][(t*b.kvHeads+kvHead)*b.headDim+d])
					}
					dot *= b.opts.Scale
					if b.opts.SoftCap > 0 {
						dot = b.opts.SoftCap * math.Tanh(dot/b.opts.SoftCap)
					}
					scores = append(scores, dot)
					top = max(top, dot)
				}
				total := 0.0
				acc := make([]float64, b.headDim)
				for t, score := range scores {
					w := math.Exp(score - top)
					total += w
					for d := range acc {
						acc[d] += w * float64(b.v[i][((from+t)*b.kvHeads+kvHead)*b.headDim+d])
					}
				}
				for _, x := range acc {
					out = append(out, x/total)
				}
			}
		}
	}
	return out
}

// runner compiles one program for a shape: it writes the given tokens to the cache and lets them attend.
func runner(t testing.TB, backend compute.Backend, s shape, dtype dtypes.DType) func(cache *tensors.Tensor, b *batch, from, to func(ragged) int) (*tensors.Tensor, []float32) {
	layout := s.layout(dtype)
	exec, err := NewExec(backend, func(in []*Node) []*Node {
		info := tokenqueue.PageBatchInfo{SlotIDs: in[4], PageIndices: in[5], SeqLens: in[6], CuQLens: in[7], NumSeqs: in[8],
			NewTokenDests: in[9], TokenSeqs: in[10], PosIDs: in[11], PageSize: s.pageSize}
		cache := layout.Update(in[0], info, in[2], in[3])
		out := layout.RaggedPagedAttention(ConvertDType(in[1], dtype), cache, info, s.opts)
		return []*Node{cache, ConvertDType(out, dtypes.Float32)}
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(cache *tensors.Tensor, b *batch, from, to func(ragged) int) (*tensors.Tensor, []float32) {
		none := func(n int) []int32 { return slices.Repeat([]int32{-1}, n) }
		var q, k, v []float32
		slots, lens, cu := none(s.seqs), make([]int32, s.seqs), make([]int32, s.seqs+1)
		pages := slices.Repeat([]int32{-1}, s.seqs*s.perSeq)
		dests, seqs, positions := slices.Repeat([]int32{int32(s.pages * s.pageSize)}, s.tokens), none(s.tokens), none(s.tokens)
		at, row := 0, 0
		for i, seq := range b.seqs {
			if from(seq) == to(seq) {
				continue
			}
			slots[row], lens[row] = int32(i), int32(to(seq))
			copy(pages[row*s.perSeq:], b.pageIndices[i])
			for pos := from(seq); pos < to(seq); pos++ {
				dests[at] = b.pageIndices[i][pos/s.pageSize]*int32(s.pageSize) + int32(pos%s.pageSize)
				seqs[at], positions[at] = int32(row), int32(pos)
				at++
			}
			q = append(q, b.q[i][from(seq)*s.heads*s.headDim:to(seq)*s.heads*s.headDim]...)
			k = append(k, b.k[i][from(seq)*s.kvHeads*s.headDim:to(seq)*s.kvHeads*s.headDim]...)
			v = append(v, b.v[i][from(seq)*s.kvHeads*s.headDim:to(seq)*s.kvHeads*s.headDim]...)
			row++
			cu[row] = int32(at)
		}
		for i := row + 1; i <= s.seqs; i++ {
			cu[i] = cu[row]
		}
		fill := func(x []float32, heads int) *tensors.Tensor {
			x = append(x, make([]float32, s.tokens*heads*s.headDim-len(x))...)
			return tensors.FromFlatDataAndDimensions(x, s.tokens, heads, s.headDim)
		}
		out, err := exec.Exec(cache, fill(q, s.heads), fill(k, s.kvHeads), fill(v, s.kvHeads), slots,
			tensors.FromFlatDataAndDimensions(pages, s.seqs, s.perSeq), lens, cu, int32(row), dests, seqs, positions)
		if err != nil {
			t.Fatal(err)
		}
		return out[0], tensors.MustCopyFlatData[float32](out[1])
	}
}

func zero(ragged) int    { return 0 }
func old(r ragged) int   { return r.length - r.fresh }
func whole(r ragged) int { return r.length }
func tokens(b []ragged) (n int) {
	for _, r := range b {
		n += r.fresh
	}
	return n
}

// check fills the cache in one call and attends in the next, and compares with the textbook.
func check(t *testing.T, backend compute.Backend, s shape, dtype dtypes.DType, tolerance float64, batches ...[]ragged) {
	t.Helper()
	run := runner(t, backend, s, dtype)
	fill := s
	fill.tokens, fill.opts.OneTokenPerSeq = 320, false
	prepare := runner(t, backend, fill, dtype)
	for i, seqs := range batches {
		b := newBatch(s, uint64(i), seqs...)
		cache, _ := prepare(tensors.FromShape(s.layout(dtype).Shape()), b, zero, old)
		_, got := run(cache, b, old, whole)
		want := b.want()
		for j := range got {
			expected := 0.0
			if j < len(want) {
				expected = want[j]
			}
			if d := math.Abs(float64(got[j]) - expected); d > tolerance || math.IsNaN(d) {
				t.Errorf("batch %v: token %d (of %d): got %g, want %g", seqs, j/s.heads/s.headDim, tokens(seqs), got[j], expected)
				break
			}
		}
	}
}

var base = shape{heads: 6, kvHeads: 2, headDim: 8, tokens: 48, seqs: 6, pageSize: 8, perSeq: 12, pages: 80, opts: attention.Options{Scale: 0.35}}

func TestPrefill(t *testing.T) {
	batches := [][]ragged{
		{{1, 1}}, {{48, 48}}, {{7, 7}, {8, 8}, {9, 9}}, {{96, 40}, {3, 1}, {17, 7}}, {{33, 1}, {64, 1}, {65, 1}, {90, 33}},
	}
	for _, backend := range []compute.Backend{testenv.XLA(t), testenv.Go(t)} {
		for _, pageSize := range []int{8, 16, 32} {
			for _, contiguous := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/page%d/contiguous=%v", backend.Name(), pageSize, contiguous), func(t *testing.T) {
					s := base
					s.pageSize, s.perSeq, s.pages, s.contiguous = pageSize, 96/pageSize, 640/pageSize, contiguous
					check(t, backend, s, dtypes.Float32, 2e-6, batches...)
				})
			}
		}
	}
}

func TestDecode(t *testing.T) {
	batches := [][]ragged{
		{{1, 1}}, {{7, 1}, {8, 1}, {9, 1}, {31, 1}, {32, 1}, {33, 1}}, {{96, 1}, {1, 1}, {64, 1}},
	}
	for _, backend := range []compute.Backend{testenv.XLA(t), testenv.Go(t)} {
		for _, contiguous := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/contiguous=%v", backend.Name(), contiguous), func(t *testing.T) {
				s := base
				s.tokens, s.contiguous, s.opts.OneTokenPerSeq = 6, contiguous, true
				check(t, backend, s, dtypes.Float32, 2e-6, batches...)
			})
		}
	}
}

func TestWindowSoftCapAndRatios(t *testing.T) {
	batches := [][]ragged{{{20, 20}, {70, 12}, {90, 3}}, {{96, 1}, {40, 1}, {16, 1}, {17, 1}}}
	for i, opts := range []attention.Options{{Scale: 0.5, Window: 16}, {Scale: 0.5, Window: 1}, {Scale: 2, SoftCap: 3}, {Scale: 1, Window: 40, SoftCap: 2}} {
		heads := [][2]int{{4, 4}, {5, 1}, {9, 3}}[i%3]
		for _, decode := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v/%v/decode=%v", opts, heads, decode), func(t *testing.T) {
				s := base
				s.opts, s.heads, s.kvHeads, s.headDim = opts, heads[0], heads[1], 5
				these := batches
				if decode {
					s.opts.OneTokenPerSeq, s.tokens, these = true, 6, batches[1:]
				}
				check(t, testenv.XLA(t), s, dtypes.Float32, 3e-6, these...)
			})
		}
	}
}

func TestHalfPrecision(t *testing.T) {
	for _, c := range []struct {
		dtype     dtypes.DType
		tolerance float64
	}{{dtypes.BFloat16, 4e-2}, {dtypes.Float16, 5e-3}} {
		check(t, testenv.XLA(t), base, c.dtype, c.tolerance, []ragged{{30, 20}, {9, 9}})
	}
}

// A token's result does not depend on the rest of the batch, bit for bit.
func TestRowsAreIndependent(t *testing.T) {
	run := runner(t, testenv.XLA(t), base, dtypes.Float32)
	alone := newBatch(base, 5, ragged{21, 21})
	_, want := run(tensors.FromShape(base.layout(dtypes.Float32).Shape()), alone, zero, whole)
	others := newBatch(base, 6, ragged{7, 7}, ragged{21, 21}, ragged{19, 19})
	others.k[1], others.v[1], others.q[1] = alone.k[0], alone.v[0], alone.q[0]
	_, got := run(tensors.FromShape(base.layout(dtypes.Float32).Shape()), others, zero, whole)
	row := base.heads * base.headDim
	if !slices.Equal(got[7*row:28*row], want[:21*row]) {
		t.Error("the same sequence gives other bits beside others")
	}
}

func TestCopyAndZeroPages(t *testing.T) {
	layout := attention.PagedLayout(4, 2, 1, 1, dtypes.Float32)
	out, err := ExecOnceN(testenv.XLA(t), func(cache, src, dst, mask *Node) []*Node {
		copied := layout.CopyPages(cache, src, dst)
		return []*Node{copied, layout.ZeroPages(copied, mask)}
	}, tensors.FromFlatDataAndDimensions([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 4, 2, 2, 1),
		[]int32{3, -1, 0}, []int32{0, 1, -1}, []bool{false, true, false, false})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tensors.MustCopyFlatData[float32](out[0]), []float32{12, 13, 14, 15, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; !slices.Equal(got, want) {
		t.Errorf("CopyPages gave %v, want %v", got, want)
	}
	if got, want := tensors.MustCopyFlatData[float32](out[1]), []float32{12, 13, 14, 15, 0, 0, 0, 0, 8, 9, 10, 11, 12, 13, 14, 15}; !slices.Equal(got, want) {
		t.Errorf("ZeroPages gave %v, want %v", got, want)
	}
}
