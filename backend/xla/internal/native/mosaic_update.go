package native

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"

	"github.com/quire/quire/backend/xla/internal/program"
	"github.com/quire/quire/backend/xla/mosaic"
)

// Inputs of composite "paged_attention_update", see package attention.
const (
	updateQ = iota
	updateK
	updateV
	updateCache
	_ // slots
	updatePageIndices
	updateSeqLens
	updateCuQLens
	updateNumSeqs
	updateTokenSeqs
	_ // positions
	_ // destinations: the kernel finds them itself, at the end of each sequence
	updateInputs

	updateSinks = updateInputs // if there are any
)

// update finds the kernel for a call of composite "paged_attention_update".
func (m *mosaicKernels) update(attrs json.RawMessage, inputs []shapes.Shape) (*mosaic.Call, error) {
	var a attentionAttributes
	if err := json.Unmarshal(attrs, &a); err != nil {
		return nil, fmt.Errorf("attributes %s: %w", attrs, err)
	}
	if a.sinks = len(inputs) == updateInputs+1; len(inputs) != updateInputs && !a.sinks {
		return nil, fmt.Errorf("it takes %d inputs, and sinks if there are any, not %d", updateInputs, len(inputs))
	}
	q, k, cache, table := inputs[updateQ].Dimensions, inputs[updateK].Dimensions, inputs[updateCache].Dimensions,
		inputs[updatePageIndices].Dimensions
	if len(q) != 3 || len(k) != 3 || len(cache) != 5 || len(table) != 2 {
		return nil, fmt.Errorf("queries %s, keys %s, cache %s and page table %s are not of 3, 3, 5 and 2 axes",
			inputs[updateQ], inputs[updateK], inputs[updateCache], inputs[updatePageIndices])
	}
	return m.find(mosaic.Request{
		Kernel: mosaic.PagedAttentionUpdate,
		Config: mosaic.Config{
			Heads: q[1], KVHeads: k[1], HeadDim: q[2], PageSize: cache[1],
			DType: mosaic.DTypeName(inputs[updateQ].DType), KVDType: mosaic.DTypeName(inputs[updateCache].DType),
			Scale: a.Scale, Window: a.Window, SoftCap: a.SoftCap, Sinks: a.sinks,
		},
		Sizes:          mosaic.Sizes{Pages: cache[0], Seqs: table[0], PagesPerSeq: table[1], Tokens: q[0]},
		OneTokenPerSeq: a.OneToken,
	}, a)
}

// fewQueries is how many queries are rotated first and transposed then. If a TPU's compiler may mix the two, it copies
// the halves of up to 64 queries apart from each other, which takes it 1.7 times as long; with more it takes half as
// long.
const fewQueries = 64

// emitUpdate is the emitter of "paged_attention_update".
//
// The kernel expects a KV head's queries as a matrix: [KVH, T, ceil(G/packing), packing, D] for G queries per KV head.
// For a head dim of 64, D is twice as wide: the queries are in the half that the keys have in the cache, and the kernel
// returns values in the other half. It runs once for each sequence. Pages of -1, which a running sequence does not
// have, become 0. Its result replaces the queries. Rows of padding keep the queries, so these are cleared: with the
// rotation of queries it costs nothing, and results would be copied for it. Sinks are [KVH, G, lanes], with the same
// number in all lanes.
func (m *mosaicKernels) emitUpdate(f *program.Function, attrs json.RawMessage, inputs []*stablehlo.Value,
	_ []shapes.Shape) ([]*stablehlo.Value, error) {
	in := make([]shapes.Shape, len(inputs))
	for i, v := range inputs {
		in[i] = program.FromXLA(v.Shape())
	}
	call, err := m.update(attrs, in)
	if err != nil {
		return nil, err
	}
	var a attentionAttributes
	if err := json.Unmarshal(attrs, &a); err != nil {
		return nil, fmt.Errorf("attributes %s: %w", attrs, err)
	}
	tokens, heads, headDim, kvHeads := in[updateQ].Dimensions[0], in[updateQ].Dimensions[1], in[updateQ].Dimensions[2],
		in[updateK].Dimensions[1]
	group := heads / kvHeads
	shapeOf := func(name string) []int {
		at := slices.IndexFunc(call.Operands, func(o mosaic.Tensor) bool { return o.Name == name })
		return call.Operands[at].Shape.Dimensions
	}
	qShape, kvShape := shapeOf("q"), shapeOf("kv")
	s := steps{f: f}

	queries := s.zeroRows(inputs[updateQ], s.less(inputs[updateTokenSeqs], 0))
	if tokens <= fewQueries {
		queries = s.fenced(queries)
	}
	queries = s.padTo(s.reshape(queries, tokens, kvHeads, group, headDim), tokens, kvHeads,
		qShape[2]*qShape[3], qShape[4])
	queries = s.transpose(s.reshape(queries, tokens, kvHeads, qShape[2], qShape[3], qShape[4]), 1, 0, 2, 3, 4)
	var kv *stablehlo.Value
	if kvShape[3] == headDim {
		kv = s.convert(s.alternate(inputs[updateK], inputs[updateV]), in[updateCache])
	} else {
		kv = s.convert(s.concatenate(2, inputs[updateK], inputs[updateV]), in[updateCache])
	}
	if !slices.Equal(kvShape, []int{tokens, kvHeads, 2, headDim}) {
		kv = s.reshape(kv, tokens, 2*kvHeads*headDim/kvShape[3], kvShape[3])
		kv = s.reshape(s.padTo(kv, tokens, kvShape[1]*kvShape[2], kvShape[3]), kvShape...)
	}

	table := s.atLeast(inputs[updatePageIndices], 0)
	entries := shapeOf("page_indices")[0]
	if columns := entries / in[updatePageIndices].Dimensions[0]; columns > in[updatePageIndices].Dimensions[1] {
		table = s.padColumns(table, columns)
	}
	count := s.reshape(inputs[updateNumSeqs], 1)
	alone := s.ints(0) // how many sequences, the first ones, the kernel takes for such of one token
	if a.OneToken && call.Payload.Form != mosaic.FormMixed {
		alone = count
	}
	operands := []*stablehlo.Value{
		inputs[updateSeqLens], s.reshape(table, entries), inputs[updateCuQLens], s.concatenate(0, alone, alone, count),
		s.ints(0, 0, 0), s.ints(-1, -1, -1, -1), s.ints(-1, -1, -1, -1, -1, -1), queries, kv, inputs[updateCache],
	}
	if headDim == 64 {
		operands = slices.Insert(operands, 0, inputs[updateNumSeqs])
	}
	if call.Request.Config.Sinks {
		operands = append(operands, s.sinks(inputs[updateSinks], kvHeads, group))
	}
	out := m.call(&s, call, operands)
	values := s.reshape(s.transpose(out[0], 1, 0, 2, 3, 4), tokens, kvHeads, qShape[2]*qShape[3], qShape[4])
	values = s.reshape(s.slice(values, []int{0, 0, 0, qShape[4] - headDim},
		[]int{tokens, kvHeads, group, qShape[4]}), tokens, heads, headDim)
	return []*stablehlo.Value{values, out[1]}, s.err
}
