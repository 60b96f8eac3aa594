package attention

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/tokenqueue"
)

// Options are an attention layer's, fixed when its graph is built.
type Options struct {
	// Scale multiplies q.k; 1/sqrt(head_dim) in most models.
	Scale float64
	// Window is how many positions back a token sees, itself counted; 0 for all.
	Window int
	// Ahead is how many tokens after itself a token sees: only in [Rows].
	Ahead int
	// SoftCap squashes scores to cap*tanh(score/cap); 0 for none.
	SoftCap float64
	// Sinks f32[H] are one more score of each query head, whose value is zeros: they take a share of the softmax. nil
	// for none.
	Sinks *Node
	// OneTokenPerSeq reports whether token t is the only one of sequence t of the batch: the decode form, batched over
	// sequences.
	OneTokenPerSeq bool
	// Mask hides positions from tokens, in addition to Window: i32[T, W]. Token t sees position p if bit p%32 of its
	// word p/32 is set. W words are enough for the longest sequence. nil hides none. With a mask attention has its
	// plain form, for prompts only.
	Mask *Node

	// Of the plain form: the first positions that rows see, as ends in online, in place of those that Window gives; and
	// what is added to scores, for keys at positions i32[1, 1, 1, size].
	starts *Node
	addend func(positions *Node) *Node
	sees   func(positions *Node) *Node // bool[1, 1, M, size], of a mask
}

// Sizes of the blocks of context and of queries. They are part of what a token's result depends on, so that they are
// the same for all page sizes up to 32; a larger page is a block of its own.
const (
	decodeBlock  = 32
	prefillBlock = 64
	queryBlock   = 32
)

// blockSize returns the tokens of context read at a time: a multiple of the page.
func (l Layout) blockSize(want int) int {
	if !l.Paged || want%l.PageSize == 0 {
		return want
	}
	return (want + l.PageSize - 1) / l.PageSize * l.PageSize
}

// PlainBlocks returns how many tokens of the context attention without a kernel reads at a time, to decode and for
// prompts, with pages of this size; and how many tokens of a prompt attend at a time.
func PlainBlocks(pageSize int) (decode, prefill, queries int) {
	l := Layout{Paged: true, PageSize: pageSize}
	return l.blockSize(decodeBlock), l.blockSize(prefillBlock), queryBlock
}

// RaggedPagedAttention lets each new token attend to its sequence up to and with its own position.
//
// q is [T, H, D], tokens sorted by sequence as in batch; the keys and values of the new tokens are in cache already
// (see [Layout.Update]). The result is [T, H, D] of q's dtype; rows of padding are 0. H is a multiple of KVH. Scores,
// softmax and sums are in float32.
func (l Layout) RaggedPagedAttention(q, cache *Node, batch tokenqueue.PageBatchInfo, opts Options) *Node {
	heads := q.Shape().Dimensions[1]
	if opts.Ahead > 0 {
		panic(fmt.Errorf("attention: a cache has no tokens after the last one, and a token sees %d", opts.Ahead))
	}
	if heads%l.KVHeads != 0 {
		panic(fmt.Errorf("attention: %d heads are no multiple of %d KV heads", heads, l.KVHeads))
	}
	plain := func(in []*Node) []*Node {
		q, cache, batch := in[0], in[1], batch
		batch.SlotIDs, batch.PageIndices, batch.SeqLens, batch.CuQLens, batch.NumSeqs, batch.TokenSeqs,
			batch.PosIDs = in[2], in[3], in[4], in[5], in[6], in[7], in[8]
		opts := opts
		if opts.Sinks != nil {
			opts.Sinks = in[9]
		}
		if opts.OneTokenPerSeq {
			return []*Node{l.decode(q, cache, batch, opts)}
		}
		return []*Node{l.prefill(q, cache, batch, opts)}
	}
	inputs := []*Node{q, cache, batch.SlotIDs, batch.PageIndices, batch.SeqLens, batch.CuQLens, batch.NumSeqs,
		batch.TokenSeqs, batch.PosIDs}
	if opts.Sinks != nil {
		inputs = append(inputs, opts.Sinks)
	}
	switch {
	case opts.Mask == nil:
	case opts.OneTokenPerSeq:
		panic(fmt.Errorf("attention: a mask has no form for decoding"))
	case l.Packed > 0: // or a TPU's compiler copies the cache for the gathers of the plain form
		pages := batch.PageIndices.Shape()
		inputs[1] = l.ReadPages(cache, Reshape(batch.PageIndices, pages.Size()))
		inputs[3] = Reshape(Iota(q.Graph(), shapes.Make(dtypes.Int32, pages.Size()), 0), pages.Dimensions...)
		l.Pages = pages.Size()
	}
	if q.DType() == dtypes.Float64 || opts.Mask != nil {
		return plain(inputs)[0]
	}
	attrs := kernelOptions{Scale: opts.Scale, SoftCap: opts.SoftCap, Window: opts.Window, Paged: l.Paged,
		ByHead: l.ByHead}
	op := attentionOp
	if l.Shared {
		op = "latent_attention"
	}
	return l.composite(op, attrs, inputs, q.Shape(), plain)
}

