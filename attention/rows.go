package attention

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// Rows are sequences of which all tokens stand one after the other in arrays of T tokens, without a cache.
type Rows struct {
	Firsts, Lens *Node // i32[R]: a row's first token, and how many it has
	Count        *Node // i32[]: how many rows there are, the first ones
	// TokenRows and Positions, i32[T], are a token's row and its position there; -1 for padding.
	TokenRows, Positions *Node
}

// Bias is what is added to the scores of each head, by the distance of the key from the query.
type Bias struct {
	// Scores is f32[H, W]: column Zero is of distance 0, and keys after the query follow. W is at least 2*Zero + 1 +
	// BiasPadding, and no position is above Zero.
	Scores *Node
	Zero   int
}

// BiasPadding is how many columns of [Bias].Scores follow the last distance. A kernel reads them, but does not use them.
const BiasPadding = 32

// rowOptions are the attributes of composite "row_attention".
type rowOptions struct {
	Scale   float64 `json:"scale"`
	SoftCap float64 `json:"soft_cap"`
	Window  int     `json:"window"`
	Ahead   int     `json:"ahead"`
	Zero    int     `json:"zero"`
}

// Attend lets each token attend to tokens of its row: to [Options].Window of them up to itself, and to Ahead after it.
//
// q is [T, H, D], k and v are [T, KVH, D]. The result is [T, H, D] of q's dtype; rows of padding are 0. Scores, softmax
// and sums are in float32. bias may be nil. A token's result depends on its row alone.
func (r Rows) Attend(q, k, v *Node, opts Options, bias *Bias) *Node {
	if opts.Sinks != nil {
		panic(fmt.Errorf("attention: whole rows have no form with sinks"))
	}
	inputs := []*Node{q, k, v, r.TokenRows, r.Positions, r.Firsts, r.Lens, r.Count}
	attrs := rowOptions{Scale: opts.Scale, SoftCap: opts.SoftCap, Window: opts.Window, Ahead: opts.Ahead}
	if bias != nil {
		inputs, attrs.Zero = append(inputs, bias.Scores), bias.Zero
	}
	plain := func(in []*Node) []*Node {
		rows := Rows{TokenRows: in[3], Positions: in[4], Firsts: in[5], Lens: in[6], Count: in[7]}
		var b *Bias
		if bias != nil {
			b = &Bias{Scores: in[8], Zero: bias.Zero}
		}
		return []*Node{rows.attend(in[0], in[1], in[2], opts, b)}
	}
	return control.Composite("row_attention", attrs, inputs, []shapes.Shape{q.Shape()}, plain)[0]
}

// attend is the plain form: for each row, for each block of its queries, block by block of its keys.
func (r Rows) attend(q, k, v *Node, opts Options, bias *Bias) *Node {
	g, dims := q.Graph(), q.Shape().Dimensions
	t, heads, dim := dims[0], dims[1], dims[2]
	l := Layout{KVHeads: k.Shape().Dimensions[1], HeadDim: dim, DType: q.DType()}
	group := heads / l.KVHeads
	const size = prefillBlock

	type work struct{ Row, Done, Out *Node }
	end := control.While(work{Row: zero(g), Done: zero(g), Out: Zeros(g, shapes.Make(q.DType(), dims...))},
		func(w work) *Node { return LessThan(w.Row, r.Count) },
		func(w work) work {
			first, length := takeRows(r.Firsts, w.Row), takeRows(r.Lens, w.Row)
			positions := Add(w.Done, Iota(g, shapes.Make(dtypes.Int32, queryBlock), 0))
			valid := LessThan(positions, length)
			tokens := Min(Add(first, positions), scalar(g, t-1))
			o := opts
			// The sum does not overflow: Ahead may be the largest number that there is.
			after := Min(SubScalar(Sub(length, positions), 1), scalar(g, min(opts.Ahead, t)))
			ends := Where(valid, Add(AddScalar(positions, 1), after), ZerosLike(positions))
			firstBlock := zero(g)
			if opts.Window > 0 {
				starts := Max(SubScalar(positions, float64(opts.Window-1)), zero(g))
				firstBlock = div(takeRows(starts, zero(g)), size)
				o.starts = Reshape(BroadcastPrefix(starts, group), 1, group*queryBlock)
			}
			if bias != nil {
				o.addend = func(keys *Node) *Node { // keys are i32[1, 1, 1, size]
					distances := Sub(Reshape(keys, 1, size), InsertAxes(positions, -1))
					columns := Max(AddScalar(distances, float64(bias.Zero)), zero(g))
					columns = Min(columns, scalar(g, bias.Scores.Shape().Dimensions[1]-1))
					b := Gather(TransposeAllAxes(bias.Scores, 1, 0), InsertAxes(columns, -1)) // [BQ, size, H]
					return Reshape(TransposeAllAxes(b, 2, 0, 1), 1, l.KVHeads, group*queryBlock, size)
				}
			}
			// [BQ, H, D] -> [1, KVH, group*BQ, D], so that a KV head's queries are one matrix.
			block := Reshape(takeRows(q, tokens), queryBlock, l.KVHeads, group, dim)
			block = Reshape(TransposeAllAxes(block, 1, 2, 0, 3), 1, l.KVHeads, group*queryBlock, dim)
			last := ceilDiv(ReduceAllMax(ends), size)
			out := l.online(block, Reshape(BroadcastPrefix(ends, group), 1, group*queryBlock), firstBlock, last, size, o,
				func(b *Node) (keys, values vectors) {
					at := Add(MulScalar(b, float64(size)), Iota(g, shapes.Make(dtypes.Int32, size), 0))
					mine := InsertAxes(LessThan(at, length), -1, -1) // what follows may be anything
					tokens := Min(Add(first, at), scalar(g, t-1))
					read := func(x *Node) vectors {
						x = takeRows(x, tokens)
						x = Where(BroadcastToDims(mine, x.Shape().Dimensions...), x, ZerosLike(x))
						return vectors{numbers: InsertAxes(TransposeAllAxes(x, 1, 0, 2), 0)}
					}
					return read(k), read(v)
				})
			out = TransposeAllAxes(Reshape(out, l.KVHeads, group, queryBlock, dim), 2, 0, 1, 3)
			out = ConvertDType(Reshape(out, queryBlock, heads, dim), q.DType())
			done := AddScalar(w.Done, queryBlock)
			more := LessThan(done, length)
			return work{
				Row:  Where(more, w.Row, AddScalar(w.Row, 1)),
				Done: Where(more, done, ZerosLike(done)),
				Out:  control.ScatterSet(w.Out, Where(valid, tokens, FillScalar(g, tokens.Shape(), float64(t))), out),
			}
		})
	return end.Out
}
