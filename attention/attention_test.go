package attention_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/attention"
)

var base = shape{heads: 6, kvHeads: 2, headDim: 8, tokens: 48, seqs: 6, pageSize: 8, perSeq: 12, pages: 80,
	opts: attention.Options{Scale: 0.35}}

func TestPrefill(t *testing.T) {
	for _, f := range forms(t) {
		for _, pageSize := range []int{8, 16, 32} {
			for i := range 4 {
				contiguous, byHead := i%2 == 1, i >= 2
				t.Run(fmt.Sprintf("%s/page%d/contiguous=%v/byHead=%v", f.name, pageSize, contiguous,
					byHead), func(t *testing.T) {
					s := base.withPages(pageSize)
					s.contiguous, s.byHead = contiguous, byHead
					check(t, f, s, dtypes.Float32, 2e-6, []ragged{{1, 1}}, []ragged{{48, 48}},
						[]ragged{{7, 7}, {8, 8}, {9, 9}},
						[]ragged{{96, 40}, {3, 1}, {17, 7}}, []ragged{{33, 1}, {64, 1}, {65, 1}, {90, 33}},
						[]ragged{{pageSize - 1, 3}, {pageSize, 3}, {pageSize + 1, 3}, {2*pageSize - 1, 1},
							{2 * pageSize, 1}, {2*pageSize + 1, 1}})
				})
			}
		}
	}
}

func TestDecode(t *testing.T) {
	for _, f := range forms(t) {
		for i := range 4 {
			contiguous, byHead := i%2 == 1, i >= 2
			t.Run(fmt.Sprintf("%s/contiguous=%v/byHead=%v", f.name, contiguous, byHead), func(t *testing.T) {
				s := base.decode()
				s.contiguous, s.byHead = contiguous, byHead
				check(t, f, s, dtypes.Float32, 2e-6,
					[]ragged{{1, 1}}, []ragged{{7, 1}, {8, 1}, {9, 1}, {31, 1}, {32, 1}, {33, 1}},
					[]ragged{{96, 1}, {1, 1}, {64, 1}})
			})
		}
	}
}

func TestWindowSoftCapAndRatios(t *testing.T) {
	batches := [][]ragged{{{20, 20}, {70, 12}, {90, 3}}, {{96, 1}, {40, 1}, {16, 1}, {17, 1}}}
	for _, f := range forms(t)[:2] {
		for i, opts := range []attention.Options{{Scale: 0.5, Window: 16}, {Scale: 0.5, Window: 1},
			{Scale: 2, SoftCap: 3}, {Scale: 1, Window: 40, SoftCap: 2}} {
			heads := [][2]int{{4, 4}, {5, 1}, {9, 3}}[i%3]
			for _, decode := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%+v/%v/decode=%v", f.name, opts, heads, decode), func(t *testing.T) {
					s, these := base, batches
					s.opts, s.heads, s.kvHeads, s.headDim, s.sinks = opts, heads[0], heads[1], 5, i%2 == 0
					if decode {
						s, these = s.decode(), batches[1:]
					}
					check(t, f, s, dtypes.Float32, 3e-6, these...)
				})
			}
		}
	}
}

// A mask hides positions from tokens, of windows too, in all layouts.
func TestMask(t *testing.T) {
	for _, f := range forms(t)[:2] {
		for i, opts := range []attention.Options{{Scale: 0.35}, {Scale: 0.5, Window: 16}, {Scale: 1}} {
			s := base
			s.opts, s.masked, s.sinks = opts, true, i == 2
			for j := range 6 {
				s.contiguous, s.byHead, s.flat, s.packed = j == 1 || j == 3, j == 2 || j == 3, j == 4, j == 5
				if s.packed {
					s.headDim = 64
				}
				check(t, f, s, dtypes.Float32, 1e-5, []ragged{{96, 40}, {3, 1}, {17, 7}}, []ragged{{70, 48}})
			}
		}
	}
}

// The kernels have other code for the widths of vectors, the numbers of rows and the dtypes.
func TestKernelShapes(t *testing.T) {
	f := forms(t)[0]
	heads := [][2]int{{1, 1}, {3, 3}, {9, 3}, {8, 2}, {5, 1}, {6, 1}, {7, 1}, {16, 2}}
	for i, dim := range []int{1, 8, 12, 48, 64, 80, 128, 136} {
		for _, c := range []struct {
			dtype     dtypes.DType
			tolerance float64
		}{{dtypes.Float32, 1e-5}, {dtypes.BFloat16, 2e-2}, {dtypes.Float16, 2e-3}} {
			t.Run(fmt.Sprintf("%d/%v/%s", dim, heads[i], c.dtype), func(t *testing.T) {
				s := base
				s.heads, s.kvHeads, s.headDim = heads[i][0], heads[i][1], dim
				s.opts.Scale = 0.3
				if i%2 == 1 {
					s.opts.Window, s.opts.SoftCap = 37, 5
				}
				s.sinks, s.byHead = i%4 > 1, i%3 == 0
				check(t, f, s, c.dtype, c.tolerance, []ragged{{48, 48}}, []ragged{{90, 20}, {33, 1}, {64, 2}, {31, 25}})
			})
		}
	}
}

