// Package recurrence provides the layers that keep a state of fixed size for a sequence, in place of the keys and
// values of its tokens.
//
// A cache is for one layer: an array f32[P, numbers] with a state for each page, namely the state after the last
// token in the page that was run (see attention.Layout.StateLayout). A step takes each sequence's state from the page
// of the token before its first one, and writes states to all pages in which it has tokens. So a prompt may be cut
// into steps anywhere, and code that shares, copies or moves pages handles the states, too. Only the state after the
// last token of a page exists: a sequence that is cut elsewhere runs the tokens of its last page again.
package recurrence

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/tokenqueue"
)

// Rows describes the sequences of a step's tokens, and the places of their states.
type Rows struct {
	From    *Node // i32[B]: the page with the state that a sequence starts with; -1: zeros
	To      *Node // i32[T]: the page for the state after a token; P or more: it is not kept
	CuQLens *Node // i32[B+1]: sequence b's tokens are CuQLens[b] up to, but not including, CuQLens[b+1]
	NumSeqs *Node // i32[]
	Seqs    *Node // i32[T]: the sequence of each token; -1: padding
}

// RowsOf returns the rows of a step whose tokens have places in a table of pages.
func RowsOf(batch tokenqueue.PageBatchInfo) Rows {
	g := batch.CuQLens.Graph()
	size := scalar(g, batch.PageSize)
	tokens, b := batch.PosIDs.Shape().Dimensions[0], batch.SeqLens.Shape().Dimensions[0]
	firsts := Min(SliceAxis(batch.CuQLens, 0, AxisRangeFromStart(b)), scalar(g, tokens-1))
	begins := take(batch.PosIDs, firsts)
	perSeq := batch.PageIndices.Shape().Dimensions[1]
	last := Min(Div(Max(SubScalar(begins, 1), zero(g)), size), scalar(g, perSeq-1))
	index := Iota(g, begins.Shape(), 0)
	from := take(Reshape(batch.PageIndices, b*perSeq), Add(MulScalar(index, float64(perSeq)), last))
	continues := LogicalAnd(LessThan(index, batch.NumSeqs), GreaterThan(begins, zero(g)))

	pages := Div(batch.NewTokenDests, size)
	next := SliceAxis(pages, 0, AxisElem(0))
	if next = AddScalar(ZerosLike(next), -1); tokens > 1 {
		next = Concatenate([]*Node{SliceAxis(pages, 0, AxisRangeToEnd(1)), next}, 0)
	}
	nowhere := FillScalar(g, pages.Shape(), noPage)
	return Rows{
		From: Where(continues, from, FillScalar(g, from.Shape(), -1)), To: Where(NotEqual(pages, next), pages, nowhere),
		CuQLens: batch.CuQLens, NumSeqs: batch.NumSeqs, Seqs: batch.TokenSeqs,
	}
}

// One returns the rows of a step that is a whole sequence of n tokens, from its start. No state is kept.
func One(g *Graph, n int) Rows {
	return Rows{From: FillScalar(g, i32(1), -1), To: FillScalar(g, i32(n), noPage),
		CuQLens: MulScalar(Iota(g, i32(2), 0), float64(n)), NumSeqs: scalar(g, 1), Seqs: Zeros(g, i32(n))}
}

// noPage is larger than any page number.
const noPage = 1 << 30

// in returns the rows as inputs of a composite; ofInputs is the inverse.
func (r Rows) in() []*Node { return []*Node{r.From, r.To, r.CuQLens, r.NumSeqs, r.Seqs} }

func ofInputs(in []*Node) Rows {
	return Rows{From: in[0], To: in[1], CuQLens: in[2], NumSeqs: in[3], Seqs: in[4]}
}

// back returns how many tokens of its sequence precede each token in the step, i32[T].
func (r Rows) back() *Node {
	return Sub(Iota(r.Seqs.Graph(), r.Seqs.Shape(), 0), take(r.CuQLens, r.Seqs))
}

// begin returns the state with which each sequence starts the step, f32[B, numbers].
func (r Rows) begin(cache *Node) *Node {
	states := take(cache, r.From)
	continues := BroadcastToDims(InsertAxes(GreaterOrEqual(r.From, ZerosLike(r.From)), -1),
		states.Shape().Dimensions...)
	return Where(continues, states, ZerosLike(states))
}

// eachToken processes the tokens of the sequences, one token of each at a time, so that a token's result does not
// depend on how a prompt was cut. token gets the elements of in, [T, ...] each, for B tokens, and the states before
// them [B, numbers]; it returns outputs f32[B, n] and the states after them. first, [T, ...], is what else is kept
// for each token, in front of these states. The results are f32[T, n] and the cache after the step.
func (r Rows) eachToken(cache, states *Node, in []*Node, first *Node, n int,
	token func(in []*Node, states *Node) (out, after *Node)) (out, after *Node) {
	g := cache.Graph()
	tokens, sequences := r.Seqs.Shape().Dimensions[0], r.From.Shape().Dimensions[0]
	begins := SliceAxis(r.CuQLens, 0, AxisRangeFromStart(sequences))
	counts := Sub(SliceAxis(r.CuQLens, 0, AxisRangeToEnd(1)), begins)
	counts = Where(LessThan(Iota(g, counts.Shape(), 0), r.NumSeqs), counts, ZerosLike(counts))
	most := ReduceAllMax(counts)
	type scan struct{ At, States, Cache, Out *Node }
	end := control.While(
		scan{zero(g), states, cache, Zeros(g, shapes.Make(dtypes.Float32, tokens, n))},
		func(s scan) *Node { return LessThan(s.At, most) },
		func(s scan) scan {
			isToken := LessThan(BroadcastToDims(s.At, sequences), counts)
			clamped := Min(Add(begins, s.At), scalar(g, tokens-1))
			numbers := make([]*Node, len(in))
			for i, x := range in {
				numbers[i] = take(x, clamped)
			}
			out, states := token(numbers, s.States)
			keep := Concatenate([]*Node{take(first, clamped), states}, 1)
			nowhere := FillScalar(g, clamped.Shape(), noPage)
			s.Cache = control.ScatterSet(s.Cache, Where(isToken, take(r.To, clamped), nowhere), keep)
			s.Out = control.ScatterSet(s.Out, Where(isToken, clamped, nowhere), out)
			return scan{AddScalar(s.At, 1), states, s.Cache, s.Out}
		})
	return end.Out, end.Cache
}

// take returns rows of x by int32 indices; negative indices read row 0.
func take(x, indices *Node) *Node {
	return Gather(x, InsertAxes(Max(indices, zero(x.Graph())), -1))
}

func i32(dims ...int) shapes.Shape     { return shapes.Make(dtypes.Int32, dims...) }
func zero(g *Graph) *Node              { return Scalar(g, dtypes.Int32, 0) }
func scalar(g *Graph, value int) *Node { return Scalar(g, dtypes.Int32, float64(value)) }
