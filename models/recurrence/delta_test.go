package recurrence_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/recurrence"
)

const deltaEps = 1e-6

// deltaNumbers are the weights of a test.
type deltaNumbers struct {
	d                       arch.DeltaNet
	k                       int
	taps, decay, bias, norm []float32
}

// gatedDelta is the operation with random weights.
func gatedDelta(d arch.DeltaNet, k int, dtype dtypes.DType, random *rand.Rand) (operation, deltaNumbers) {
	numbers := func(n int) []float32 {
		list := make([]float32, n)
		for i := range list {
			list[i] = float32(random.NormFloat64())
		}
		return list
	}
	n := deltaNumbers{d: d, k: k, taps: numbers(d.Channels() * k), decay: numbers(d.ValueHeads),
		bias: numbers(d.ValueHeads), norm: numbers(d.ValueDim)}
	o := operation{width: d.Inputs(), out: d.Values(), dtype: dtype,
		state: (k-1)*d.Channels() + d.ValueHeads*d.KeyDim*d.ValueDim,
		weights: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(n.taps, d.Channels(), k),
			tensors.FromFlatDataAndDimensions(n.decay, d.ValueHeads),
			tensors.FromFlatDataAndDimensions(n.bias, d.ValueHeads),
			tensors.FromFlatDataAndDimensions(n.norm, d.ValueDim)},
		build: func(in, cache *Node, weights []*Node, rows recurrence.Rows) (out, after *Node) {
			w := recurrence.DeltaWeights{Taps: ConvertDType(weights[0], dtype), Decay: weights[1], Bias: weights[2],
				Norm: weights[3]}
			return recurrence.GatedDelta(in, w, cache, rows, d, deltaEps)
		}}
	return o, n
}

// of is what a whole sequence comes to, in float64.
func (n deltaNumbers) of(in [][]float32) [][]float64 {
	d := n.d
	keys, group := d.KeyHeads*d.KeyDim, d.ValueHeads/d.KeyHeads
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	matrices := make([][][]float64, d.ValueHeads)
	for h := range matrices {
		matrices[h] = make([][]float64, d.KeyDim)
		for i := range matrices[h] {
			matrices[h][i] = make([]float64, d.ValueDim)
		}
	}
	all := make([][]float64, len(in))
	for t := range in {
		x := make([]float64, d.Channels())
		for c := range x {
			for i := range n.k {
				if from := t - (n.k - 1 - i); from >= 0 {
					x[c] += float64(in[from][c]) * float64(n.taps[c*n.k+i])
				}
			}
			x[c] *= sigmoid(x[c])
		}
		unit := func(x []float64) []float64 {
			sum := 1e-6
			for _, y := range x {
				sum += y * y
			}
			out := make([]float64, len(x))
			for i, y := range x {
				out[i] = y / math.Sqrt(sum)
			}
			return out
		}
		rest := in[t][d.Channels():]
		all[t] = make([]float64, d.Values())
		for h := range d.ValueHeads {
			at := h / group * d.KeyDim
			q, k := unit(x[at:at+d.KeyDim]), unit(x[keys+at:keys+at+d.KeyDim])
			v := x[2*keys+h*d.ValueDim:][:d.ValueDim]
			learns := sigmoid(float64(rest[d.Values()+h]))
			step := float64(rest[d.Values()+d.ValueHeads+h]) + float64(n.bias[h])
			keeps := math.Exp(-math.Exp(float64(n.decay[h])) * math.Log1p(math.Exp(step)))
			y, square := all[t][h*d.ValueDim:][:d.ValueDim], 0.0
			for j := range d.ValueDim {
				read := 0.0
				for i := range d.KeyDim {
					matrices[h][i][j] *= keeps
					read += matrices[h][i][j] * k[i]
				}
				for i := range d.KeyDim {
					matrices[h][i][j] += k[i] * (v[j] - read) * learns
					y[j] += matrices[h][i][j] * q[i] / math.Sqrt(float64(d.KeyDim))
				}
				square += y[j] * y[j]
			}
			for j := range d.ValueDim {
				gate := float64(rest[h*d.ValueDim+j])
				y[j] *= float64(n.norm[j]) * gate * sigmoid(gate) / math.Sqrt(square/float64(d.ValueDim)+deltaEps)
			}
		}
	}
	return all
}

// As TestShortConv, for gated delta nets.
func TestGatedDelta(t *testing.T) {
	for name, open := range backends {
		for _, c := range []struct {
			d         arch.DeltaNet
			k         int
			dtype     dtypes.DType
			tolerance float64
		}{
			{arch.DeltaNet{KeyHeads: 2, ValueHeads: 4, KeyDim: 3, ValueDim: 5}, 4, dtypes.Float32, 1e-3},
			{arch.DeltaNet{KeyHeads: 1, ValueHeads: 1, KeyDim: 16, ValueDim: 8}, 2, dtypes.Float32, 1e-3},
			{arch.DeltaNet{KeyHeads: 2, ValueHeads: 2, KeyDim: 8, ValueDim: 8}, 3, dtypes.BFloat16, 0.5},
		} {
			if name == "go" && c.dtype != dtypes.Float32 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %+v, %d taps, %s", name, c.d, c.k, c.dtype), func(t *testing.T) {
				backend, random := open(t), rand.New(rand.NewPCG(1, 2))
				o, numbers := gatedDelta(c.d, c.k, c.dtype, random)
				checkCuts(t, backend, o, numbers.of, random, 3, c.tolerance)
			})
		}
	}
}
