package sampling

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/tree"
)

// A weight has 2 * pieceBits fraction bits: the most likely token weighs 2^weightBits. Sums of blockSize upper or
// lower halves of the weights' bits are integers of at most 2^24, which float32 sums represent exactly in any order
// and vector units compute fast. Sums of blocks are 64-bit integers.
const (
	blockSize  = 64
	pieceBits  = 18
	weightBits = 2 * pieceBits
	// On a TPU a block is as wide as the registers, because it would be padded otherwise. Its halves are summed as
	// 32-bit integers.
	blockSizeOfTPU = 128
)

// onTPU reports whether arrays lie in tiles, as on TPUs.
func onTPU(b compute.Backend) bool {
	return backend.Of(b).Lanes > 0
}

// smallestWeight is the bit pattern of the float32 2^-weightBits: any e below it has weight 0.
var smallestWeight = int32(math.Float32bits(float32(math.Ldexp(1, -weightBits))))

// Sample samples one token per row.
//
// logits [S, V] are of any float dtype (computed in float32); -Inf excludes a token. positions i32[S] are the
// counters of the random numbers: the same key and position give the same random number, so use the position of the
// new token within its own sequence. Only the first rows, i32[], of the S rows are wanted: the results of the others
// are arbitrary.
//
// It returns tokens i32[S]; logprobs f32[S], log softmax(logits)[token]; and processed f32[S], the log-probability of
// the token among those that temperature and filters left (0 for greedy rows). A row with a NaN, a +Inf, or only -Inf
// among its logits has no distribution: its token is -1 and its log-probabilities are 0.
//
// The results of a row depend only on that row. A batch with a different number of rows gives the same tokens; its
// logprobs, a float32 sum, may differ by rounding. The package documentation has the formulas.
func Sample(logits *Node, p Params, positions, rows *Node) (tokens, logprobs, processed *Node) {
	checkShapes(logits, p, positions, rows)
	return sample(logits, Masks{}, nil, p, positions, rows)
}

// sample is the composite of that name, or one of the composites for rows with filters, which may be nil, and masks.
func sample(logits *Node, m Masks, f *Filters, p Params, positions, rows *Node) (tokens, logprobs, processed *Node) {
	switch logits.DType() {
	case dtypes.Float32, dtypes.BFloat16, dtypes.Float16:
	default:
		logits = ConvertDType(logits, dtypes.Float32)
	}
	size := logits.Shape().Dimensions[0]
	scores := shapes.Make(dtypes.Float32, size)
	like := operands{Logits: logits, Params: p, Positions: positions, Rows: rows, Filters: f, Masks: m}
	name := "sample"
	if f != nil {
		name += "_filtered"
	}
	if m.Bits != nil {
		name += "_masked"
	}
	results := []shapes.Shape{shapes.Make(dtypes.Int32, size), scores, scores}
	out := control.Composite(name, struct{}{}, tree.Leaves(like), results, func(in []*Node) []*Node {
		o := tree.Rebuild(like, in)
		tokens, logprobs, processed := samplePlain(o.Logits, o.Masks, o.Filters, o.Params, o.Positions)
		return []*Node{tokens, logprobs, processed}
	})
	return out[0], out[1], out[2]
}

// operands are the composite's operands, in order. The kernel in C has the same list: see Q_SAMPLE_PARAMS in
// sampling.h of package cpukernel, and TestOperandsOfTheKernel.
type operands struct {
	Logits *Node
	Params
	Positions, Rows *Node
	Filters         *Filters // nil if no row has any
	Masks           Masks    // Of is nil if no row has any
}

