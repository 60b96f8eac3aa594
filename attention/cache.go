// Package attention stores the keys and values of the tokens seen so far, and attends to them.
//
// A cache holds one layer: K and V of each KV head, interleaved k0,v0,k1,v1,... as [.., 2*KVH, D], or [.., 2*KVH, D+4]
// if they are bytes with a scale each (quantized.go). It has two layouts with the same methods. The paged layout is a
// pool of pages [P, page_size, 2*KVH, D] that sequences own by their page lists. The contiguous layout is [R, max_len,
// 2*KVH, D], one row a slot; it shares nothing and is the simple reference for the paged one. On TPU the last two axes
// may be one: [Layout.ForTPU]. If values are their keys, they are not stored: [.., KVH, D]. For the kernels in C pages
// are [2*KVH, page_size, D]: [Layout.ByHead].
//
// The plain form of attention is blocked: an online softmax over blocks of the context at absolute positions, up to the
// longest live sequence. It never holds an array [tokens, context], and the result of a token does not depend on the
// other tokens of the batch.
package attention

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/tokenqueue"
)

// Layout describes where a cache stores a token's keys and values.
type Layout struct {
	// Paged distinguishes the two layouts.
	Paged bool
	// Pages and PageSize are the sizes of the pool: [Pages, PageSize, 2*KVHeads, HeadDim]. The contiguous layout has a
	// page for each row of the sequence table, as long as the longest sequence.
	Pages, PageSize int
	KVHeads         int
	HeadDim         int
	// DType is the dtype of keys and values: a float, Int8 or F8E4M3FN, see quantized.go.
	DType dtypes.DType
	// Flat puts a token's heads into one axis: [Pages, PageSize, 2*KVHeads*HeadDim], the same numbers in the same
	// order, with zeros at the end if values are keys. If quantized, it has all bytes, then all scales, then zeros, as
	// words. See [Layout.ForTPU].
	Flat bool
	// Packed, if not 0, is the number of numbers in a register of 32 bits, and the cache is
	// [Pages, PageSize, 2*KVHeads/Packed, Packed, HeadDim], or for a HeadDim of 64
	// [Pages, PageSize, ceil(KVHeads/Packed), Packed, 2*HeadDim]: the same numbers in the same order, and zeros for the
	// heads that KVHeads lacks. 8-bit floats have no scales there.
	Packed int
	// ByHead puts the keys of a page's tokens side by side for each head, and so their values:
	// [Pages, 2*KVHeads, PageSize, HeadDim]. A kernel that reads the keys of a head, and then its values, reads memory
	// in order.
	ByHead bool
	// Shared reports that a value is its key, which is stored once: [Pages, PageSize, KVHeads, HeadDim].
	Shared bool
	// State, if not 0, is the number of float32 numbers that a page has instead of keys and values, [Pages, State]: the
	// state of a layer after the page's last token. See [Layout.StateLayout].
	State int
}

// Shape returns the shape of one layer's cache.
func (l Layout) Shape() shapes.Shape {
	f := l.format()
	switch {
	case l.State > 0:
		return shapes.Make(l.DType, l.Pages, l.State)
	case l.Packed > 0:
		each := f.packedVectors()
		return shapes.Make(f.stored(), l.Pages, l.PageSize, each*f.heads()/l.Packed, l.Packed, 2*l.HeadDim/each)
	case l.Flat:
		return shapes.Make(f.stored(), l.Pages, l.PageSize, f.flatWidth())
	case l.ByHead:
		return shapes.Make(f.stored(), l.Pages, f.each()*l.KVHeads, l.PageSize, f.width())
	}
	return shapes.Make(f.stored(), l.Pages, l.PageSize, f.each()*l.KVHeads, f.width())
}

// byToken returns the layout of the same cache with the vectors of a token next to each other.
func (l Layout) byToken() Layout {
	l.ByHead = false
	return l
}

// turn converts a cache that is by head to the order of tokens, and back.
func (l Layout) turn(cache *Node) *Node {
	if !l.ByHead {
		return cache
	}
	return TransposeAllAxes(cache, 0, 2, 1, 3)
}

