package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	xlashapes "github.com/gomlx/go-xla/types/shapes"

	"github.com/quire/quire/backend/xla/internal/program"
	"github.com/quire/quire/backend/xla/mosaic"
)

// mosaicKernels are a TPU backend's payloads, and what became of them.
type mosaicKernels struct {
	store   *mosaic.Store
	uses    *kernelUses
	standIn StandIn // not nil if other devices run what a TPU would

	mu sync.Mutex
	// refused are the payloads that did not fit into a core's memory, and why. mu protects it.
	refused map[*mosaic.Payload]string
}

// newMosaic opens the kernels of package mosaic.
func newMosaic(folder string, standIn StandIn, uses *kernelUses) (*mosaicKernels, error) {
	store, err := mosaic.Open(folder)
	return &mosaicKernels{store: store, uses: uses, standIn: standIn}, err
}

// unnoted returns the same kernels without their uses and refusals: sizes do not change when a kernel turns out not to
// fit.
func (m *mosaicKernels) unnoted() *mosaicKernels {
	return &mosaicKernels{store: m.store, uses: &kernelUses{}, standIn: m.standIn}
}

// cacheOps are the composites on a cache of package attention. The cache is the first input, but the second of
// attention.
var cacheOps = []string{mosaic.RaggedPagedAttention, latentAttention, "kv_update", "copy_pages", "zero_pages"}

// latentAttention is attention over a cache whose values are keys.
const latentAttention = "latent_attention"

func cacheAxes(op string, inputs []shapes.Shape) int {
	at := 0
	if op == mosaic.RaggedPagedAttention || op == latentAttention {
		at = inputCache
	}
	if len(inputs) <= at {
		return 0
	}
	return inputs[at].Rank()
}

// attentionAttributes are the attributes of the composites for attention.
type attentionAttributes struct {
	Scale    float64 `json:"scale"`
	SoftCap  float64 `json:"soft_cap"`
	Window   int     `json:"window"`
	Paged    bool    `json:"paged"`
	OneToken bool    `json:"one_token"`

	sinks bool // the last input has sinks: scores in addition to the scores of keys, one for each head
}

// attentionOf reads the attributes of composite "ragged_paged_attention", called with inputs.
func attentionOf(attrs json.RawMessage, inputs []shapes.Shape) (a attentionAttributes, err error) {
	if err := json.Unmarshal(attrs, &a); err != nil {
		return a, fmt.Errorf("attributes %s: %w", attrs, err)
	}
	if a.sinks = len(inputs) == attentionInputs+1; len(inputs) != attentionInputs && !a.sinks {
		return a, fmt.Errorf("it takes %d inputs, and sinks if there are any, not %d", attentionInputs, len(inputs))
	}
	return a, nil
}

// attention finds the kernel for a call of the composite.
func (m *mosaicKernels) attention(attrs json.RawMessage, inputs []shapes.Shape) (*mosaic.Call, error) {
	a, err := attentionOf(attrs, inputs)
	if err != nil {
		return nil, err
	}
	q, cache, table := inputs[inputQ].Dimensions, inputs[inputCache].Dimensions, inputs[inputPageIndices].Dimensions
	if len(q) == 3 && len(cache) == 3 { // flat: see attention.Layout.ForTPU
		cache = []int{cache[0], cache[1], cache[2] / q[2], q[2]}
	}
	if err := m.uses.refuseQuantized(mosaic.RaggedPagedAttention, inputs[inputCache], "fp8 or auto"); err != nil {
		return nil, err
	}
	if len(q) != 3 || len(cache) != 4 || len(table) != 2 {
		return nil, fmt.Errorf("queries %s, cache %s and page table %s are not of 3, 4 and 2 axes", inputs[inputQ],
			inputs[inputCache], inputs[inputPageIndices])
	}
	r := mosaic.Request{
		Kernel: mosaic.RaggedPagedAttention,
		Config: mosaic.Config{
			Heads: q[1], KVHeads: cache[2] / 2, HeadDim: q[2], PageSize: cache[1],
			DType: mosaic.DTypeName(inputs[inputQ].DType), KVDType: mosaic.DTypeName(inputs[inputCache].DType),
			Scale: a.Scale, Window: a.Window, SoftCap: a.SoftCap, Sinks: a.sinks,
		},
		Sizes:          mosaic.Sizes{Pages: cache[0], Seqs: table[0], PagesPerSeq: table[1], Tokens: q[0]},
		OneTokenPerSeq: q[0] <= table[0],
	}
	return m.find(r, a)
}

