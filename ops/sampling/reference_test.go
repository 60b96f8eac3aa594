package sampling_test

import (
	"math"
	"slices"

	"github.com/quire/quire/ops/sampling"
)

// reference is the plain Go form of the formulas, in float64, by sorting.
type reference struct {
	probs    []float64 // after temperature and filters, 0 for what is dropped
	logprobs []float64 // log softmax of the raw logits
	margin   float64   // how far the nucleus was from another choice, as a part of its weight
}

func refer(logits []float32, s sampling.Settings) reference {
	top := float64(slices.Max(logits))
	e := make([]float64, len(logits))
	r := reference{logprobs: make([]float64, len(logits)), probs: make([]float64, len(logits)), margin: 1}
	var rawSum float64
	for i, l := range logits {
		rawSum += math.Exp(float64(l) - top)
		e[i] = math.Exp((float64(l) - top) / s.Temperature)
	}
	for i, l := range logits {
		r.logprobs[i] = float64(l) - top - math.Log(rawSum)
	}
	if s.Temperature == 0 {
		r.probs[slices.Index(logits, slices.Max(logits))] = 1
		return r
	}
	sorted := slices.Clone(e)
	slices.Sort(sorted)
	slices.Reverse(sorted)
	var threshold float64
	if s.TopK > 0 && s.TopK < len(e) {
		threshold = sorted[s.TopK-1]
	}
	if s.TopP < 1 {
		sorted = slices.DeleteFunc(sorted, func(x float64) bool { return x < threshold })
		var whole, mass float64
		for _, x := range sorted {
			whole += x
		}
		for i, x := range sorted {
			mass += x
			last := i+1 == len(sorted)
			if last || sorted[i+1] < x {
				r.margin = min(r.margin, math.Abs(mass/whole-s.TopP))
			}
			if mass >= s.TopP*whole || last {
				threshold = x
				break
			}
		}
	}
	threshold = max(threshold, s.MinP)
	var kept float64
	for _, x := range e {
		if x >= threshold {
			kept += x
		}
	}
	for i, x := range e {
		if x >= threshold {
			r.probs[i] = x / kept
		}
	}
	return r
}

// token inverts the cumulative distribution at the row's random number. near reports that the number is so close to
// the border of two tokens that rounding may choose either.
func (r reference) token(key [2]uint32, position int32) (token int, near bool) {
	random := sampling.Threefry(key, [2]uint32{uint32(position), 0})
	u := math.Ldexp(float64(random[0]), -32) + math.Ldexp(float64(random[1]), -64)
	var sum float64
	token = -1
	for i, p := range r.probs {
		sum += p
		near = near || p > 0 && math.Abs(sum-u) < 1e-6
		if token < 0 && sum > u {
			token = i
		}
	}
	return token, near
}