// BytesPerToken returns the bytes that a token takes in one layer: 2 * KVH * D * sizeof(dtype). A packed cache has KVH
// rounded up. A quantized one takes 2 * KVH * (D + 4), rounded up if it is flat. If values are keys, it is half of
// that.
func (l Layout) BytesPerToken() int64 {
	f := l.format()
	if l.Flat {
		return int64(f.flatWidth()) * int64(f.stored().Size())
	}
	return int64(f.each()) * int64(f.heads()) * int64(f.width()) * int64(f.stored().Size())
}

// PageBytes returns the bytes that a page takes in one layer.
func (l Layout) PageBytes() int64 {
	if l.State > 0 {
		return int64(l.State) * int64(l.DType.Size())
	}
	return int64(l.PageSize) * l.BytesPerToken()
}

// StateLayout returns the layout of a layer that keeps a state of that many numbers for each sequence, if the layers
// that attend have this layout. A page has the state after the last of its tokens that was run. So the state is shared,
// copied and moved with the page, and a full page has what a sequence that starts with it needs to continue.
func (l Layout) StateLayout(numbers int) Layout {
	return Layout{Paged: l.Paged, Pages: l.Pages, PageSize: l.PageSize, DType: dtypes.Float32, State: numbers}
}

// PagedLayout and ContiguousLayout describe the two kinds.
func PagedLayout(pages, pageSize, kvHeads, headDim int, dtype dtypes.DType) Layout {
	return Layout{Paged: true, Pages: pages, PageSize: pageSize, KVHeads: kvHeads, HeadDim: headDim, DType: dtype}
}

// ContiguousLayout describes a cache with a row of maxLen tokens for each of rows slots.
func ContiguousLayout(rows, maxLen, kvHeads, headDim int, dtype dtypes.DType) Layout {
	return Layout{Pages: rows, PageSize: maxLen, KVHeads: kvHeads, HeadDim: headDim, DType: dtype}
}

// Update writes the keys and values of new tokens into cache, in place if the caller donated it, and returns it.
//
// k and v are [T, KVH, D] of any float dtype. v is not read if values are keys. Token t is written at
// batch.NewTokenDests[t] (contiguous: at its slot and position). A destination out of range is dropped.
func (l Layout) Update(cache *Node, batch tokenqueue.PageBatchInfo, k, v *Node) *Node {
	byHead := l
	l = l.byToken()
	f := l.format()
	plain := func(in []*Node) []*Node {
		cache, k, dests := byHead.turn(in[0]), in[1], in[len(in)-1]
		token := l.Shape().Dimensions[2:]
		kv := Stack(in[1:len(in)-1], 2)
		switch {
		case l.Quantized():
			kv = f.quantize(kv)
		case f.float8() && kv.DType() != f.stored():
			kv = f.toFloat8(kv)
		}
		if missing := f.heads() - l.KVHeads; missing > 0 {
			kv = Pad(kv, ScalarZero(k.Graph(), kv.DType()), compute.PadAxis{}, compute.PadAxis{End: missing})
		}
		if missing := f.flatWidth() - l.HeadDim*l.KVHeads; l.Flat && l.Shared && !l.Quantized() && missing > 0 {
			kv = Reshape(kv, k.Shape().Dimensions[0], -1)
			kv = Pad(kv, ScalarZero(k.Graph(), k.DType()), compute.PadAxis{}, compute.PadAxis{End: missing})
		}
		kv = ConvertDType(Reshape(kv, append([]int{k.Shape().Dimensions[0]}, token...)...), f.stored())
		flat := Reshape(cache, append([]int{l.Pages * l.PageSize}, token...)...)
		return []*Node{byHead.turn(Reshape(control.ScatterSet(flat, dests, kv), l.Shape().Dimensions...))}
	}
	in := []*Node{cache, k, v, l.destinations(batch)}
	if l.Shared {
		in = []*Node{cache, k, in[3]}
	}
	return l.composite("kv_update", updateAttrs{byHead.ByHead}, in, byHead.Shape(), plain)
}

// updateAttrs are the attributes of composite "kv_update".
type updateAttrs struct {
	ByHead bool `json:"by_head"`
}

