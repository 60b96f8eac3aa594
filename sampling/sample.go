package sampling

import (
	"fmt"
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// weightBits is the number of fraction bits of a weight: the most likely token weighs 2^weightBits. The sum over a
// vocabulary of up to 2^22 tokens stays within 62 bits.
const weightBits = 40

// smallestTemperature is the smallest normal float32. Below it the device may flush the temperature to zero, so rows
// below it are greedy.
const smallestTemperature = 0x1p-126

// smallestWeight is the bit pattern of the float32 2^-weightBits: any e below it has weight 0.
var smallestWeight = int32(math.Float32bits(float32(math.Ldexp(1, -weightBits))))

// Params are the sampling parameters of the S rows of a batch. Rows that are not in use may hold anything.
type Params struct {
	// Temperature f32[S] divides the logits; rows at 0 are greedy and ignore the other fields.
	Temperature *Node
	// TopP f32[S]; 1 or more is off.
	TopP *Node
	// MinP f32[S]; 0 or less is off.
	MinP *Node
	// TopK i32[S]; 0 or less, or the vocabulary size or more, is off.
	TopK *Node
	// Key u32[S, 2] is the key of the row's random numbers, see [RequestKey].
	Key *Node
}

// Sample draws one token a row.
//
// logits [S, V] are of any float dtype (computed in float32); -Inf excludes a token. positions i32[S] are the counters
// of the random numbers: the same key and position give the same random number, so use the position of the token to be
// drawn within its own sequence.
//
// It returns tokens i32[S]; logprobs f32[S], log softmax(logits)[token]; and processed f32[S], the log-probability of
// the token among those that temperature and filters left (0 for greedy rows). A row with a NaN, a +Inf, or nothing but
// -Inf among its logits has no distribution: its token is -1 and its log-probabilities are 0.
//
// The results of a row depend on nothing but that row. The package documentation has the formulas.
func Sample(logits *Node, p Params, positions *Node) (tokens, logprobs, processed *Node) {
	if logits.Rank() != 2 || !logits.DType().IsFloat() {
		panic(fmt.Sprintf("sampling.Sample: logits must be float [rows, vocabulary], got %s", logits.Shape()))
	}
	v := newVocabulary(logits)
	valid := v.valid()
	greedy := LessThan(p.Temperature, Scalar(v.g, dtypes.Float32, smallestTemperature))
	e := v.exponentials(p.Temperature, greedy)
	threshold := v.threshold(e, p, greedy)

	// The weights of what is kept, block by block; then the token in its block.
	sums := sumWeights(e, v.wide(threshold))
	total := ReduceSum(sums, -1)
	uniform0, uniform1 := uniformBits(p.Key, positions)
	target := mulHigh(uniform0, uniform1, total)
	target = Where(greedy, ZerosLike(target), target)
	block, target := pick(sums, target)
	blockE := takeRows(e, block)
	inBlock, _ := pick(maskedWeights(blockE, InsertAxes(threshold, -1)), target)

	tokens = Add(Mul(block, Scalar(v.g, dtypes.Int32, v.blockSize)), inBlock)
	tokenLogit := takeElements(takeRows(v.logits, block), inBlock)
	rawSum := ReduceSum(sumWeights(v.rawExponentials(), nil), -1)
	zero := ZerosLike(v.max)
	centred := Sub(tokenLogit, v.max)
	logprobs = Sub(centred, logOfWeight(rawSum))
	temperature := Where(greedy, OnesLike(p.Temperature), p.Temperature)
	processed = Sub(Div(centred, temperature), logOfWeight(total))

	tokens = Where(valid, tokens, Scalar(v.g, dtypes.Int32, -1))
	logprobs = Where(valid, logprobs, zero)
	processed = Where(And(valid, Not(greedy)), processed, zero)
	return tokens, logprobs, processed
}

// vocabulary is a batch of logits cut into blocks of the vocabulary, with the maximum of each row.
type vocabulary struct {
	g            *Graph
	size         int // V, without padding
	rows, blocks int
	blockSize    int
	logits       *Node // f32[S, blocks, blockSize], padded with -Inf
	max          *Node // f32[S]
	topKey       *Node // i32[S], the maximum as an ordered integer, see orderedKey
	topMagnitude *Node // i32[S], the largest magnitude as its bit pattern
}

const (
	infinityBits = 0x7f800000
	signBit      = math.MinInt32
	magnitude    = math.MaxInt32
)

func newVocabulary(logits *Node) *vocabulary {
	g := logits.Graph()
	rows, size := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	blocks, blockSize := blocksOf(size)
	logits = ConvertDType(logits, dtypes.Float32)
	if padding := blocks*blockSize - size; padding > 0 {
		logits = Pad(logits, Scalar(g, dtypes.Float32, math.Inf(-1)), compute.PadAxis{}, compute.PadAxis{End: padding})
	}
	v := &vocabulary{g: g, size: size, rows: rows, blocks: blocks, blockSize: blockSize}
	v.logits = Reshape(logits, rows, blocks, blockSize)

	// As ordered integers: an integer maximum is free of the special cases of NaN, which would make it slow, and
	// tells NaN apart.
	bits := Bitcast(v.logits, dtypes.Int32)
	v.topKey = ReduceMax(ReduceMax(orderedKey(bits), -1), -1)
	v.topMagnitude = ReduceMax(ReduceMax(BitwiseAnd(bits, v.int32(magnitude)), -1), -1)
	v.max = Bitcast(orderedKey(v.topKey), dtypes.Float32)
	return v
}

// blocksOf cuts a vocabulary into blocks: multiples of 64, so that no vector loop has a remainder, and a divisor of the
// size where there is one, so that nothing needs padding.
func blocksOf(size int) (blocks, blockSize int) {
	for blockSize = 1024; blockSize >= 128; blockSize -= 64 {
		if size%blockSize == 0 {
			return size / blockSize, blockSize
		}
	}
	blockSize = 512
	if size <= 512 {
		blockSize = (size + 63) / 64 * 64
	}
	return (size + blockSize - 1) / blockSize, blockSize
}

// orderedKey maps the bit patterns of float32 to integers in the same order, and those back to bit patterns.
func orderedKey(bits *Node) *Node {
	g := bits.Graph()
	negative := BitwiseShiftRightArithmetic(bits, Scalar(g, dtypes.Int32, 31))
	return BitwiseXor(bits, BitwiseAnd(negative, Scalar(g, dtypes.Int32, magnitude)))
}

func (v *vocabulary) int32(x int) *Node { return Scalar(v.g, dtypes.Int32, x) }

// wide turns [S] to [S, 1, 1].
func (v *vocabulary) wide(x *Node) *Node { return Reshape(x, v.rows, 1, 1) }

// valid reports bool[S]: no NaN, no +Inf, and at least one finite logit.
func (v *vocabulary) valid() *Node {
	noNaN := LessOrEqual(v.topMagnitude, v.int32(infinityBits))
	return And(noNaN, And(LessThan(v.topKey, v.int32(infinityBits)), GreaterThan(v.topKey, v.int32(-infinityBits-1))))
}

// exponentials is e of the package documentation, f32[S, blocks, blockSize] in [0, 1]; for greedy rows 1 for the
// largest logit and 0 for the others.
func (v *vocabulary) exponentials(temperature, greedy *Node) *Node {
	temperature = Where(greedy, OnesLike(temperature), temperature)
	wideMax := v.wide(v.max)
	one := Scalar(v.g, dtypes.Float32, 1)
	e := Min(Exp(Div(Sub(v.logits, wideMax), v.wide(temperature))), one)
	e = Where(greedy, ZerosLike(e), e)
	return Where(Equal(v.logits, wideMax), OnesLike(e), e)
}

// rawExponentials is e at temperature 1.
func (v *vocabulary) rawExponentials() *Node {
	return Exp(Sub(v.logits, v.wide(v.max)))
}

// weights turns e into the integer weights i64.
func weights(e *Node) *Node {
	return ConvertDType(Mul(e, Scalar(e.Graph(), dtypes.Float32, 1<<weightBits)), dtypes.Int64)
}

// maskedWeights is weights, with 0 for those below the threshold, which is the bit pattern of an e and of e's rank.
func maskedWeights(e, threshold *Node) *Node {
	w := weights(e)
	kept := GreaterOrEqual(Bitcast(e, dtypes.Int32), threshold)
	return Where(kept, w, ZerosLike(w))
}

// sumWeights sums the weights of each block at or above the threshold (nil: of all): i64[S, blocks].
func sumWeights(e, threshold *Node) *Node {
	if threshold == nil {
		return ReduceSum(weights(e), -1)
	}
	return ReduceSum(maskedWeights(e, threshold), -1)
}

// logOfWeight is the logarithm of a sum of weights, in units of the most likely token's weight: f32.
func logOfWeight(w *Node) *Node {
	return Log(Mul(ConvertDType(w, dtypes.Float32), Scalar(w.Graph(), dtypes.Float32, math.Ldexp(1, -weightBits))))
}
