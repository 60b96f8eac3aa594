package attention_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"pgregory.net/rapid"

	"github.com/quire/quire/attention"
)

var quantizedTypes = []dtypes.DType{dtypes.Int8, dtypes.F8E4M3FN}

// quantized is what a quantized cache holds of a vector.
type quantized struct {
	bytes []byte
	scale float32
}

// quantize is the definition, in plain Go.
func quantize(dtype dtypes.DType, x []float32) quantized {
	limit := map[dtypes.DType]float32{dtypes.Int8: 127, dtypes.F8E4M3FN: 448}[dtype]
	q := quantized{bytes: make([]byte, len(x))}
	top := float32(0)
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v)))) // which is NaN where one is
	}
	if top < 0x1p-100 {
		return q
	}
	if q.scale = top * (1 / limit); !(q.scale <= math.MaxFloat32) {
		return q
	}
	for i, v := range x {
		y := v * (1 / q.scale)
		if dtype == dtypes.Int8 {
			q.bytes[i] = byte(int8(math.RoundToEven(float64(y))))
		} else {
			q.bytes[i] = e4m3(float64(y))
		}
	}
	return q
}

// e4m3 is the nearest 8-bit float, of two as near the even one.
func e4m3(x float64) byte {
	best, sign := 0, byte(0)
	if x < 0 {
		x, sign = -x, 0x80
	}
	for code := range 0x7f {
		d, least := math.Abs(x-fromE4M3(byte(code))), math.Abs(x-fromE4M3(byte(best)))
		if d < least || d == least && code%2 == 0 {
			best = code
		}
	}
	if best == 0 {
		return 0
	}
	return byte(best) | sign
}

// fromE4M3 has 4 bits of exponent and 3 of mantissa; the exponent 0 is that of subnormal numbers.
func fromE4M3(code byte) float64 {
	exponent, mantissa := int(code>>3&15), float64(code&7)
	x := math.Ldexp(1+mantissa/8, exponent-7)
	if exponent == 0 {
		x = math.Ldexp(mantissa/8, -6)
	}
	if code >= 0x80 {
		return -x
	}
	return x
}

// values are what the bytes stand for.
func (q quantized) values(dtype dtypes.DType) []float32 {
	out := make([]float32, len(q.bytes))
	for i, b := range q.bytes {
		if dtype == dtypes.Int8 {
			out[i] = float32(int8(b)) * q.scale
		} else {
			out[i] = float32(fromE4M3(b)) * q.scale
		}
	}
	return out
}

// updater returns a function that writes keys, and values that are their negatives, to a cache of one page, and returns
// its bytes.
func updater(t *testing.T, backend compute.Backend, from, to dtypes.DType, tokens, heads, dim int) func(
	x []float32) []byte {
	t.Helper()
	layout := attention.PagedLayout(1, tokens, heads, dim, to)
	dests := make([]int32, tokens)
	for i := range dests {
		dests[i] = int32(tokens - 1 - i)
	}
	exec, err := NewExec(backend, func(x, dests *Node) *Node {
		k := ConvertDType(Reshape(x, tokens, heads, dim), from)
		cache := layout.Update(Zeros(k.Graph(), layout.Shape()), batchOf(dests), k, Neg(k))
		if to == dtypes.Int8 {
			cache = Bitcast(cache, dtypes.Uint8)
		}
		return cache
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return func(x []float32) []byte {
		out, err := exec.Exec(x, dests)
		if err != nil {
			t.Fatal(err)
		}
		return tensors.MustCopyFlatData[uint8](out[0])
	}
}

// The bytes and scales of new tokens are those of the definition, to the bit, in each form.
func TestQuantizedUpdate(t *testing.T) {
	const tokens, heads, dim = 3, 2, 43
	for _, to := range quantizedTypes {
		for _, from := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
			for _, f := range forms(t) {
				t.Run(fmt.Sprintf("%s/%s/%s", to, from, f.name), func(t *testing.T) {
					update := updater(t, f.backend, from, to, tokens, heads, dim)
					rapid.Check(t, func(r *rapid.T) {
						x := make([]float32, tokens*heads*dim)
						size := rapid.SampledFrom([]float64{1, 1e-4, 300, 1e-29, 1e-33, 1e30}).Draw(r, "size")
						rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
						for i := range x {
							x[i] = rounded(from, float32(math.Tan(rng.Float64()*3-1.5)*size))
						}
						at := rapid.IntRange(0, len(x)-1).Draw(r, "at")
						x[at] = rapid.SampledFrom([]float32{x[at], 0, float32(math.NaN()),
							float32(math.Inf(-1))}).Draw(r, "odd")
						checkUpdated(r, to, update(x), x, tokens, heads, dim)
					})
				})
			}
		}
	}
}

func checkUpdated(r *rapid.T, to dtypes.DType, got []byte, x []float32, tokens, heads, dim int) {
	for token := range tokens {
		for h := range heads {
			for i, sign := range []float32{1, -1} { // a key and a value
				from := x[(token*heads+h)*dim:][:dim]
				vector := make([]float32, dim)
				for d := range vector {
					vector[d] = sign * from[d]
				}
				want := quantize(to, vector)
				place := got[((tokens-1-token)*2*heads+2*h+i)*(dim+4):][:dim+4]
				var bits uint32
				for b := range 4 {
					bits |= uint32(place[dim+b]) << (8 * b)
				}
				scale := math.Float32frombits(bits)
				if scale != want.scale && !(scale != scale && want.scale != want.scale) {
					r.Fatalf("token %d, head %d: the scale is %g, want %g", token, h, scale, want.scale)
				}
				for d := range vector {
					if place[d] != want.bytes[d] {
						r.Fatalf("token %d, head %d: byte %d of %g by %g is %#x, want %#x", token, h, d, vector[d],
							scale, place[d], want.bytes[d])
					}
				}
			}
		}
	}
}

// All forms attend to what the bytes and scales stand for.
func TestQuantizedAttention(t *testing.T) {
	heads := [][2]int{{9, 3}, {8, 2}, {7, 1}, {3, 3}}
	for k, kv := range quantizedTypes {
		for i, dim := range []int{64, 128, 40, 13} {
			for _, f := range forms(t) {
				if f.name != "kernels" && (i > 1 || testing.Short() && i != k) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%s", kv, dim, f.name), func(t *testing.T) {
					s := base
					s.kvType, s.heads, s.kvHeads, s.headDim = kv, heads[i][0], heads[i][1], dim
					if i%2 == 1 {
						s.opts.Window, s.opts.SoftCap = 37, 5
					}
					check(t, f, s, dtypes.Float32, 2e-5, []ragged{{48, 48}}, []ragged{{90, 20}, {33, 1}, {64, 2},
						{31, 25}})
					check(t, f, s.decode(), dtypes.Float32, 2e-5, []ragged{{96, 1}, {1, 1}, {64, 1}, {33, 1}})
					s.contiguous = true
					check(t, f, s, dtypes.BFloat16, 4e-2, []ragged{{48, 20}, {33, 1}})
				})
			}
		}
	}
}