// composite applies an operation on the cache that a backend may replace by a native form, for the dtypes of such
// forms.
func (l Layout) composite(op string, attrs any, in []*Node, result shapes.Shape, plain func(in []*Node) []*Node) *Node {
	switch l.DType {
	case dtypes.Float32, dtypes.BFloat16, dtypes.Float16, dtypes.Int8, dtypes.F8E4M3FN:
		return control.Composite(op, attrs, in, []shapes.Shape{result}, plain)[0]
	}
	return plain(in)[0]
}

// destinations returns the place i32[T] of each new token among the Pages*PageSize of the cache.
func (l Layout) destinations(batch tokenqueue.PageBatchInfo) *Node {
	if l.Paged {
		return batch.NewTokenDests
	}
	g := batch.TokenSeqs.Graph()
	slots := takeRows(batch.SlotIDs, batch.TokenSeqs)
	valid := LogicalAnd(GreaterOrEqual(batch.TokenSeqs, zero(g)), LessThan(batch.PosIDs, scalar(g, l.PageSize)))
	return Where(valid, Add(MulScalar(slots, float64(l.PageSize)), batch.PosIDs),
		FillScalar(g, slots.Shape(), float64(l.Pages*l.PageSize)))
}

// CopyPages copies whole pages src[i] to dst[i], i32[C]; -1 in either copies nothing. No page may be both a source and
// a destination.
func (l Layout) CopyPages(cache, src, dst *Node) *Node {
	if !l.Paged {
		panic(fmt.Errorf("attention: a contiguous cache shares no pages, so that there is nothing to copy"))
	}
	return l.composite("copy_pages", struct{}{}, []*Node{cache, src, dst}, l.Shape(), func(in []*Node) []*Node {
		cache, src, dst := in[0], in[1], in[2]
		dst = Where(LessThan(src, zero(cache.Graph())), FillScalar(cache.Graph(), dst.Shape(), -1), dst)
		if l.Packed > 0 {
			return []*Node{l.WritePages(cache, dst, l.ReadPages(cache, src))}
		}
		// With two heads in the last axis but one, a TPU's compiler would transpose the whole cache for this, and back.
		// So pages are moved as rows of one head.
		pages := l.vectors(cache)
		return []*Node{Reshape(control.ScatterSet(pages, dst, control.Barrier(takeRows(pages, src))),
			l.Shape().Dimensions...)}
	})
}

// New returns n empty caches in g. It is one operation for all caches, because the compiler merges equal operations and
// copies the result.
func (l Layout) New(g *Graph, n int) []*Node {
	zero := Scalar(g, l.Shape().DType, 0)
	results := slices.Repeat([]shapes.Shape{l.Shape()}, n)
	return control.Composite("zeros", struct {
		Results int `json:"results"`
	}{n}, []*Node{zero}, results, func(in []*Node) []*Node {
		caches := make([]*Node, n)
		for i := range caches {
			caches[i] = BroadcastToDims(in[0], l.Shape().Dimensions...)
		}
		return caches
	})
}

// ReadPages returns the pages ids, i32[C], of a cache: [C, ...], as [Layout.Shape] has them. A negative one reads page
// 0.
//
// Pages of a packed cache are read one by one, and WritePages writes them one by one, because for a gather or a scatter
// the compiler transposes the cache.
func (l Layout) ReadPages(cache, ids *Node) *Node {
	if l.Packed == 0 {
		return takeRows(cache, ids)
	}
	g := cache.Graph()
	n := ids.Shape().Size()
	type reading struct{ At, Cache, Pages *Node }
	end := control.While(reading{zero(g), cache, Zeros(g, l.pages(n))},
		func(r reading) *Node { return LessThan(r.At, scalar(g, n)) },
		func(r reading) reading {
			r.Pages = DynamicUpdateSlice(r.Pages, l.page(r.Cache, takeRows(ids, r.At)), l.startOf(r.At))
			r.At = AddScalar(r.At, 1)
			return r
		})
	return end.Pages
}

