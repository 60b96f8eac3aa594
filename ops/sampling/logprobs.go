package sampling

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// Logprobs returns how likely one token of each row is under the model's own distribution, and which tokens are the
// likeliest: log softmax(logits), before temperature and filters.
//
// logits [S, V] are of any float dtype (computed in float32). tokens i32[S] are in the vocabulary, or -1 for none:
// its log-probability is 0. counts i32[S] is how many of the likeliest tokens a row wants, at most width; width is 1
// to V. Only the first rows, i32[], of the S rows are wanted: the results of the others are arbitrary.
//
// It returns logprobs f32[S]; and topIDs i32[S, width] and topLogprobs f32[S, width], the likeliest tokens first, of
// equal ones the lowest id first. Places from counts on have the id -1 and the log-probability 0. A row without a
// distribution, see [Sample], has NaN as its log-probabilities and -1 as ids.
//
// The CPU kernel gives a token the same bits as [Sample] does, independent of the other rows. On other backends float32
// sums may differ by rounding.
func Logprobs(logits, tokens, counts, rows *Node, width int) (logprobs, topIDs, topLogprobs *Node) {
	if logits.Rank() != 2 || !logits.DType().IsFloat() {
		panic(fmt.Errorf("sampling.Logprobs: logits must be float [rows, vocabulary], got %s", logits.Shape()))
	}
	size, vocabulary := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	if width < 1 || width > vocabulary || vocabulary > largestVocabulary {
		panic(fmt.Errorf("sampling.Logprobs: %d of %d tokens, want 1 to all of %d at most", width, vocabulary,
			largestVocabulary))
	}
	for name, x := range map[string]*Node{"tokens": tokens, "counts": counts} {
		if !x.Shape().Equal(int32Vector(size)) {
			panic(fmt.Errorf("sampling.Logprobs: %s must be i32[%d] for logits %s, got %s", name, size, logits.Shape(),
				x.Shape()))
		}
	}
	switch logits.DType() {
	case dtypes.Float32, dtypes.BFloat16, dtypes.Float16:
	default:
		logits = ConvertDType(logits, dtypes.Float32)
	}
	out := control.Composite("logprobs", struct{}{}, []*Node{logits, tokens, counts, rows},
		[]shapes.Shape{shapes.Make(dtypes.Float32, size), shapes.Make(dtypes.Int32, size, width),
			shapes.Make(dtypes.Float32, size, width)},
		func(in []*Node) []*Node {
			logprobs, ids, tops := logprobsPlain(in[0], in[1], in[2], width)
			return []*Node{logprobs, ids, tops}
		})
	return out[0], out[1], out[2]
}

func logprobsPlain(logits, tokens, counts *Node, width int) (logprobs, ids, tops *Node) {
	v := newVocabulary(logits)
	rawSum := v.rawSum()
	valid := GreaterThan(rawSum, v.float32(0))
	nan := BroadcastToDims(v.float32(math.NaN()), v.rows)
	token := Min(Max(tokens, ZerosLike(tokens)), v.int32(v.size-1))
	block := Div(token, v.int32(v.block))
	logit := takeElements(takeRows(v.logits, block), Sub(token, Mul(block, v.int32(v.block))))
	logprobs = Where(valid, Sub(Sub(logit, v.max), Log(rawSum)), nan)
	logprobs = Where(LessThan(tokens, ZerosLike(tokens)), ZerosLike(logprobs), logprobs)

	type likeliest struct{ IDs, Logits *Node }
	top := control.If(ReduceLogicalOr(GreaterThan(counts, ZerosLike(counts))),
		func() likeliest {
			ids, logits := v.likeliest(width)
			return likeliest{ids, logits}
		},
		func() likeliest {
			return likeliest{Zeros(v.g, shapes.Make(dtypes.Int32, v.rows, width)),
				Zeros(v.g, shapes.Make(dtypes.Float32, v.rows, width))}
		})
	all := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), v.rows, width) }
	wanted := LessThan(Iota(v.g, top.IDs.Shape(), 1), all(counts))
	ids = Where(LogicalAnd(wanted, all(valid)), top.IDs, v.int32(-1))
	tops = Where(all(valid), Sub(Sub(top.Logits, all(v.max)), all(Log(rawSum))), all(nan))
	return logprobs, ids, Where(wanted, tops, v.float32(0))
}

// likeliest returns the n tokens with the largest logits of each row, in order, and their logits: i32[S, n], f32[S,
// n].
//
// They are all in the n blocks with the largest maxima, if among equal maxima the first block is preferred. So only
// these blocks are sorted, and the maxima of all blocks.
func (v *vocabulary) likeliest(n int) (ids, logits *Node) {
	blocks := v.logits.Shape().Dimensions[1]
	from := v.logits
	first := Mul(Iota(v.g, shapes.Make(dtypes.Int32, v.rows, blocks), 1), v.int32(v.block))
	if blocks > n {
		numbers := Iota(v.g, shapes.Make(dtypes.Int32, v.rows, blocks), 1)
		likely, _ := largest(ReduceMax(v.logits, -1), numbers, n)
		first = Mul(likely, v.int32(v.block))
		row := Mul(Iota(v.g, likely.Shape(), 0), v.int32(blocks))
		from = Gather(Reshape(v.logits, v.rows*blocks, v.block), InsertAxes(Add(likely, row), -1))
	}
	dims := from.Shape().Dimensions
	number := Add(BroadcastToDims(InsertAxes(first, -1), dims...), Iota(v.g, shapes.Make(dtypes.Int32, dims...), 2))
	return largest(Reshape(from, v.rows, dims[1]*dims[2]), Reshape(number, v.rows, dims[1]*dims[2]), n)
}

// largest returns the n largest of x f32[S, M], among equal ones the one with the lowest number first, and their
// numbers i32[S, n].
func largest(x, numbers *Node, n int) (chosen, values *Node) {
	g := x.Graph()
	long := func(value int64) *Node { return Scalar(g, dtypes.Int64, value) }
	// Integers in the order of the floats: the patterns of negative ones are inverted, and -0 becomes 0.
	x = Where(Equal(x, ZerosLike(x)), ZerosLike(x), x)
	turned := func(bits *Node) *Node {
		return Where(LessThan(bits, ZerosLike(bits)), BitwiseXor(bits, Scalar(g, dtypes.Int32, math.MaxInt32)), bits)
	}
	packed := Mul(ConvertDType(turned(Bitcast(x, dtypes.Int32)), dtypes.Int64), long(1<<32))
	packed = Add(packed, Sub(long(math.MaxInt32), ConvertDType(numbers, dtypes.Int64)))
	packed = Slice(Sort(packed, -1, false), AxisRange(), AxisRange(0, n))
	chosen = ConvertDType(Sub(long(math.MaxInt32), BitwiseAnd(packed, long(1<<32-1))), dtypes.Int32)
	bits := ConvertDType(BitwiseShiftRightArithmetic(packed, long(32)), dtypes.Int32)
	return chosen, Bitcast(turned(bits), dtypes.Float32)
}
