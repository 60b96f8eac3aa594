package sampling

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// DRYOf has the parameters of DRY for n rows, declared once for the device and for the host: penalties for tokens
// that would repeat a sequence. A row of zeros has no DRY.
type DRYOf[Floats, Ints any] struct {
	Multiplier, Base Floats // f32[n]
	Allowed          Ints   // i32[n]: the shortest repetition, in tokens
	LastN            Ints   // i32[n]: how many of the last tokens are searched
	MostPower        Ints   // i32[n]: the highest power of the base
}

// DRY has the parameters of rows on the device, and the history of their tokens.
type DRY struct {
	DRYOf[*Node, *Node]
	Histories
	Lens *Node // i32[n]: tokens of prompt and completion
	// Breaks returns which of tokens i32[n] are breakers by themselves, bool[n]. Breakers are not penalized.
	Breaks func(tokens *Node) *Node
}

// SetDRY sets row i from settings, for sequences of at most longest tokens.
func SetDRY(rows DRYOf[[]float32, []int32], i int, s Settings, longest int) {
	base := float32(s.DRYPower())
	rows.Multiplier[i], rows.Base[i] = float32(s.DRYMultiplier), base
	rows.Allowed[i], rows.LastN[i] = int32(s.DRYAllowedLength), int32(s.DRYPenaltyLastN)
	rows.MostPower[i] = math.MaxInt32
	if s.DRYPenaltyLastN < 0 {
		rows.LastN[i] = int32(longest)
	}
	if base > 1.000001 { // as in llama.cpp, which keeps the power finite
		rows.MostPower[i] = int32(88.7228391 / float32(math.Log(float64(base))))
	}
}

// HasDRY returns which rows use DRY, bool[n].
func HasDRY(d DRYOf[*Node, *Node]) *Node { return GreaterThan(d.Multiplier, ZerosLike(d.Multiplier)) }

// penalizeRepeats returns the logits f32[n, V] after DRY. Rows without it keep their logits, bit for bit.
//
// It is llama.cpp's sampler dry: if the last k tokens also occur elsewhere among the last LastN, k is at least
// Allowed, and the match does not cross a breaker, then Multiplier * Base^(k - Allowed) is subtracted from the logit
// of the token that follows there, for the largest k.
func (d DRY) penalizeRepeats(logits *Node) *Node {
	g := logits.Graph()
	n, size, h := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1], d.Tokens.Shape().Dimensions[1]
	number := func(x int) *Node { return Scalar(g, dtypes.Int32, x) }
	all := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), n, h-1) }
	window := func(x *Node, from int) *Node { return SliceAxis(x, 1, AxisRange(from, from+h-1)) }

	last := Min(d.Lens, d.LastN)
	limit := Where(LessThan(d.Head, last), Min(d.Limit, last), last)
	distance := AddScalar(Iota(g, shapes.Make(dtypes.Int32, n, h-1), 1), 1)
	repeats := Min(Min(window(d.Matches, 1), Sub(all(last), distance)), all(limit))
	counts := And(LessThan(distance, all(last)), GreaterOrEqual(repeats, all(d.Allowed)))
	counts = And(counts, all(HasDRY(d.DRYOf)))
	next, none := window(d.Tokens, 0), FillScalar(g, distance.Shape(), -1)

	// One token at a time, the ones after the longest repetitions first, because few tokens are penalized.
	type penalizing struct{ Logits, Repeats *Node }
	start := penalizing{Reshape(logits, n*size), Where(counts, repeats, none)}
	end := control.While(start,
		func(p penalizing) *Node { return GreaterOrEqual(ReduceAllMax(p.Repeats), number(0)) },
		func(p penalizing) penalizing {
			most := ReduceMax(p.Repeats, -1)
			isMost := And(Equal(p.Repeats, all(most)), GreaterOrEqual(p.Repeats, ZerosLike(p.Repeats)))
			token := ReduceMax(Where(isMost, next, none), -1)
			some := And(GreaterOrEqual(token, number(0)), LessThan(token, number(size)))
			place := Add(MulScalar(Iota(g, int32Vector(n), 0), float64(size)), Max(token, number(0)))
			old := Gather(p.Logits, InsertAxes(place, -1))
			penalty := Mul(d.Multiplier, power(d.Base, Min(Sub(most, d.Allowed), d.MostPower)))
			place = Where(And(some, Not(d.Breaks(Max(token, number(0))))), place, FillScalar(g, place.Shape(),
				float64(n*size)))
			return penalizing{control.ScatterSet(p.Logits, place, Sub(old, penalty)),
				Where(Equal(next, all(token)), none, p.Repeats)}
		})
	return Reshape(end.Logits, n, size)
}

// power returns base f32[n] to the power of exponents i32[n], not negative, by squaring, so that every backend
// multiplies the same numbers.
func power(base, exponents *Node) *Node {
	g := base.Graph()
	result := OnesLike(base)
	for bit := range 31 {
		isSet := NotEqual(BitwiseAnd(exponents, Scalar(g, dtypes.Int32, 1<<bit)), ZerosLike(exponents))
		result = Where(isSet, Mul(result, base), result)
		base = Mul(base, base)
	}
	return result
}