// WritePages replaces the pages ids, i32[C], of a cache by pages, [C, ...], and returns it. An id that is negative or
// too large writes nothing.
func (l Layout) WritePages(cache, ids, pages *Node) *Node {
	if l.Packed == 0 {
		written := control.ScatterSet(l.vectors(cache), ids, l.vectors(pages))
		return Reshape(written, l.Shape().Dimensions...)
	}
	g := cache.Graph()
	valid := LogicalAnd(GreaterOrEqual(ids, zero(g)), LessThan(ids, scalar(g, l.Pages)))
	last := ReduceAllMax(Where(valid, AddScalar(Iota(g, ids.Shape(), 0), 1), ZerosLike(ids)))
	type writing struct{ At, Cache *Node }
	end := control.While(writing{zero(g), cache},
		func(w writing) *Node { return LessThan(w.At, last) },
		func(w writing) writing {
			isValid := takeRows(valid, w.At)
			id := Where(isValid, takeRows(ids, w.At), zero(g))
			fresh := DynamicSlice(pages, l.startOf(w.At), l.pages(1).Dimensions)
			page := Where(BroadcastToDims(isValid, l.pages(1).Dimensions...), fresh, l.page(w.Cache, id))
			w.Cache = DynamicUpdateSlice(w.Cache, page, l.startOf(id))
			w.At = AddScalar(w.At, 1)
			return w
		})
	return end.Cache
}

// vectors are pages as rows of one head, [P, N, D]; a state is one vector.
func (l Layout) vectors(pages *Node) *Node {
	if l.State > 0 {
		return pages
	}
	return Reshape(pages, pages.Shape().Dim(0), -1, l.Shape().Dim(-1))
}

// pages is the shape of n pages.
func (l Layout) pages(n int) shapes.Shape {
	l.Pages = n
	return l.Shape()
}

// startOf returns where a page of a cache starts.
func (l Layout) startOf(page *Node) []*Node {
	start := []*Node{page}
	for len(start) < l.Shape().Rank() {
		start = append(start, zero(page.Graph()))
	}
	return start
}

// page is page id, i32[], of a cache: [1, ...].
func (l Layout) page(cache, id *Node) *Node {
	return DynamicSlice(cache, l.startOf(Max(id, zero(id.Graph()))), l.pages(1).Dimensions)
}

// ZeroPages clears the pages for which mask, bool[P], is set. Only tenants that must not share memory need it.
func (l Layout) ZeroPages(cache, mask *Node) *Node {
	return l.composite("zero_pages", struct{}{}, []*Node{cache, mask}, l.Shape(), func(in []*Node) []*Node {
		mask := in[1]
		for mask.Rank() < l.Shape().Rank() {
			mask = InsertAxes(mask, -1)
		}
		mask = BroadcastToDims(mask, l.Shape().Dimensions...)
		return []*Node{Where(mask, ZerosLike(in[0]), in[0])}
	})
}

