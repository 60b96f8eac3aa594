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
)

// packed are whole rows, one after the other, with room for some more tokens and rows.
type packed struct {
	heads, kvHeads, dim int
	lens                []int
	unseen              int // how many tokens at the end of long rows are not attended to
	opts                attention.Options
	bias                []float32 // [heads, 2*zero + 1 + padding]; nil for none
	zero                int
	q, k, v             [][]float32 // by row
}

func newPacked(heads, kvHeads, dim int, dtype dtypes.DType, opts attention.Options, lens ...int) *packed {
	rng := rand.New(rand.NewPCG(11, uint64(dim)))
	p := &packed{heads: heads, kvHeads: kvHeads, dim: dim, lens: lens, opts: opts, zero: slices.Max(lens)}
	values := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = rounded(dtype, float32(rng.NormFloat64()))
		}
		return x
	}
	for _, n := range lens {
		p.q, p.k, p.v = append(p.q, values(n*heads*dim)), append(p.k, values(n*kvHeads*dim)),
			append(p.v, values(n*kvHeads*dim))
	}
	return p
}

// seen is how many tokens of a row are attended to.
func (p *packed) seen(row int) int {
	if p.lens[row] < 2*p.unseen {
		return p.lens[row]
	}
	return p.lens[row] - p.unseen
}

func (p *packed) addBias() {
	rng := rand.New(rand.NewPCG(12, 1))
	p.bias = make([]float32, p.heads*(2*p.zero+1+attention.BiasPadding))
	for i := range p.bias {
		p.bias[i] = float32(rng.NormFloat64())
	}
}

// run returns the results of rows, in the given order of them, of a program of so many tokens. Padding is NaN.
func (p *packed) run(t *testing.T, backend compute.Backend, dtype dtypes.DType, tokens int, order []int) [][]float32 {
	t.Helper()
	rows := len(p.lens) + 3
	tokenRows, positions := slices.Repeat([]int32{-1}, tokens), slices.Repeat([]int32{-1}, tokens)
	firsts, lens := make([]int32, rows), make([]int32, rows)
	pad := func(lists [][]float32, width int) *tensors.Tensor {
		all := slices.Repeat([]float32{float32(math.NaN())}, tokens*width)
		at := 0
		for _, i := range order {
			at += copy(all[at:], lists[i])
		}
		return tensors.FromFlatDataAndDimensions(all, tokens, width/p.dim, p.dim)
	}
	at := 0
	for place, i := range order {
		firsts[place], lens[place] = int32(at), int32(p.seen(i))
		for k := range p.lens[i] {
			tokenRows[at], positions[at] = int32(place), int32(k)
			at++
		}
	}
	vector := func(x []int32) *tensors.Tensor { return tensors.FromFlatDataAndDimensions(x, len(x)) }
	out, err := ExecOnce(backend, func(in []*Node) *Node {
		var bias *attention.Bias
		if p.bias != nil {
			bias = &attention.Bias{Scores: Reshape(Const(in[0].Graph(), p.bias), p.heads, -1), Zero: p.zero}
		}
		r := attention.Rows{TokenRows: in[3], Positions: in[4], Firsts: in[5], Lens: in[6], Count: in[7]}
		for i := range 3 {
			in[i] = ConvertDType(in[i], dtype)
		}
		return ConvertDType(r.Attend(in[0], in[1], in[2], p.opts, bias), dtypes.Float32)
	}, pad(p.q, p.heads*p.dim), pad(p.k, p.kvHeads*p.dim), pad(p.v, p.kvHeads*p.dim), vector(tokenRows),
		vector(positions), vector(firsts), vector(lens), tensors.FromScalar(int32(len(order))))
	if err != nil {
		t.Fatal(err)
	}
	flat, results := tensors.MustCopyFlatData[float32](out), make([][]float32, len(p.lens))
	for _, i := range order {
		n := p.lens[i] * p.heads * p.dim
		results[i], flat = flat[:n], flat[n:]
	}
	return results
}