// find looks for a payload, and notes what became of the composite.
func (m *mosaicKernels) find(r mosaic.Request, a attentionAttributes) (*mosaic.Call, error) {
	var call *mosaic.Call
	err := error(&mosaic.NoKernelError{Request: r, Reason: "the cache is contiguous", Remedy: "use --kv paged"})
	switch {
	case !a.Paged:
	case a.sinks && r.Kernel == mosaic.RaggedPagedAttention:
		err = &mosaic.NoKernelError{Request: r,
			Reason: "the model has attention sinks, and only the kernel for a head dim of 64 takes any",
			Remedy: "ordinary operations are used"}
	case r.Kernel == mosaic.RaggedPagedAttention && r.Config.HeadDim%128 != 0:
		err = &mosaic.NoKernelError{Request: r,
			Reason: fmt.Sprintf("the kernel takes head dims that are multiples of 128, and the model's is %d",
				r.Config.HeadDim), Remedy: "ordinary operations are used"}
	default:
		call, err = m.store.FindExcept(r, m.isRefused)
	}
	use := KernelUse{Composite: r.Kernel, Tried: m.tried(r), For: fmt.Sprintf("%s; %d tokens, page table %d x %d",
		r.Config, r.Sizes.Tokens, r.Sizes.Seqs, r.Sizes.PagesPerSeq)}
	var none *mosaic.NoKernelError
	switch {
	// Head dims of 128 have two kernels, and the one that also stores is asked for first. What is noted is why the
	// first does not take the sizes, or else what became of the second.
	case errors.As(err, &none) && none.Unknown && r.Config.HeadDim != 64 && r.Config.KVDType == r.Config.DType &&
		(r.Kernel == mosaic.PagedAttentionUpdate || m.uses.isPlain(use.For)):
		return nil, err
	case errors.As(err, &none):
		use.Reason = none.Reason + ": " + none.Remedy
	case err != nil:
		return nil, err
	default:
		p := call.Payload
		from := "jax " + p.Versions["jax"]
		if v, ok := p.Versions["tpu-inference"]; ok {
			from = "tpu-inference " + v
		}
		use.Kernel = fmt.Sprintf("%s of %s, %s", p.Source[strings.LastIndex(p.Source, ".")+1:], from, blocksText(p))
		call.Request = r
	}
	m.uses.note(use)
	return call, err
}

// Inputs of composite "ragged_paged_attention", see package attention.
const (
	inputQ = iota
	inputCache
	_ // slots
	inputPageIndices
	inputSeqLens
	inputCuQLens
	inputNumSeqs
	inputTokenSeqs
	inputPosIDs
	attentionInputs
)

// emitAttention is the emitter of "ragged_paged_attention".
//
// The kernel expects different operands from the composite's. It reads page 0 of a row's list before it knows whether
// there is a row, so pages of -1 become 0. With no sequence it would leave a copy running after its end, so it always
// gets one sequence of at least one token. It leaves arbitrary values in rows of padding, so these are cleared.
func (m *mosaicKernels) emitAttention(f *program.Function, attrs json.RawMessage, inputs []*stablehlo.Value,
	_ []shapes.Shape) ([]*stablehlo.Value, error) {
	in := make([]shapes.Shape, len(inputs))
	for i, v := range inputs {
		in[i] = program.FromXLA(v.Shape())
	}
	call, err := m.attention(attrs, in)
	if err != nil {
		return nil, err
	}
	s := steps{f: f}
	table := s.atLeast(inputs[inputPageIndices], 0)
	if columns := call.Operands[1].Shape.Dimensions[1]; columns > in[inputPageIndices].Dimensions[1] {
		table = s.padColumns(table, columns)
	}
	seqs := in[inputSeqLens].Dimensions[0]
	firstOf := make([]int32, seqs)
	firstOf[0] = 1
	others := slices.Repeat([]int32{1}, seqs+1)
	others[0] = 0
	operands := []*stablehlo.Value{
		s.max(inputs[inputSeqLens], s.ints(firstOf...)),
		table,
		s.max(inputs[inputCuQLens], s.ints(others...)),
		s.ints(0, 0),
		s.reshape(s.atLeast(inputs[inputNumSeqs], 1), 1),
		inputs[inputQ],
		inputs[inputCache],
	}
	out := m.call(&s, call, operands)
	padding := s.less(inputs[inputTokenSeqs], 0)
	return []*stablehlo.Value{s.zeroRows(out[0], padding)}, s.err
}

// call emits the custom call. Operands must be exactly what the kernel was made for, because the compiler does not
// check.
func (m *mosaicKernels) call(s *steps, call *mosaic.Call, operands []*stablehlo.Value) []*stablehlo.Value {
	results := make([]*stablehlo.Value, len(call.Results))
	s.do(func() (*stablehlo.Value, error) {
		if len(operands) != len(call.Operands) {
			return nil, fmt.Errorf("the kernel was made for %d operands, and is given %d", len(call.Operands),
				len(operands))
		}
		for i, v := range operands {
			if got, want := program.FromXLA(v.Shape()), call.Operands[i]; !got.Equal(want.Shape) {
				return nil, fmt.Errorf("operand %s of the kernel is %s, but it was made for %s", want.Name, got,
					want.Shape)
			}
		}
		if m.standIn != nil {
			out, err := m.standIn.call(s.f, call, operands)
			copy(results, out)
			return nil, err
		}
		shapes := make([]xlashapes.Shape, len(results))
		for i, r := range call.Results {
			shapes[i] = program.ToXLA(r.Shape)
		}
		out, err := stablehlo.CustomCallV2(mosaic.Target, call.BackendConfig, operands, make([][]int, len(operands)),
			shapes, make([][]int, len(results)))
		if err != nil {
			return nil, err
		}
		// The builder writes version 2; libtpu's kernels have version 1, the original one.
		attributes := s.f.LastStatement().Attributes
		attributes["api_version"] = int32(1)
		attributes["kernel_name"] = call.Payload.Kernel
		var aliases []string
		for _, a := range call.Payload.Aliases {
			aliases = append(aliases,
				fmt.Sprintf(
					"#stablehlo.output_operand_alias<output_tuple_indices = [%d], operand_index = %d, "+
						"operand_tuple_indices = []>", a[1], a[0]))
		}
		if len(aliases) > 0 {
			attributes["output_operand_aliases"] = program.MLIR("[" + strings.Join(aliases, ", ") + "]")
		}
		copy(results, out)
		s.f.Program().RecordCall(call)
		return nil, nil
	})
	return results
}