// kernelOptions are the attributes of composite "ragged_paged_attention", or of "latent_attention", which is the same
// on a cache whose values are keys. Decode and prefill are one there: a backend's
// form finds from the batch which it is.
type kernelOptions struct {
	Scale   float64 `json:"scale"`
	SoftCap float64 `json:"soft_cap"`
	Window  int     `json:"window"`
	Paged   bool    `json:"paged"`
	ByHead  bool    `json:"by_head"`
}

// decode attends with one token a sequence, all sequences at once, block by block to the end of the longest.
func (l Layout) decode(q, cache *Node, batch tokenqueue.PageBatchInfo, opts Options) *Node {
	g := q.Graph()
	dims := q.Shape().Dimensions
	t, group := dims[0], dims[1]/l.KVHeads
	size := l.blockSize(decodeBlock)
	live := GreaterOrEqual(batch.TokenSeqs, zero(g))
	ends := Where(live, AddScalar(batch.PosIDs, 1), ZerosLike(batch.PosIDs))
	last := ReduceAllMax(ends)
	first := zero(g)
	if opts.Window > 0 {
		far := FillScalar(g, ends.Shape(), math.MaxInt32)
		start := ReduceAllMin(Where(live, Max(SubScalar(ends, float64(opts.Window)), zero(g)), far))
		first = div(Min(start, last), size)
	}
	if opts.Sinks != nil {
		opts.Sinks = Reshape(opts.Sinks, 1, l.KVHeads, group)
	}
	out := l.online(Reshape(q, t, l.KVHeads, group, l.HeadDim), InsertAxes(ends, 1), first, ceilDiv(last, size), size,
		opts,
		func(block *Node) (k, v vectors) {
			return l.block(cache, batch.SlotIDs, batch.PageIndices, block, size, l.format().products(q.DType()))
		})
	return ConvertDType(Reshape(out, dims...), q.DType())
}

