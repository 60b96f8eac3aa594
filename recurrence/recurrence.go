// Package recurrence has the layers that keep a state of fixed size of a sequence, in place of the keys and values of
// its tokens.
//
// A cache holds one layer: an array f32[P, numbers] with a state for each page, that behind the last token that
// was run of those in the page (see attention.Layout.StateLayout). A step takes each sequence's state from the page of
// the token before its first one, and leaves states in all pages that it has tokens in. So a prompt may be cut into
// steps anywhere, and whoever shares, copies or moves pages has the states with them. Only the state behind the last
// token of a page is there: a sequence that is cut elsewhere runs the tokens of its last page again.
package recurrence

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/tokenqueue"
)

// Rows says whose tokens a step has, and where their states are.
type Rows struct {
	From    *Node // i32[B]: the page with the state that a sequence begins with; -1: zeros
	To      *Node // i32[T]: the page that has the state behind a token; P or more: it is not kept
	CuQLens *Node // i32[B+1]: sequence b's tokens are those from CuQLens[b] up to CuQLens[b+1]
	NumSeqs *Node // i32[]
	Seqs    *Node // i32[T]: the sequence of each token; -1: padding
}

// RowsOf are those of a step, of which a table of pages has given each token its place.
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
	goesOn := LogicalAnd(LessThan(index, batch.NumSeqs), GreaterThan(begins, zero(g)))

	pages := Div(batch.NewTokenDests, size)
	next := SliceAxis(pages, 0, AxisElem(0))
	if next = AddScalar(ZerosLike(next), -1); tokens > 1 {
		next = Concatenate([]*Node{SliceAxis(pages, 0, AxisRangeToEnd(1)), next}, 0)
	}
	nowhere := FillScalar(g, pages.Shape(), noPage)
	return Rows{
		From: Where(goesOn, from, FillScalar(g, from.Shape(), -1)), To: Where(NotEqual(pages, next), pages, nowhere),
		CuQLens: batch.CuQLens, NumSeqs: batch.NumSeqs, Seqs: batch.TokenSeqs,
	}
}

// One are the rows of a step that is a whole sequence of n tokens, from its begin. No state is kept.
func One(g *Graph, n int) Rows {
	return Rows{From: FillScalar(g, i32(1), -1), To: FillScalar(g, i32(n), noPage),
		CuQLens: MulScalar(Iota(g, i32(2), 0), float64(n)), NumSeqs: scalar(g, 1), Seqs: Zeros(g, i32(n))}
}

// noPage is larger than any number of a page.
const noPage = 1 << 30

// in are the rows as inputs of a composite, and ofInputs what they are there.
func (r Rows) in() []*Node { return []*Node{r.From, r.To, r.CuQLens, r.NumSeqs, r.Seqs} }

func ofInputs(in []*Node) Rows {
	return Rows{From: in[0], To: in[1], CuQLens: in[2], NumSeqs: in[3], Seqs: in[4]}
}

// back is how many tokens of its sequence stand before each one in the step, i32[T].
func (r Rows) back() *Node {
	return Sub(Iota(r.Seqs.Graph(), r.Seqs.Shape(), 0), take(r.CuQLens, r.Seqs))
}

// begin is the state with which each sequence begins the step, f32[B, numbers].
func (r Rows) begin(cache *Node) *Node {
	states := take(cache, r.From)
	is := BroadcastToDims(InsertAxes(GreaterOrEqual(r.From, ZerosLike(r.From)), -1), states.Shape().Dimensions...)
	return Where(is, states, ZerosLike(states))
}

// eachToken goes through the tokens of the sequences, one of each at a time, so that a token's result does not depend
// on how a prompt was cut. token is given what in, [T, ...] each, have of B tokens, and the states before them
// [B, numbers]; it makes outputs f32[B, n] and the states behind them. first, [T, ...], is what else is kept of each
// token, in front of these states. The results are f32[T, n] and the cache behind the step.
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
			is := LessThan(BroadcastToDims(s.At, sequences), counts)
			at := Min(Add(begins, s.At), scalar(g, tokens-1))
			numbers := make([]*Node, len(in))
			for i, x := range in {
				numbers[i] = take(x, at)
			}
			out, states := token(numbers, s.States)
			keep := Concatenate([]*Node{take(first, at), states}, 1)
			nowhere := FillScalar(g, at.Shape(), noPage)
			s.Cache = control.ScatterSet(s.Cache, Where(is, take(r.To, at), nowhere), keep)
			s.Out = control.ScatterSet(s.Out, Where(is, at, nowhere), out)
			return scan{AddScalar(s.At, 1), states, s.Cache, s.Out}
		})
	return end.Out, end.Cache
}

// take returns rows of x by int32 indices; negative ones read row 0.
func take(x, indices *Node) *Node {
	return Gather(x, InsertAxes(Max(indices, zero(x.Graph())), -1))
}

func i32(dims ...int) shapes.Shape     { return shapes.Make(dtypes.Int32, dims...) }
func zero(g *Graph) *Node              { return Scalar(g, dtypes.Int32, 0) }
func scalar(g *Graph, value int) *Node { return Scalar(g, dtypes.Int32, float64(value)) }
