package attention_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
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
	contiguous, flat        bool
	byHead                  bool
	shared                  bool         // values are keys
	kvType                  dtypes.DType // of the cache, where it is not that of queries
	sinks                   bool
	masked, packed          bool
}

// hides reports whether a masked shape hides a position from a token at another. Some tokens see nothing but
// themselves.
func (s shape) hides(position, from int) bool {
	return s.masked && position != from && (from%5 == 3 || (position*7+from*3)%4 == 0)
}

// masks are the masks of tokens at all positions, as [attention.Options] has them for one token each.
func (s shape) masks() [][]int32 {
	list := make([][]int32, s.perSeq*s.pageSize)
	for from := range list {
		list[from] = make([]int32, (len(list)+31)/32)
		for position := range list {
			if !s.hides(position, from) {
				list[from][position/32] |= 1 << (position % 32)
			}
		}
	}
	return list
}

// sinksOf are the scores of a shape's sinks; nil for none.
func (s shape) sinksOf() []float32 {
	if !s.sinks {
		return nil
	}
	list := make([]float32, s.heads)
	for i := range list {
		list[i] = float32(i%5) - 1.5
	}
	return list
}

func (s shape) layout(dtype dtypes.DType) attention.Layout {
	if s.kvType != dtypes.InvalidDType {
		dtype = s.kvType
	}
	l := attention.PagedLayout(s.pages, s.pageSize, s.kvHeads, s.headDim, dtype)
	if s.contiguous {
		l = attention.ContiguousLayout(s.seqs, s.perSeq*s.pageSize, s.kvHeads, s.headDim, dtype)
	}
	l.Flat, l.Shared, l.ByHead = s.flat, s.shared, s.byHead
	if s.packed {
		l.Packed = 4 / l.Shape().DType.Size()
	}
	return l
}

// withPages is s with pages of another size for the same number of tokens.
func (s shape) withPages(size int) shape {
	s.perSeq, s.pages, s.pageSize = (s.perSeq*s.pageSize+size-1)/size, s.pages*s.pageSize/size+s.seqs, size
	return s
}

// decode is s with one token for each sequence.
func (s shape) decode() shape {
	s.tokens, s.opts.OneTokenPerSeq = s.seqs, true
	return s
}

// emptyCache is a cache in which nothing was written: NaN everywhere if the form must not read what it has not written.
func (s shape) emptyCache(dtype dtypes.DType, nan bool) *tensors.Tensor {
	shape := s.layout(dtype).Shape()
	if !nan {
		return tensors.FromShape(shape)
	}
	switch dims, n := shape.Dimensions, float32(math.NaN()); shape.DType {
	case dtypes.Int8: // the scales are NaN
		return tensors.FromFlatDataAndDimensions(slices.Repeat([]int8{-1}, shape.Size()), dims...)
	case dtypes.Uint8:
		return tensors.FromFlatDataAndDimensions(slices.Repeat([]uint8{0xff}, shape.Size()), dims...)
	case dtypes.BFloat16:
		return tensors.FromFlatDataAndDimensions(slices.Repeat([]bfloat16.BFloat16{bfloat16.FromFloat32(n)},
			shape.Size()), dims...)
	case dtypes.Float16:
		return tensors.FromFlatDataAndDimensions(slices.Repeat([]float16.Float16{float16.FromFloat32(n)}, shape.Size()),
			dims...)
	default:
		return tensors.FromFlatDataAndDimensions(slices.Repeat([]float32{n}, shape.Size()), dims...)
	}
}

// ragged is one sequence of a batch: the last of its tokens are new.
type ragged struct{ length, fresh int }

func (r ragged) old() int { return r.length - r.fresh }

// batch lays sequences out in random pages, and all of their tokens at once: first the old ones, which a first call
// writes to the cache, then the new ones, which attend.
type batch struct {
	shape
	seqs        []ragged
	pageIndices [][]int32
	k, v, q     [][]float32 // by sequence: length tokens of flat heads
}

// newBatch draws a batch of numbers that the dtype has.
func newBatch(s shape, dtype dtypes.DType, seed uint64, seqs ...ragged) *batch {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := &batch{shape: s, seqs: seqs}
	values := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = rounded(dtype, float32(rng.NormFloat64()))
		}
		return x
	}
	for _, q := range seqs {
		b.k = append(b.k, s.cached(values(q.length*s.kvHeads*s.headDim)))
		b.v = append(b.v, s.cached(values(q.length*s.kvHeads*s.headDim)))
		b.q = append(b.q, values(q.length*s.heads*s.headDim))
	}
	if s.shared {
		b.v = b.k
	}
	b.placePages(seed)
	return b
}