// operandName returns the kernel's name for a field of operands: top_n_sigma for TopNSigma.
func operandName(field string) string {
	var name strings.Builder
	isLower := func(i int) bool { return i < len(field) && unicode.IsLower(rune(field[i])) }
	for i, r := range field {
		if i > 0 && unicode.IsUpper(r) && (isLower(i-1) || isLower(i+1)) {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

func samplePlain(logits *Node, m Masks, f *Filters, p Params, positions *Node) (tokens, logprobs, processed *Node) {
	v := newVocabulary(logits)
	rawSum, rawMax := v.rawSum(), v.max
	valid := GreaterThan(rawSum, v.float32(0))
	if m.Bits != nil {
		logits = m.through(logits)
		v = newVocabulary(logits)
		valid = And(valid, GreaterThan(v.max, v.float32(math.Inf(-1))))
	}
	if f != nil {
		logits, p = Filter(logits, p, *f, positions)
		v = newVocabulary(logits)
	}
	greedy := LessThan(p.Temperature, v.float32(parameter.SmallestTemperature))
	temperature := Where(greedy, OnesLike(p.Temperature), p.Temperature)
	e := v.exponentials(v.logits, temperature, greedy)
	threshold := v.threshold(func() *Node {
		if onTPU(v.g.Backend()) { // e is recomputed below, and is not written to memory unless a row is searched
			return v.exponentials(v.logits, temperature, greedy)
		}
		return e
	}, p, greedy)

	// Sum the weights of kept tokens by block; then find the token in its block.
	sums := sumWeightsFrom(e, wide(threshold))
	total := ReduceSum(sums, -1)
	uniform0, uniform1 := uniformBits(p.Key, positions)
	target := mulHigh(uniform0, uniform1, total)
	target = Where(greedy, ZerosLike(target), target)
	block, target := pick(sums, target)
	ofBlock := takeRows(v.logits, block)
	eOfBlock := v.ofBlock(e, block, ofBlock, temperature, greedy)
	inBlock, _ := pick(weights(masked(eOfBlock, InsertAxes(threshold, -1))), target)
	tokens = Add(Mul(block, v.int32(v.block)), inBlock)

	zero := ZerosLike(v.max)
	chosen := takeElements(ofBlock, inBlock)
	centred := Sub(chosen, v.max)
	logprobs = Sub(Sub(chosen, rawMax), Log(rawSum))
	processed = Sub(Div(centred, temperature), logOfWeight(total))
	tokens = Where(valid, tokens, v.int32(-1))
	logprobs = Where(valid, logprobs, zero)
	processed = Where(And(valid, Not(greedy)), processed, zero)
	return tokens, logprobs, processed
}

// largestVocabulary keeps the sums of weights within 62 bits, and counts of tokens exact in float32.
const largestVocabulary = 1 << 22

func checkShapes(logits *Node, p Params, positions, rows *Node) {
	if logits.Rank() != 2 || !logits.DType().IsFloat() {
		panic(fmt.Errorf("sampling.Sample: logits must be float [rows, vocabulary], got %s", logits.Shape()))
	}
	n, size := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	if size > largestVocabulary {
		panic(fmt.Errorf("sampling.Sample: a vocabulary of %d tokens is more than the %d that weights are exact for",
			size, largestVocabulary))
	}
	check := func(name string, node *Node, want shapes.Shape) {
		if !node.Shape().Equal(want) {
			panic(fmt.Errorf("sampling.Sample: %s must be %s for logits %s, got %s", name, want, logits.Shape(),
				node.Shape()))
		}
	}
	host, params := tree.Make[Rows](n), tree.Leaves(p)
	for i, a := range tree.Arrays(&host) {
		check(operandName(a.Name), params[i], a.Shape)
	}
	check("positions", positions, shapes.Make(dtypes.Int32, n))
	check("rows", rows, shapes.Make(dtypes.Int32))
}

// vocabulary is a batch of logits divided into blocks of the vocabulary, with the maximum of each row.
type vocabulary struct {
	g      *Graph
	rows   int
	size   int   // V, without padding
	block  int   // size of a block in tokens
	logits *Node // f32[S, blocks, block], padded with -Inf
	max    *Node // f32[S]
}

func newVocabulary(logits *Node) *vocabulary {
	g := logits.Graph()
	v := &vocabulary{g: g, rows: logits.Shape().Dimensions[0], size: logits.Shape().Dimensions[1], block: blockSize}
	if onTPU(g.Backend()) {
		v.block = blockSizeOfTPU
	}
	logits = ConvertDType(logits, dtypes.Float32)
	blocks := (v.size + v.block - 1) / v.block
	if padding := blocks*v.block - v.size; padding > 0 {
		logits = Pad(logits, Scalar(g, dtypes.Float32, math.Inf(-1)), compute.PadAxis{}, compute.PadAxis{End: padding})
	}
	v.logits = Reshape(logits, v.rows, blocks, v.block)
	v.max = ReduceMax(ReduceMax(v.logits, -1), -1)
	return v
}

func (v *vocabulary) int32(x int) *Node { return Scalar(v.g, dtypes.Int32, x) }

func (v *vocabulary) float32(x float64) *Node { return Scalar(v.g, dtypes.Float32, x) }

// wide reshapes [S] to [S, 1, 1].
func wide(x *Node) *Node { return Reshape(x, x.Shape().Dimensions[0], 1, 1) }

// exponentials returns e of the package documentation, f32 in the shape of logits [S, ...], in [0, 1]; for greedy
// rows 1 for the largest logit and 0 for the others.
func (v *vocabulary) exponentials(logits, temperature, greedy *Node) *Node {
	each := func(x *Node) *Node {
		for x.Rank() < logits.Rank() {
			x = InsertAxes(x, -1)
		}
		return x
	}
	largest := each(v.max)
	e := Min(Exp(Div(Sub(logits, largest), each(temperature))), v.float32(1))
	e = Where(greedy, ZerosLike(e), e)
	return Where(Equal(logits, largest), OnesLike(e), e)
}

// ofBlock returns e of one block of each row, f32[S, block], given the block's logits. On a TPU it recomputes the
// same bits, because taking blocks from e would store all of e in a different memory order.
func (v *vocabulary) ofBlock(e, block, logits, temperature, greedy *Node) *Node {
	if onTPU(v.g.Backend()) {
		return v.exponentials(logits, temperature, greedy)
	}
	return takeRows(e, block)
}

// rawSum returns the sum of exp(l - max) over the row, f32[S]. It is NaN for rows without a distribution: they have a
// NaN (whatever the maximum made of it), or a difference of two infinities.
func (v *vocabulary) rawSum() *Node {
	return ReduceSum(ReduceSum(Exp(Sub(v.logits, wide(v.max))), -1), -1)
}

// pieces returns the upper and the lower bits of the weights of e, as integers of at most 2^pieceBits: f32 in e's
// shape. All operations are exact.
func pieces(e *Node) (upper, lower *Node) {
	scale := Scalar(e.Graph(), dtypes.Float32, 1<<pieceBits)
	scaled := Mul(e, scale)
	upper = Floor(scaled)
	return upper, Floor(Mul(Sub(scaled, upper), scale))
}

// joined combines upper and lower bits to i64 numbers.
func joined(upper, lower *Node) *Node {
	upper, lower = ConvertDType(upper, dtypes.Int64), ConvertDType(lower, dtypes.Int64)
	return Add(Mul(upper, Scalar(upper.Graph(), dtypes.Int64, 1<<pieceBits)), lower)
}

// weights converts e to the integer weights, i64.
func weights(e *Node) *Node { return joined(pieces(e)) }

// masked returns e if it is at or above the threshold, else 0; threshold is f32 with e's rank.
func masked(e, threshold *Node) *Node {
	return Where(GreaterOrEqual(e, threshold), e, ZerosLike(e))
}

// sumWeights returns the sum of the weights of each block of e [S, blocks, block]: i64[S, blocks].
func sumWeights(e *Node) *Node { return sumPieces(pieces(e)) }

// sumWeightsFrom is sumWeights over the elements at or above a threshold f32[S, 1, 1].
func sumWeightsFrom(e, threshold *Node) *Node {
	kept := GreaterOrEqual(e, threshold)
	upper, lower := pieces(e)
	return sumPieces(Where(kept, upper, ZerosLike(upper)), Where(kept, lower, ZerosLike(lower)))
}

func sumPieces(upper, lower *Node) *Node {
	if upper.Shape().Dim(-1) > blockSize {
		upper, lower = ConvertDType(upper, dtypes.Int32), ConvertDType(lower, dtypes.Int32)
	}
	return joined(ReduceSum(upper, -1), ReduceSum(lower, -1))
}

// logOfWeight returns the logarithm of a sum of weights, in units of the most likely token's weight: f32.
func logOfWeight(w *Node) *Node {
	return Log(Mul(ConvertDType(w, dtypes.Float32), Scalar(w.Graph(), dtypes.Float32, math.Ldexp(1, -weightBits))))
}