// want is what attention is, in float64.
func (p *packed) want(row, token, head int) []float64 {
	group, o := p.heads/p.kvHeads, p.opts
	scores := map[int]float64{}
	total := 0.0
	for key := range p.seen(row) {
		if key > token+o.Ahead || o.Window > 0 && key <= token-o.Window {
			continue
		}
		score := 0.0
		for d := range p.dim {
			score += float64(p.q[row][(token*p.heads+head)*p.dim+d]) *
				float64(p.k[row][(key*p.kvHeads+head/group)*p.dim+d])
		}
		score *= o.Scale
		if o.SoftCap > 0 {
			score = o.SoftCap * math.Tanh(score/o.SoftCap)
		}
		if p.bias != nil {
			score += float64(p.bias[head*(len(p.bias)/p.heads)+p.zero+key-token])
		}
		scores[key] = math.Exp(score)
		total += scores[key]
	}
	out := make([]float64, p.dim)
	for key, weight := range scores {
		for d := range out {
			out[d] += weight / total * float64(p.v[row][(key*p.kvHeads+head/group)*p.dim+d])
		}
	}
	return out
}

// Tokens of whole rows attend both ways, in windows, with soft caps and biases, as arithmetic in float64 says; by the
// kernel and by the plain form. Neither reads what follows a row. The bytes of a row do not depend on the order of
// rows, on the size of the program, or on the threads.
func TestRows(t *testing.T) {
	const all = math.MaxInt32
	one := oneThread(t)
	for _, c := range []struct {
		heads, kvHeads, dim int
		dtype               dtypes.DType
		opts                attention.Options
		bias                bool
		unseen              int
	}{
		{6, 6, 32, dtypes.Float32, attention.Options{Scale: 0.3, Ahead: all}, false, 0},
		{4, 2, 40, dtypes.Float32, attention.Options{Scale: 0.3, Window: 9, Ahead: 8}, true, 3},
		{4, 4, 64, dtypes.BFloat16, attention.Options{Scale: 0.3, Ahead: all}, true, 0},
		{6, 2, 64, dtypes.BFloat16, attention.Options{Scale: 0.3, Window: 40, Ahead: 39, SoftCap: 4}, false, 0},
		{4, 1, 48, dtypes.Float16, attention.Options{Scale: 0.3, Ahead: 3}, false, 0},
		{4, 2, 64, dtypes.Float32, attention.Options{Scale: 0.3, Ahead: all}, false, 20},
		{4, 2, 64, dtypes.Float32, attention.Options{Scale: 0.3}, false, 0}, // as in a decoder
	} {
		t.Run(fmt.Sprintf("%s/%d/%+v/%t/%d", c.dtype, c.dim, c.opts, c.bias, c.unseen), func(t *testing.T) {
			p := newPacked(c.heads, c.kvHeads, c.dim, c.dtype, c.opts, 1, 33, 7, 150, 2, 64)
			p.unseen = c.unseen
			if c.bias {
				p.addBias()
			}
			order, other := []int{0, 1, 2, 3, 4, 5}, []int{3, 5, 0, 2, 4, 1}
			for name, backend := range map[string]compute.Backend{"kernel": testenv.XLA(t),
				"plain": testenv.XLAWithoutKernels(t)} {
				got := p.run(t, backend, c.dtype, 272, order)
				room := map[dtypes.DType]float64{dtypes.Float32: 5e-6, dtypes.Float16: 6e-3,
					dtypes.BFloat16: 8e-2}[c.dtype]
				for row := range p.lens {
					for i, x := range got[row] {
						token, head := i/c.dim/c.heads, i/c.dim%c.heads
						if i%c.dim > 0 {
							continue
						}
						want := p.want(row, token, head)
						for d := range want {
							if x = got[row][i+d]; !(math.Abs(float64(x)-want[d]) < room) {
								t.Fatalf("%s: token %d of row %d, head %d: %g, want %g", name, token, row, head, x,
									want[d])
							}
						}
					}
				}
				variants := map[string][][]float32{"in another order": p.run(t, backend, c.dtype, 272, other)}
				if name == "kernel" {
					variants["in a larger program"] = p.run(t, backend, c.dtype, 400, other)
					variants["on one thread"] = p.run(t, one, c.dtype, 272, order)
				}
				for variant, results := range variants {
					for row := range p.lens {
						if !slices.Equal(results[row], got[row]) {
							t.Errorf("%s: row %d has other bytes %s", name, row, variant)
						}
					}
				}
			}
		})
	}
}