// prefill attends with many tokens of few sequences: for each sequence, for each block of its queries, block by block
// of its context.
func (l Layout) prefill(q, cache *Node, batch tokenqueue.PageBatchInfo, opts Options) *Node {
	g := q.Graph()
	dims := q.Shape().Dimensions
	t, heads, group := dims[0], dims[1], dims[1]/l.KVHeads
	size := l.blockSize(prefillBlock)
	perSeq := batch.PageIndices.Shape().Dimensions[1]
	if opts.Sinks != nil { // for the rows of a block
		opts.Sinks = Reshape(BroadcastToDims(Reshape(opts.Sinks, l.KVHeads, group, 1), l.KVHeads, group, queryBlock), 1,
			l.KVHeads, group*queryBlock)
	}

	// One flat loop over (sequence, query block): Done counts the finished queries of Seq.
	type work struct{ Seq, Done, Out *Node }
	end := control.While(work{Seq: zero(g), Done: zero(g), Out: Zeros(g, shapes.Make(q.DType(), dims...))},
		func(w work) *Node { return LessThan(w.Seq, batch.NumSeqs) },
		func(w work) work {
			start := Add(takeRows(batch.CuQLens, w.Seq), w.Done)
			limit := takeRows(batch.CuQLens, AddScalar(w.Seq, 1))
			rows := Add(start, Iota(g, shapes.Make(dtypes.Int32, queryBlock), 0))
			valid := LessThan(rows, limit)
			rows = Where(valid, rows, FillScalar(g, rows.Shape(), float64(t)))
			inside := Min(rows, scalar(g, t-1))
			ends := Where(valid, AddScalar(takeRows(batch.PosIDs, inside), 1), ZerosLike(rows))
			last := ReduceAllMax(ends)
			first := zero(g)
			if opts.Window > 0 {
				first = div(Max(SubScalar(AddScalar(takeRows(batch.PosIDs, Min(start, scalar(g, t-1))), 1),
					float64(opts.Window)), zero(g)), size)
			}
			slot := Reshape(takeRows(batch.SlotIDs, w.Seq), 1)
			pages := Reshape(takeRows(batch.PageIndices, w.Seq), 1, perSeq)
			// [BQ, H, D] -> [1, KVH, group*BQ, D], so that a KV head's queries are one matrix.
			block := Reshape(takeRows(q, inside), queryBlock, l.KVHeads, group, l.HeadDim)
			block = Reshape(TransposeAllAxes(block, 1, 2, 0, 3), 1, l.KVHeads, group*queryBlock, l.HeadDim)
			rowEnds := Reshape(BroadcastPrefix(ends, group), 1, group*queryBlock)
			o := opts
			if opts.Mask != nil {
				words := takeRows(opts.Mask, inside)
				o.sees = func(positions *Node) *Node {
					seen := bitsOf(words, Reshape(positions, size)) // [BQ, size]
					return Reshape(BroadcastPrefix(seen, group), 1, 1, group*queryBlock, size)
				}
			}
			out := l.online(block, rowEnds, first, ceilDiv(last, size), size, o,
				func(b *Node) (k, v vectors) {
					return l.block(cache, slot, pages, b, size, l.format().products(q.DType()))
				})
			out = TransposeAllAxes(Reshape(out, l.KVHeads, group, queryBlock, l.HeadDim), 2, 0, 1, 3)
			out = ConvertDType(Reshape(out, queryBlock, heads, l.HeadDim), q.DType())
			more := LessThan(AddScalar(start, queryBlock), limit)
			return work{
				Seq:  Where(more, w.Seq, AddScalar(w.Seq, 1)),
				Done: Where(more, AddScalar(w.Done, queryBlock), ZerosLike(w.Done)),
				Out:  control.ScatterSet(w.Out, rows, out),
			}
		})
	return end.Out
}