// cached are keys or values as the cache has them.
func (s shape) cached(x []float32) []float32 {
	if s.layout(dtypes.Float32).Quantized() {
		for at := 0; at < len(x); at += s.headDim {
			copy(x[at:], quantize(s.kvType, x[at:at+s.headDim]).values(s.kvType))
		}
	} else if s.kvType == dtypes.F8E4M3FN {
		for i := range x {
			x[i] = float32(fromE4M3(e4m3(float64(x[i]))))
		}
	}
	return x
}

func rounded(dtype dtypes.DType, x float32) float32 {
	switch dtype {
	case dtypes.BFloat16:
		return bfloat16.FromFloat32(x).Float32()
	case dtypes.Float16:
		return float16.FromFloat32(x).Float32()
	}
	return x
}

// placePages gives the sequences random pages.
func (b *batch) placePages(seed uint64) {
	free := rand.New(rand.NewPCG(seed, 2)).Perm(b.pages)
	b.pageIndices = nil
	for _, q := range b.seqs {
		row := slices.Repeat([]int32{-1}, b.perSeq)
		for i := range (q.length + b.pageSize - 1) / b.pageSize {
			row[i], free = int32(free[0]), free[1:]
		}
		b.pageIndices = append(b.pageIndices, row)
	}
}

// only is the batch of one of the sequences.
func (b *batch) only(i int) *batch {
	one := &batch{shape: b.shape, seqs: b.seqs[i : i+1], k: b.k[i : i+1], v: b.v[i : i+1], q: b.q[i : i+1]}
	one.placePages(uint64(i))
	return one
}