// The layout for TPUs, with all bytes of a token before its scales, gives what the other gives.
func TestQuantizedFlat(t *testing.T) {
	for _, kv := range quantizedTypes {
		s := base
		s.kvType, s.flat = kv, true
		check(t, forms(t)[1], s, dtypes.Float32, 2e-5, []ragged{{90, 20}, {33, 1}, {31, 25}})
		check(t, forms(t)[1], s.decode(), dtypes.Float32, 2e-5, []ragged{{96, 1}, {1, 1}, {64, 1}, {33, 1}})
	}
}

// A packed cache has 8-bit floats without scales: all forms attend to what these are.
func TestFloat8(t *testing.T) {
	for _, f := range forms(t) {
		for heads, dim := range map[[2]int]int{{9, 3}: 64, {4, 1}: 128} {
			s := base
			s.kvType, s.packed, s.heads, s.kvHeads, s.headDim = dtypes.F8E4M3FN, true, heads[0], heads[1], dim
			check(t, f, s, dtypes.Float32, 2e-5, []ragged{{90, 20}, {33, 1}, {31, 25}})
			check(t, f, s.decode(), dtypes.Float32, 2e-5, []ragged{{96, 1}, {1, 1}, {64, 1}, {33, 1}})
		}
	}
}

// Numbers become the nearest 8-bit floats, large ones the largest, and what is not finite is not a number.
func TestFloat8Update(t *testing.T) {
	const tokens, heads, dim, width = 3, 3, 64, 4 * 128
	layout := attention.PagedLayout(1, tokens, heads, dim, dtypes.F8E4M3FN)
	layout.Packed = 4
	for _, f := range forms(t) {
		exec, err := NewExec(f.backend, func(x *Node) *Node {
			k := Reshape(x, tokens, heads, dim)
			return layout.Update(Zeros(k.Graph(), layout.Shape()), batchOf(Const(k.Graph(), []int32{0, 1, 2})), k,
				Neg(k))
		})
		if err != nil {
			t.Fatal(err)
		}
		defer exec.Finalize()
		rapid.Check(t, func(r *rapid.T) {
			x := make([]float32, tokens*heads*dim)
			size := rapid.SampledFrom([]float64{1, 0.01, 300}).Draw(r, "size")
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
			for i := range x {
				x[i] = float32(math.Tan(rng.Float64()*3-1.5) * size)
			}
			at := rapid.IntRange(0, len(x)-1).Draw(r, "at")
			x[at] = rapid.SampledFrom([]float32{x[at], 0, 448, 464, 0x1p-10, 0x3p-10, math.MaxFloat32,
				float32(math.NaN()), float32(math.Inf(-1))}).Draw(r, "odd")
			out, err := exec.Exec(x)
			if err != nil {
				r.Fatal(err)
			}
			got := tensors.MustCopyFlatData[uint8](out[0])
			for i, v := range x {
				token, head, d := i/(heads*dim), i/dim%heads, i%dim
				for j, sign := range []float32{1, -1} {
					want := byte(0x7f)
					if !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) {
						want = e4m3(float64(sign * v))
					}
					if b := got[token*width+(2*head+j)*dim+d]; b != want {
						r.Fatalf("%g is %#x, want %#x", sign*v, b, want)
					}
				}
			}
		})
	}
}

// Kernels for TPUs read floats only, so caches of 8 bits have the flat form there.
func TestQuantizedLayoutsForTPU(t *testing.T) {
	for _, dtype := range []dtypes.DType{dtypes.Int8, dtypes.F8E4M3FN} {
		l := attention.PagedLayout(4, 64, 4, 128, dtype)
		step := attention.Step{Tokens: 8, Seqs: 8, PagesPerSeq: 2, Heads: 8, DType: dtypes.BFloat16}
		if l = l.ForTPU(nil, step); !l.Flat || l.Packed != 0 {
			t.Errorf("%s: %+v", dtype, l)
		}
	}
}
