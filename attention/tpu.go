package attention

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/tokenqueue"
)

// tpuLanes is how many numbers a TPU's vector registers have in the last axis.
const tpuLanes = 128

// Step is a kind of step that attends to a cache: its shapes and options.
type Step struct {
	Tokens, Seqs, PagesPerSeq int // T queries; the page table is [Seqs, PagesPerSeq]
	Heads                     int
	DType                     dtypes.DType // dtype of queries
	Options                   Options
	Sinks                     bool // whether the options will have sinks
	Stored                    bool // another layer has stored the keys and values
}

// ForTPU returns the layout for programs for TPU: packed, if the backend has kernels for all steps that also write the
// new keys and values. Other caches whose last axis is not a multiple of 128 are flat, because it is padded to one
// there, or the compiler transposes the whole cache and back. So are quantized ones.
func (l Layout) ForTPU(backend compute.Backend, steps ...Step) Layout {
	packed := l
	l.Flat = l.Quantized() || l.HeadDim%tpuLanes != 0
	if len(steps) == 0 || !l.format().canBePacked() {
		return l
	}
	packed.Packed = packed.format().packing()
	for _, s := range steps {
		if s.Stored || !packed.hasKernel(backend, s) {
			return l
		}
	}
	return packed
}

// canBePacked reports whether there is a packed form of the cache. The published kernels read floats only.
func (f format) canBePacked() bool {
	return f.Paged && !f.Shared && f.DType != dtypes.Int8 && (2*f.HeadDim == tpuLanes || f.HeadDim%tpuLanes == 0)
}

// packing is how many numbers a register of 32 bits has, in a packed cache.
func (f format) packing() int { return 4 / f.stored().Size() }

// attentionOp is the composite of [Layout.RaggedPagedAttention].
const attentionOp = "ragged_paged_attention"

// updateOp is the composite of [Layout.Attend] on a packed cache.
const updateOp = "paged_attention_update"

// updateOptions are its attributes. A kernel can't see from the batch which kind of step it is, because a prefill may
// have as few tokens as sequences.
type updateOptions struct {
	kernelOptions
	OneToken bool `json:"one_token"`
}

func newUpdateOptions(paged bool, o Options) updateOptions {
	return updateOptions{kernelOptions{Scale: o.Scale, SoftCap: o.SoftCap, Window: o.Window, Paged: paged},
		o.OneTokenPerSeq}
}

func (l Layout) hasKernel(backend compute.Backend, s Step) bool {
	inputs := updateInputs(l, s)
	return control.Replaces(backend, updateOp, newUpdateOptions(l.Paged, s.Options), inputs,
		[]shapes.Shape{inputs[0], l.Shape()})
}

// updateInputs are the shapes of the inputs of updateOp in a step.
func updateInputs(l Layout, s Step) []shapes.Shape {
	q, kv := shapes.Make(s.DType, s.Tokens, s.Heads, l.HeadDim), shapes.Make(s.DType, s.Tokens, l.KVHeads, l.HeadDim)
	if l.format().float8() {
		kv.DType = l.format().stored()
	}
	inputs := append([]shapes.Shape{q, kv, kv, l.Shape()}, s.batchShapes()...)
	inputs = append(inputs, shapes.Make(dtypes.Int32, s.Tokens)) // destinations
	if s.Sinks {
		inputs = append(inputs, shapes.Make(dtypes.Float32, s.Heads))
	}
	return inputs
}

// batchShapes are the shapes of what attention reads of a batch.
func (s Step) batchShapes() []shapes.Shape {
	i32 := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Int32, dims...) }
	return []shapes.Shape{i32(s.Seqs), i32(s.Seqs, s.PagesPerSeq), i32(s.Seqs), i32(s.Seqs + 1), i32(),
		i32(s.Tokens), i32(s.Tokens)}
}

// HasTPUKernel reports whether the backend has a kernel for a step with the layout that [Layout.ForTPU] makes of this
// one.
func (l Layout) HasTPUKernel(backend compute.Backend, s Step) bool {
	if !l.format().canBePacked() {
		return false
	}
	packed := l
	packed.Packed = packed.format().packing()
	options := newUpdateOptions(l.Paged, s.Options)
	if !s.Stored && control.HasKernel(backend, updateOp, options, updateInputs(packed, s)) {
		return true
	}
	if l.HeadDim%tpuLanes != 0 {
		return false
	}
	inputs := append([]shapes.Shape{shapes.Make(s.DType, s.Tokens, s.Heads, l.HeadDim), l.Shape()},
		s.batchShapes()...)
	if s.Sinks {
		inputs = append(inputs, shapes.Make(dtypes.Float32, s.Heads))
	}
	return control.HasKernel(backend, attentionOp, kernelOptions{Scale: s.Options.Scale, SoftCap: s.Options.SoftCap,
		Window: s.Options.Window, Paged: l.Paged}, inputs)
}

// Attend is [Layout.Update] and then [Layout.RaggedPagedAttention]: the new keys k and values v, [T, KVH, D], are
// stored, and each query of q, [T, H, D], attends to its sequence. It returns the result, [T, H, D], and the cache. If
// k and v are nil, they are already in the cache.
func (l Layout) Attend(q, k, v, cache *Node, batch tokenqueue.PageBatchInfo, opts Options) (out, updated *Node) {
	if k == nil {
		return l.RaggedPagedAttention(q, cache, batch, opts), cache
	}
	if opts.Mask != nil { // the kernels that store have no masks
		mask := opts.Mask
		opts.Mask = nil
		if l.Packed > 0 {
			_, updated = l.Attend(q, k, v, cache, batch, opts)
		} else {
			updated = l.Update(cache, batch, k, v)
		}
		opts.Mask = mask
		return l.RaggedPagedAttention(q, updated, batch, opts), updated
	}
	plain := func(in []*Node) []*Node {
		b := batch
		b.SlotIDs, b.PageIndices, b.SeqLens, b.CuQLens, b.NumSeqs, b.TokenSeqs, b.PosIDs, b.NewTokenDests = in[4],
			in[5], in[6], in[7], in[8], in[9], in[10], in[11]
		opts := opts
		if opts.Sinks != nil {
			opts.Sinks = in[12]
		}
		cache := l.Update(in[3], b, in[1], in[2])
		return []*Node{l.RaggedPagedAttention(in[0], cache, b, opts), cache}
	}
	if l.format().float8() {
		k, v = l.format().toFloat8(k), l.format().toFloat8(v)
	}
	inputs := []*Node{q, k, v, cache, batch.SlotIDs, batch.PageIndices, batch.SeqLens, batch.CuQLens, batch.NumSeqs,
		batch.TokenSeqs, batch.PosIDs, batch.NewTokenDests}
	if opts.Sinks != nil {
		inputs = append(inputs, opts.Sinks)
	}
	var results []*Node
	if l.Packed > 0 {
		results = control.Composite(updateOp, newUpdateOptions(l.Paged, opts), inputs,
			[]shapes.Shape{q.Shape(), l.Shape()}, plain)
	} else {
		results = plain(inputs)
	}
	return results[0], results[1]
}
