package sampling

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/ops/control"
)

// FiltersOf has the filters of n rows other than top-k, top-p and min-p, declared once for the device and for the
// host. 0 is off. Greedy rows ignore them.
type FiltersOf[Floats any] struct {
	// TopNSigma f32[n] keeps logits that are at most this many standard deviations, over all logits that are not
	// -Inf, below the largest.
	TopNSigma Floats
	// Typical f32[n] keeps the most typical tokens, whose surprise is nearest to the mean, with at least this much of
	// the probability.
	Typical Floats
	// XTCProbability f32[n] is the probability that XTC removes all tokens whose probability is at least XTCThreshold
	// f32[n], except the least likely one of them.
	XTCProbability, XTCThreshold Floats
}

// Filters are the filters of rows on the device.
type Filters = FiltersOf[*Node]

// SetFilters sets row i from settings.
func SetFilters(rows FiltersOf[[]float32], i int, s Settings) {
	rows.TopNSigma[i], rows.Typical[i] = float32(s.TopNSigma), float32(s.TypicalMass())
	rows.XTCProbability[i], rows.XTCThreshold[i] = float32(s.XTCProbability), float32(s.XTCThreshold)
}

// Filtered returns which rows have filters, bool[n].
func Filtered(f Filters) *Node {
	return Or(GreaterThan(f.TopNSigma, ZerosLike(f.TopNSigma)), filteredLate(f))
}

// filteredLate returns which rows have filters that come after top-k, top-p and min-p, bool[n].
func filteredLate(f Filters) *Node {
	zero := ZerosLike(f.Typical)
	return Or(GreaterThan(f.Typical, zero), GreaterThan(f.XTCProbability, zero))
}

// Filter sets the logits f32[n, V] that filters drop to -Inf, in the order top-n-sigma, top-k, top-p, min-p, typical,
// XTC, for the distribution at the temperature. If a row has one of the last two, the returned parameters have no
// other filters for it. Rows without filters keep logits and parameters, bit for bit.
//
// Sums are of integers, as in [Sample], so that a row does not depend on the number of rows. This is the plain form
// of what the CPU kernel does while it samples.
func Filter(logits *Node, p Params, f Filters, positions *Node) (*Node, Params) {
	logits = ConvertDType(logits, dtypes.Float32)
	v := newVocabulary(logits)
	greedy := LessThan(p.Temperature, v.float32(parameter.SmallestTemperature))
	sampled := And(Filtered(f), Not(greedy))
	kept := v.topNSigma(f.TopNSigma)

	late := And(filteredLate(f), Not(greedy))
	off := ZerosLike(f.Typical)
	lateP := p
	lateP.TopK, lateP.TopP, lateP.MinP = Where(late, p.TopK, ZerosLike(p.TopK)), Where(late, p.TopP, OnesLike(p.TopP)),
		Where(late, p.MinP, off)
	type keeping struct{ Kept *Node }
	kept = control.If(ReduceLogicalOr(late), func() keeping {
		temperature := Where(greedy, OnesLike(p.Temperature), p.Temperature)
		below := *v
		below.logits = Where(kept, v.logits, Scalar(v.g, dtypes.Float32, math.Inf(-1)))
		e := below.exponentials(below.logits, temperature, greedy)
		e = masked(e, wide(below.threshold(func() *Node { return e }, lateP, greedy)))
		e = below.typical(e, temperature, And(late, GreaterThan(f.Typical, off)), f.Typical)
		e = below.xtc(e, f, p.Key, positions)
		isLate := BroadcastToDims(wide(late), e.Shape().Dimensions...)
		return keeping{Where(isLate, GreaterThan(e, ZerosLike(e)), kept)}
	}, func() keeping { return keeping{kept} }).Kept

	p.TopK, p.TopP, p.MinP = Where(late, ZerosLike(p.TopK), p.TopK), Where(late, OnesLike(p.TopP), p.TopP),
		Where(late, off, p.MinP)
	rows, size := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	blocks := v.logits.Shape().Dimensions[1]
	flat := SliceAxis(Reshape(kept, rows, blocks*v.block), 1, AxisRangeFromStart(size))
	drop := And(BroadcastToDims(InsertAxes(sampled, -1), rows, size), Not(flat))
	return Where(drop, Scalar(v.g, dtypes.Float32, math.Inf(-1)), logits), p
}

// Distances of logits from the largest are counted in units of 2^-sigmaBits, up to 2^sigmaRange, so that the sum of
// their squares is below 2^62 for the largest vocabulary.
const (
	sigmaBits  = 11
	sigmaRange = 9
)