// block reads the keys and values of blockSize tokens of context from position block*blockSize on for B sequences, for
// products of a dtype. What is after a sequence's end is arbitrary but finite.
//
// The vectors are gathered one by one in the order that the products need. Whole pages would have to be transposed
// afterwards.
func (l Layout) block(cache *Node, slots, pageIndices, block *Node, blockSize int, products dtypes.DType) (k,
	v vectors) {
	g, f := cache.Graph(), l.format()
	b := slots.Shape().Dimensions[0]
	positions := Add(MulScalar(block, float64(blockSize)), Iota(g, shapes.Make(dtypes.Int32, b, blockSize), 1))
	var pages, slot *Node // i32[B, blockSize]: the page of a token, and its place there
	if l.Paged {
		perSeq := pageIndices.Shape().Dimensions[1]
		columns := Min(div(positions, l.PageSize), scalar(g, perSeq-1))
		entries := Add(MulScalar(Iota(g, positions.Shape(), 0), float64(perSeq)), columns)
		pages = Max(takeRows(Reshape(pageIndices, b*perSeq), entries), zero(g))
		slot = Mod(positions, scalar(g, l.PageSize))
	} else {
		pages, slot = InsertAxes(Max(slots, zero(g)), 1), Min(positions, scalar(g, l.PageSize-1))
	}
	tokens := Add(MulScalar(pages, float64(l.PageSize)), slot) // places among the Pages*PageSize of the cache
	if l.Flat || l.Packed > 0 {
		flat := Reshape(cache, l.Pages*l.PageSize, -1)
		if l.Quantized() {
			return f.openFlat(takeRows(flat, tokens), products)
		}
		kv := takeRows(flat, tokens)
		if l.Shared {
			kv = SliceAxis(kv, 2, AxisRangeFromStart(l.KVHeads*l.HeadDim))
		}
		kv = TransposeAllAxes(Reshape(kv, b, blockSize, f.heads(), f.each(), l.HeadDim), 3, 0, 2, 1, 4)
		part := func(i int) vectors {
			numbers := Squeeze(Slice(kv, AxisRange(i, i+1), AxisRange(), AxisRange(0, l.KVHeads)), 0)
			if f.float8() {
				numbers = f.fromFloat8(numbers, products)
			}
			return vectors{numbers: numbers}
		}
		return part(0), part(f.each() - 1)
	}
	heads := Iota(g, shapes.Make(dtypes.Int32, 1, l.KVHeads, 1), 1)
	keys := Add(MulScalar(InsertAxes(tokens, 1), float64(f.each()*l.KVHeads)), MulScalar(heads, float64(f.each())))
	next := 1 // from a head's key to its value
	if l.ByHead {
		next = l.PageSize
		first := Add(MulScalar(pages, float64(f.each()*l.KVHeads*l.PageSize)), slot)
		keys = Add(InsertAxes(first, 1), MulScalar(heads, float64(f.each()*l.PageSize)))
	}
	flat := Reshape(cache, l.Pages*l.PageSize*f.each()*l.KVHeads, f.width())
	open := func(rows *Node) vectors {
		if l.Quantized() {
			return f.open(rows, products)
		}
		return vectors{numbers: rows}
	}
	if k = open(takeRows(flat, keys)); l.Shared {
		return k, k
	}
	return k, open(takeRows(flat, AddScalar(keys, float64(next))))
}

// Dense returns the keys and values of tokens on the host, [tokens, KVHeads, HeadDim] each. pages are the flat contents
// of their pages in order, in the Go type of the layout's dtype.
//
// It returns an error for layers that keep a state, and for quantized caches.
func Dense(l Layout, pages any, tokens int) (keys, values []float32, err error) {
	if l.State > 0 || l.Quantized() || l.format().float8() {
		return nil, nil, fmt.Errorf("attention: the cache has no keys and values in floats")
	}
	var number func(at int) float32
	switch flat := pages.(type) {
	case []float32:
		number = func(at int) float32 { return flat[at] }
	case []bfloat16.BFloat16:
		number = func(at int) float32 { return flat[at].Float32() }
	case []float16.Float16:
		number = func(at int) float32 { return flat[at].Float32() }
	default:
		return nil, nil, fmt.Errorf("attention: pages are %T, and not floats", pages)
	}
	f := l.format()
	width := f.each() * f.heads() * l.HeadDim // of a token
	if l.Flat {
		width = f.flatWidth()
	}
	vectors := func(first int) []float32 {
		all := make([]float32, 0, tokens*l.KVHeads*l.HeadDim)
		for token := range tokens {
			for head := range l.KVHeads {
				vector := f.each()*head + first
				at := token*width + vector*l.HeadDim
				if l.ByHead {
					page, slot := token/l.PageSize, token%l.PageSize
					at = ((page*f.each()*l.KVHeads+vector)*l.PageSize + slot) * l.HeadDim
				}
				for d := range l.HeadDim {
					all = append(all, number(at+d))
				}
			}
		}
		return all
	}
	return vectors(0), vectors(f.each() - 1), nil
}

// takeRows returns rows of x by int32 indices of any shape; negative ones read row 0.
func takeRows(x, indices *Node) *Node {
	return Gather(x, InsertAxes(Max(indices, zero(x.Graph())), -1))
}

func zero(g *Graph) *Node              { return Scalar(g, dtypes.Int32, 0) }
func scalar(g *Graph, value int) *Node { return Scalar(g, dtypes.Int32, float64(value)) }