// Scores of later tokens may be far above all before: weights of the kernels begin anew there.
func TestScoresThatRise(t *testing.T) {
	f := forms(t)[0]
	for _, c := range []struct {
		dtype     dtypes.DType
		scale     float64
		tolerance float64
	}{{dtypes.Float32, 8, 5e-5}, {dtypes.Float32, 60, 5e-4}, {dtypes.BFloat16, 8, 4e-2}} {
		for _, sinks := range []bool{false, true} {
			s := base
			s.headDim, s.opts.Scale, s.sinks = 64, c.scale/8, sinks
			check(t, f, s, c.dtype, c.tolerance, []ragged{{90, 40}, {33, 1}})
			check(t, f, s.decode(), c.dtype, c.tolerance, []ragged{{96, 1}, {31, 1}, {33, 1}, {2, 1}})
		}
	}
}

func TestHalfPrecision(t *testing.T) {
	for _, c := range []struct {
		dtype     dtypes.DType
		tolerance float64
	}{{dtypes.BFloat16, 4e-2}, {dtypes.Float16, 5e-3}} {
		check(t, forms(t)[1], base, c.dtype, c.tolerance, []ragged{{30, 20}, {9, 9}})
	}
}

// A token's result does not depend on the rest of the batch, bit for bit: in the plain form too.
func TestRowsAreIndependent(t *testing.T) {
	for _, f := range forms(t)[:2] {
		run := compile(t, f.backend, base, dtypes.Float32)
		b := newBatch(base, dtypes.Float32, 6, ragged{7, 7}, ragged{21, 21}, ragged{19, 19})
		zero, _, all := b.ranges()
		_, got := run(t, base.emptyCache(dtypes.Float32, false), b, zero, all)
		_, want := run(t, base.emptyCache(dtypes.Float32, false), b.only(1), zero[:1], all[1:2])
		row := base.heads * base.headDim
		if !slices.Equal(got[7*row:28*row], want[:21*row]) {
			t.Errorf("%s: the same sequence gives other bits beside others", f.name)
		}
	}
}

func TestCopyAndZeroPages(t *testing.T) {
	layout := attention.PagedLayout(4, 2, 1, 1, dtypes.Float32)
	for _, f := range forms(t) {
		out, err := ExecOnceN(f.backend, func(cache, src, dst, mask *Node) []*Node {
			copied := layout.CopyPages(cache, src, dst)
			return []*Node{copied, layout.ZeroPages(copied, mask)}
		}, tensors.FromFlatDataAndDimensions([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 4, 2, 2,
			1),
			[]int32{3, -1, 0}, []int32{0, 1, -1}, []bool{false, true, false, false})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := tensors.MustCopyFlatData[float32](out[0]), []float32{12, 13, 14, 15, 4, 5, 6, 7, 8, 9, 10, 11,
			12, 13, 14, 15}; !slices.Equal(got, want) {
			t.Errorf("%s: CopyPages gave %v, want %v", f.name, got, want)
		}
		if got, want := tensors.MustCopyFlatData[float32](out[1]), []float32{12, 13, 14, 15, 0, 0, 0, 0, 8, 9, 10, 11,
			12, 13, 14, 15}; !slices.Equal(got, want) {
			t.Errorf("%s: ZeroPages gave %v, want %v", f.name, got, want)
		}
	}
}

// The keys and values of new tokens are converted to the cache's dtype as the plain form does, and what is out of range
// is dropped.
func TestUpdateConverts(t *testing.T) {
	const tokens, kvHeads, dim = 40, 2, 19
	values := make([]float32, tokens*kvHeads*dim)
	for i := range values {
		values[i] = float32(i*i%977-300) * 1.0007
	}
	dests := make([]int32, tokens)
	for i := range dests {
		dests[i] = int32((i*7)%tokens) + 5
	}
	dests[0], dests[1], dests[2] = -1, 64, 1<<30
	types := []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Float16}
	for i := range 2 * len(types) {
		cacheType := types[i/2]
		layout := attention.PagedLayout(8, 8, kvHeads, dim, cacheType)
		layout.ByHead = i%2 == 1
		for _, from := range types {
			var got [2][]float32
			for i, f := range forms(t)[:2] {
				out, err := ExecOnce(f.backend, func(values, dests *Node) *Node {
					k := ConvertDType(Reshape(values, tokens, kvHeads, dim), from)
					cache := layout.Update(Zeros(k.Graph(), layout.Shape()), batchOf(dests), k, Neg(k))
					return ConvertDType(cache, dtypes.Float32)
				}, values, dests)
				if err != nil {
					t.Fatal(err)
				}
				got[i] = tensors.MustCopyFlatData[float32](out)
			}
			if !slices.Equal(got[0], got[1]) {
				t.Errorf("%s in a cache of %s, by head %v, differs from the plain form", from, cacheType, layout.ByHead)
			}
		}
	}
}
