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

const mambaEps = 1e-5

// mambaNumbers are the weights of a test.
type mambaNumbers struct {
	s                                           arch.StateSpace
	k                                           int
	taps, tapsBias, decay, step, skip, normalBy []float32
}

// mamba2 is the operation with random weights, its norm included.
func mamba2(s arch.StateSpace, k int, dtype dtypes.DType, random *rand.Rand) (operation, mambaNumbers) {
	numbers := func(n int) []float32 {
		list := make([]float32, n)
		for i := range list {
			list[i] = float32(random.NormFloat64())
		}
		return list
	}
	n := mambaNumbers{s: s, k: k, taps: numbers(s.Channels() * k), tapsBias: make([]float32, s.Channels()),
		decay: numbers(s.Heads), step: numbers(s.Heads), skip: numbers(s.Heads), normalBy: numbers(s.Inner())}
	if s.TapsBias {
		n.tapsBias = numbers(s.Channels())
	}
	o := operation{width: s.Inputs(), out: s.Inner(), dtype: dtype, state: s.Past(k) + s.Inner()*s.StateDim,
		weights: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(n.taps, s.Channels(), k)},
		build: func(in, cache *Node, weights []*Node, rows recurrence.Rows) (out, after *Node) {
			w := recurrence.MambaWeights{Taps: ConvertDType(weights[0], dtype), Decay: weights[2], Step: weights[3],
				Skip: weights[4]}
			if s.TapsBias {
				w.TapsBias = weights[1]
			}
			out, after = recurrence.Mamba2(in, w, cache, rows, s)
			tokens := Scalar(in.Graph(), dtypes.Int32, stepTokens)
			return recurrence.GatedNorm(out, in, weights[5], tokens, s.Groups, mambaEps), after
		}}
	for _, list := range [][]float32{n.tapsBias, n.decay, n.step, n.skip, n.normalBy} {
		o.weights = append(o.weights, tensors.FromFlatDataAndDimensions(list, len(list)))
	}
	return o, n
}

// of is what a whole sequence comes to, in float64.
func (n mambaNumbers) of(in [][]float32) [][]float64 {
	s := n.s
	silu := func(x float64) float64 { return x / (1 + math.Exp(-x)) }
	matrices := make([]float64, s.Inner()*s.StateDim)
	all := make([][]float64, len(in))
	for t := range in {
		x := make([]float64, s.Channels())
		for c := range x {
			x[c] = float64(n.tapsBias[c])
			for i := range n.k {
				if from := t - (n.k - 1 - i); from >= 0 {
					x[c] += float64(in[from][s.Inner()+c]) * float64(n.taps[c*n.k+i])
				}
			}
			x[c] = silu(x[c])
		}
		y := make([]float64, s.Inner())
		for h := range s.Heads {
			step := math.Log1p(math.Exp(float64(in[t][s.Inner()+s.Channels()+h]) + float64(n.step[h])))
			if step = max(step, s.MinStep); s.MaxStep > 0 {
				step = min(step, s.MaxStep)
			}
			keeps := math.Exp(-step * math.Exp(float64(n.decay[h])))
			group := h / (s.Heads / s.Groups) * s.StateDim
			for d := range s.HeadDim {
				at := h*s.HeadDim + d
				y[at] = float64(n.skip[h]) * x[at]
				for i := range s.StateDim {
					m := &matrices[at*s.StateDim+i]
					*m = *m*keeps + step*x[at]*x[s.Inner()+group+i]
					y[at] += *m * x[s.Inner()+s.Groups*s.StateDim+group+i]
				}
			}
		}
		size := s.Inner() / s.Groups
		for from := 0; from < s.Inner(); from += size {
			square := 0.0
			for i := from; i < from+size; i++ {
				y[i] *= silu(float64(in[t][i]))
				square += y[i] * y[i]
			}
			for i := from; i < from+size; i++ {
				y[i] *= float64(n.normalBy[i]) / math.Sqrt(square/float64(size)+mambaEps)
			}
		}
		all[t] = y
	}
	return all
}

// As TestShortConv, for Mamba-2 layers and their norms.
func TestMamba2(t *testing.T) {
	for name, open := range backends {
		for _, c := range []struct {
			s         arch.StateSpace
			k         int
			dtype     dtypes.DType
			tolerance float64
		}{
			{arch.StateSpace{Heads: 4, HeadDim: 5, Groups: 2, StateDim: 3, TapsBias: true}, 4, dtypes.Float32, 1e-3},
			{arch.StateSpace{Heads: 2, HeadDim: 44, Groups: 1, StateDim: 6, MinStep: 0.3, MaxStep: 0.9}, 2,
				dtypes.Float32, 1e-3},
			{arch.StateSpace{Heads: 2, HeadDim: 8, Groups: 2, StateDim: 8, TapsBias: true}, 3, dtypes.BFloat16, 0.5},
		} {
			if name == "go" && c.dtype != dtypes.Float32 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %+v, %d taps, %s", name, c.s, c.k, c.dtype), func(t *testing.T) {
				backend, random := open(t), rand.New(rand.NewPCG(1, 2))
				o, numbers := mamba2(c.s, c.k, c.dtype, random)
				checkCuts(t, backend, o, numbers.of, random, 3, c.tolerance)
			})
		}
	}
}