// topNSigma returns which tokens a threshold of n standard deviations keeps, bool in the shape of logits; all if n is
// 0.
//
// It is llama.cpp's top_n_sigma: the standard deviation is over all logits that are not -Inf.
func (v *vocabulary) topNSigma(n *Node) *Node {
	shape := v.logits.Shape().Dimensions
	all := func(x *Node) *Node { return BroadcastToDims(wide(x), shape...) }
	count := func(x *Node) *Node { return ReduceSum(ReduceSum(x, -1), -1) }
	f32 := func(x *Node) *Node { return ConvertDType(x, dtypes.Float32) }
	finite := GreaterThan(v.logits, v.float32(math.Inf(-1)))
	type bound struct{ Distance *Node }
	far := BroadcastToDims(v.float32(math.Inf(1)), v.rows)
	distance := control.If(ReduceLogicalOr(GreaterThan(n, ZerosLike(n))), func() bound {
		below := Min(Sub(all(v.max), v.logits), v.float32(1<<sigmaRange))
		units := ConvertDType(Floor(MulScalar(below, 1<<sigmaBits)), dtypes.Int64)
		units = Where(finite, units, ZerosLike(units))
		number := f32(count(ConvertDType(finite, dtypes.Int64)))
		mean := Div(f32(count(units)), number)
		square := Div(f32(count(Mul(units, units))), number)
		deviation := Sqrt(Max(Sub(square, Mul(mean, mean)), ZerosLike(mean)))
		return bound{Where(GreaterThan(n, ZerosLike(n)), MulScalar(Mul(deviation, n), math.Ldexp(1, -sigmaBits)), far)}
	}, func() bound { return bound{far} }).Distance
	return And(finite, GreaterOrEqual(v.logits, Sub(all(v.max), all(distance))))
}

// typical drops tokens of enabled rows from e whose surprise is far from the mean: it keeps the nearest ones that
// have at least mass of the weight, and all that are as near as the last of them.
//
// It is transformers' TypicalLogitsWarper. With x = (max - logit) / temperature, a token's surprise is x + log(sum of
// e) and the mean, the entropy, is sum(e * x) / sum(e) + log(sum of e).
func (v *vocabulary) typical(e, temperature, enabled, mass *Node) *Node {
	return when(ReduceLogicalOr(enabled), e, func(e *Node) *Node {
		shape := e.Shape().Dimensions
		all := func(x *Node) *Node { return BroadcastToDims(wide(x), shape...) }
		x := Div(Sub(all(v.max), v.logits), all(temperature))
		x = Where(GreaterThan(e, ZerosLike(e)), x, ZerosLike(x)) // e * x is at most 1/e
		sum := func(e *Node) *Node { return ReduceSum(sumWeights(e), -1) }
		total := sum(e)
		mean := Div(ConvertDType(sum(Mul(e, x)), dtypes.Float32), ConvertDType(total, dtypes.Float32))
		far := Abs(Sub(x, all(mean)))

		fraction := Where(enabled, Mul(mass, v.float32(1<<32)), ZerosLike(mass))
		need := mulHigh32(ConvertDType(fraction, dtypes.Int64), total)
		need = Max(need, OnesLike(need))
		near := func(e, far, bits *Node) *Node {
			return Where(LessOrEqual(far, all(asFloat(bits))), e, ZerosLike(e))
		}
		type span struct{ Few, Enough *Node } // bit patterns of distances: keeping up to Few is too little
		last := int(math.Float32bits(math.MaxFloat32))
		start := span{BroadcastToDims(v.int32(-1), v.rows), Where(enabled, BroadcastToDims(v.int32(last), v.rows),
			BroadcastToDims(v.int32(0), v.rows))}
		found := control.While(start,
			func(s span) *Node { return ReduceLogicalOr(GreaterThan(Sub(s.Enough, s.Few), v.int32(1))) },
			func(s span) span {
				middle := Add(s.Few, BitwiseShiftRightArithmetic(Sub(s.Enough, s.Few), v.int32(1)))
				middle = Max(middle, ZerosLike(middle))
				enough := GreaterOrEqual(sum(near(e, far, middle)), need)
				working := GreaterThan(Sub(s.Enough, s.Few), v.int32(1))
				return span{Few: Where(And(working, Not(enough)), middle, s.Few),
					Enough: Where(And(working, enough), middle, s.Enough)}
			})
		return Where(all(enabled), near(e, far, found.Enough), e)
	})
}

// xtc drops the likeliest tokens from e, for rows whose random number is below the probability: all tokens that have
// at least the threshold of the weight, except the least likely of them and those equal to it.
//
// It is llama.cpp's XTC. The random number has counter (position, 1).
func (v *vocabulary) xtc(e *Node, f Filters, key, positions *Node) *Node {
	shape := e.Shape().Dimensions
	all := func(x *Node) *Node { return BroadcastToDims(wide(x), shape...) }
	zero := ZerosLike(f.XTCProbability)
	word := func(i int) *Node { return Reshape(Slice(key, AxisRange(), AxisElem(i)), v.rows) }
	counter := Bitcast(positions, dtypes.Uint32)
	random, _ := threefryGraph(word(0), word(1), counter, OnesLike(counter))
	below := func(p *Node) *Node { return ConvertDType(Mul(p, v.float32(1<<32)), dtypes.Int64) }
	enabled := And(GreaterThan(f.XTCProbability, zero),
		LessThan(ConvertDType(random, dtypes.Int64), below(f.XTCProbability)))
	return when(ReduceLogicalOr(enabled), e, func(e *Node) *Node {
		w := weights(e)
		total := ReduceSum(ReduceSum(w, -1), -1)
		need := mulHigh32(below(f.XTCThreshold), total)
		top := GreaterOrEqual(w, BroadcastToDims(wide(Max(need, OnesLike(need))), shape...))
		least := ReduceMin(ReduceMin(Where(top, e, OnesLike(e)), -1), -1)
		some := ReduceLogicalOr(ReduceLogicalOr(top, -1), -1)
		dropped := And(all(And(enabled, some)), GreaterThan(e, all(least)))
		return Where(dropped, ZerosLike(e), e)
	})
}