// want is attention by the textbook, in float64: for each new token its heads, flat, in the order of the batch.
func (b *batch) want() []float64 {
	var out []float64
	group := b.heads / b.kvHeads
	for i, seq := range b.seqs {
		for pos := seq.old(); pos < seq.length; pos++ {
			for h := range b.heads {
				kvHead := h / group
				var scores []float64
				from := 0
				if b.opts.Window > 0 {
					from = max(0, pos+1-b.opts.Window)
				}
				top, sinks := math.Inf(-1), b.sinksOf()
				if sinks != nil {
					top = float64(sinks[h])
				}
				for t := from; t <= pos; t++ {
					dot := 0.0
					for d := range b.headDim {
						dot += float64(b.q[i][(pos*b.heads+h)*b.headDim+
							d]) * float64(b.k[i][(t*b.kvHeads+kvHead)*b.headDim+d])
					}
					if b.hides(t, pos) {
						dot = math.Inf(-1)
					}
					dot *= b.opts.Scale
					if b.opts.SoftCap > 0 {
						dot = b.opts.SoftCap * math.Tanh(dot/b.opts.SoftCap)
					}
					scores = append(scores, dot)
					top = max(top, dot)
				}
				total := 0.0
				if sinks != nil {
					total = math.Exp(float64(sinks[h]) - top)
				}
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

// program writes some tokens of a batch to the cache and lets them attend: those from position from[i] up to to[i] of
// sequence i. It returns the cache and the tokens' heads, flat, in the order of the batch, with the rows of padding
// behind.
type program func(t testing.TB, cache *tensors.Tensor, b *batch, from, to []int) (*tensors.Tensor, []float32)

// compile compiles the program of a shape.
func compile(t testing.TB, backend compute.Backend, s shape, dtype dtypes.DType) program {
	t.Helper()
	return build(t, backend, s, dtype, true)
}

// build is compile, or if attend is false without attention: the program fills the cache and gives nothing else.
func build(t testing.TB, backend compute.Backend, s shape, dtype dtypes.DType, attend bool) program {
	t.Helper()
	layout := s.layout(dtype)
	exec, err := NewExec(backend, func(in []*Node) []*Node {
		info := tokenqueue.PageBatchInfo{SlotIDs: in[4], PageIndices: in[5], SeqLens: in[6], CuQLens: in[7],
			NumSeqs:       in[8],
			NewTokenDests: in[9], TokenSeqs: in[10], PosIDs: in[11], PageSize: s.pageSize}
		cache := layout.Update(in[0], info, in[2], in[3])
		if !attend {
			return []*Node{cache}
		}
		opts := s.opts
		if s.sinks {
			opts.Sinks = Const(cache.Graph(), s.sinksOf())
		}
		if s.masked {
			positions := Max(info.PosIDs, ZerosLike(info.PosIDs))
			opts.Mask = Gather(Const(cache.Graph(), s.masks()), InsertAxes(positions, -1))
		}
		out := layout.RaggedPagedAttention(ConvertDType(in[1], dtype), cache, info, opts)
		return []*Node{cache, ConvertDType(out, dtypes.Float32)}
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(t testing.TB, cache *tensors.Tensor, b *batch, from, to []int) (*tensors.Tensor, []float32) {
		t.Helper()
		out, err := exec.Exec(s.inputs(cache, b, from, to)...)
		if err != nil {
			t.Fatal(err)
		}
		if !attend {
			return out[0], nil
		}
		return out[0], tensors.MustCopyFlatData[float32](out[1])
	}
}

// inputs are those of a [program].
func (s shape) inputs(cache *tensors.Tensor, b *batch, from, to []int) []any {
	none := func(n int) []int32 { return slices.Repeat([]int32{-1}, n) }
	var q, k, v []float32
	slots, lens, cu := none(s.seqs), make([]int32, s.seqs), make([]int32, s.seqs+1)
	pages := slices.Repeat([]int32{-1}, s.seqs*s.perSeq)
	dests, seqs, positions := slices.Repeat([]int32{int32(s.pages * s.pageSize)}, s.tokens), none(s.tokens),
		none(s.tokens)
	at, row := 0, 0
	for i := range b.seqs {
		if from[i] == to[i] {
			continue
		}
		slots[row], lens[row] = int32(i), int32(to[i])
		copy(pages[row*s.perSeq:], b.pageIndices[i])
		for pos := from[i]; pos < to[i]; pos++ {
			dests[at] = b.pageIndices[i][pos/s.pageSize]*int32(s.pageSize) + int32(pos%s.pageSize)
			seqs[at], positions[at] = int32(row), int32(pos)
			at++
		}
		q = append(q, b.q[i][from[i]*s.heads*s.headDim:to[i]*s.heads*s.headDim]...)
		k = append(k, b.k[i][from[i]*s.kvHeads*s.headDim:to[i]*s.kvHeads*s.headDim]...)
		v = append(v, b.v[i][from[i]*s.kvHeads*s.headDim:to[i]*s.kvHeads*s.headDim]...)
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
	return []any{cache, fill(q, s.heads), fill(k, s.kvHeads), fill(v, s.kvHeads), slots,
		tensors.FromFlatDataAndDimensions(pages, s.seqs, s.perSeq), lens, cu, int32(row), dests, seqs, positions}
}

// ranges are the positions of a batch's old tokens and of its new ones.
func (b *batch) ranges() (zero, old, all []int) {
	for _, r := range b.seqs {
		zero, old, all = append(zero, 0), append(old, r.old()), append(all, r.length)
	}
	return zero, old, all
}

// form is a way to compute attention.
type form struct {
	name    string
	backend compute.Backend
	kernels bool
}

func forms(t testing.TB) []form {
	return []form{{"kernels", testenv.XLA(t), true}, {"plain", testenv.XLAWithoutKernels(t), false},
		{"go", testenv.Go(t), false}}
}

// check fills the cache in one call and attends in the next, and compares with the textbook.
func check(t *testing.T, f form, s shape, dtype dtypes.DType, tolerance float64, batches ...[]ragged) {
	t.Helper()
	run := compile(t, f.backend, s, dtype)
	fill := s
	fill.tokens, fill.opts.OneTokenPerSeq = 320, false
	prepare := build(t, f.backend, fill, dtype, false)
	for i, seqs := range batches {
		b := newBatch(s, dtype, uint64(i), seqs...)
		zero, old, all := b.ranges()
		cache, _ := prepare(t, s.emptyCache(dtype, f.kernels && !s.masked && !s.packed), b, zero, old)
		_, got := run(t, cache, b, old, all)
		want := b.want()
		for j := range got {
			expected := 0.0
			if j < len(want) {
				expected = want[j]
			}
			if d := math.Abs(float64(got[j]) - expected); d > tolerance || math.IsNaN(d) {
				t.Errorf("batch %v: token %d (of %d): got %g, want %g", seqs, j/s.heads/s.headDim,
					len(want)/s.heads/s.headDim, got[j], expected)
				break
			}
		}
	}
}