// Rows are sequences of which all tokens stand one after the other in arrays of T tokens, without a cache.
type Rows struct {
	// Firsts and Lens, i32[R], are a row's first token, and how many of its tokens are attended to. Tokens that follow
	// these attend to them as well.
	Firsts, Lens *Node
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

// BiasPadding is how many columns of [Bias].Scores follow the last distance. A kernel reads them, but does not use
// them.
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
			first, seen := takeRows(r.Firsts, w.Row), takeRows(r.Lens, w.Row)
			own := Equal(r.TokenRows, BroadcastToDims(w.Row, t))
			length := ReduceAllSum(ConvertDType(own, dtypes.Int32))
			positions := Add(w.Done, Iota(g, shapes.Make(dtypes.Int32, queryBlock), 0))
			valid := LessThan(positions, length)
			tokens := Min(Add(first, positions), scalar(g, t-1))
			o := opts
			// The sum does not overflow: Ahead may be the largest number that there is.
			after := Min(SubScalar(Sub(seen, positions), 1), scalar(g, min(opts.Ahead, t)))
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
			rowEnds := Reshape(BroadcastPrefix(ends, group), 1, group*queryBlock)
			out := l.online(block, rowEnds, firstBlock, last, size, o,
				func(b *Node) (keys, values vectors) {
					at := Add(MulScalar(b, float64(size)), Iota(g, shapes.Make(dtypes.Int32, size), 0))
					mine := InsertAxes(LessThan(at, seen), -1, -1) // what follows may be anything
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

// online is the softmax over blocks of context [first, last) for B sequences with M rows of queries for each KV head.
//
// q is [B, KVH, M, D]; ends i32[B, M] or [B, 1] is how many positions a row sees (0: none, and its result is 0); read
// gives a block's keys and values. opts.Sinks are [1, KVH, M]. The result is f32 [B, KVH, M, D].
//
// A block after a row's end leaves the row's sums as they are, bit for bit, so that other rows' lengths do not matter.
func (l Layout) online(q, ends, first, last *Node, size int, opts Options,
	read func(block *Node) (k, v vectors)) *Node {
	g := q.Graph()
	dims := q.Shape().Dimensions
	b, m := dims[0], dims[2]
	rows, products := []int{b, l.KVHeads, m}, l.format().products(q.DType())
	q = ConvertDType(MulScalar(toFloat32(q), opts.Scale), products)
	ends = InsertAxes(ends, 1, -1) // [B, 1, M or 1, 1]
	total := Zeros(g, shapes.Make(dtypes.Float32, rows...))
	top := FillScalar(g, total.Shape(), lowest)
	if opts.Sinks != nil {
		top, total = BroadcastToDims(opts.Sinks, rows...), OnesLike(total)
	}

	type sums struct{ Block, Max, Total, Acc *Node }
	end := control.While(
		sums{
			Block: first,
			Max:   top,
			Total: total,
			Acc:   Zeros(g, shapes.Make(dtypes.Float32, append(rows[:3:3], l.HeadDim)...)),
		},
		func(s sums) *Node { return LessThan(s.Block, last) },
		func(s sums) sums {
			k, v := read(s.Block)
			scores := toFloat32(Dot(q, k.numbers).General([]int{3}, []int{0, 1}, []int{3}, []int{0, 1}))
			scores = k.times(scores) // [B, KVH, M, size]
			if opts.SoftCap > 0 {
				scores = MulScalar(Tanh(DivScalar(scores, opts.SoftCap)), opts.SoftCap)
			}
			positions := Add(MulScalar(s.Block, float64(size)), Iota(g, shapes.Make(dtypes.Int32, 1, 1, 1, size), 3))
			seen := LessThan(positions, ends)
			switch {
			case opts.starts != nil:
				seen = LogicalAnd(seen, GreaterOrEqual(positions, InsertAxes(opts.starts, 1, -1)))
			case opts.Window > 0:
				seen = LogicalAnd(seen, GreaterOrEqual(positions, SubScalar(ends, float64(opts.Window))))
			}
			if opts.sees != nil {
				seen = LogicalAnd(BroadcastToDims(seen, 1, 1, m, size), opts.sees(positions))
			}
			if opts.addend != nil {
				scores = Add(scores, opts.addend(positions))
			}
			seen = BroadcastToDims(seen, scores.Shape().Dimensions...)
			scores = Where(seen, scores, FillScalar(g, scores.Shape(), lowest))
			top := Max(s.Max, ReduceMax(scores, 3))
			weights := Where(seen, Exp(Sub(scores, InsertAxes(top, -1))), ZerosLike(scores))
			keep := Exp(Sub(s.Max, top))
			part := toFloat32(Dot(ConvertDType(v.times(weights), products), v.numbers).General([]int{3}, []int{0, 1},
				[]int{2}, []int{0, 1}))
			return sums{
				Block: AddScalar(s.Block, 1),
				Max:   top,
				Total: Add(Mul(s.Total, keep), ReduceSum(weights, 3)),
				Acc:   Add(Mul(s.Acc, InsertAxes(keep, -1)), part),
			}
		})
	total = Where(GreaterThan(end.Total, ScalarZero(g, dtypes.Float32)), end.Total, OnesLike(end.Total))
	return Div(end.Acc, InsertAxes(total, -1))
}

// bitsOf reports which bits are set, bool[N, size], of words i32[N, W] at positions i32[size].
func bitsOf(words, positions *Node) *Node {
	g := words.Graph()
	columns := Min(div(positions, 32), scalar(g, words.Shape().Dimensions[1]-1))
	of := takeRows(TransposeAllAxes(words, 1, 0), columns) // [size, N]
	places := BroadcastToDims(InsertAxes(Mod(positions, scalar(g, 32)), -1), of.Shape().Dimensions...)
	bits := BitwiseAnd(BitwiseShiftRightLogical(of, places), OnesLike(of))
	return TransposeAllAxes(Equal(bits, OnesLike(bits)), 1, 0)
}

// lowest stands for minus infinity: its exponentials are 0, and differences of it are not NaN.
const lowest = -1e30

func toFloat32(x *Node) *Node { return ConvertDType(x, dtypes.Float32) }

func div(x *Node, by int) *Node { return Div(x, scalar(x.Graph(), by)) }

func ceilDiv(x *Node, by int) *Node { return div(AddScalar(x, float64(by-1)), by) }
