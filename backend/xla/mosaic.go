package xla

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/go-xla/types"
	xlashapes "github.com/gomlx/go-xla/types/shapes"

	"github.com/quire/quire/backend/xla/mosaic"
	"github.com/quire/quire/backend/xla/triton"
)

// mosaicKernels are a TPU backend's payloads, and what they were used for.
type mosaicKernels struct {
	store *mosaic.Store
	uses  *kernelUses

	mu      sync.Mutex
	refused map[*mosaic.Payload]string // payloads that did not fit into a core's memory, and why
}

// addMosaic makes the kernels of package mosaic the native form of their composites, for the shapes that there is one
// for.
func (b *Backend) addMosaic(mode, folder string) error {
	if mode == KernelsOff || b.platform != "tpu" {
		return nil
	}
	store, err := mosaic.Open(folder)
	if err != nil {
		return err
	}
	b.uses = &kernelUses{}
	b.mosaic = &mosaicKernels{store: store, uses: b.uses}
	b.composites[mosaic.RaggedPagedAttention] = b.mosaic.emitAttention
	b.composites[mosaic.PagedAttentionUpdate] = b.mosaic.emitUpdate
	return nil
}

// ReplacesCompositeFor reports whether the backend has a native form of the composite op for inputs and results of
// these shapes. It asks for more than ReplacesComposite where kernels are made for certain shapes, as on TPU and GPU.
func (b *Backend) ReplacesCompositeFor(op string, attrs json.RawMessage, inputs, results []shapes.Shape) bool {
	if !b.ReplacesComposite(op) {
		if op == latentAttention && b.uses != nil {
			b.uses.note(KernelUse{Composite: op, For: fmt.Sprintf("queries %s", inputs[inputQ]),
				Reason: "no kernel has values that are keys: ordinary operations are used"})
		}
		return false
	}
	var err error
	switch {
	case b.triton != nil:
		if op == triton.RaggedPagedAttention || op == triton.LatentAttention {
			_, err = b.triton.attention(op, attrs, inputs)
		}
		return err == nil
	case b.mosaic == nil:
		// The kernels in C read caches with an axis for heads.
		return !slices.Contains(cacheOps, op) || cacheAxes(op, inputs) == 4
	}
	switch op {
	case mosaic.RaggedPagedAttention:
		_, err = b.mosaic.attention(attrs, inputs)
	case mosaic.PagedAttentionUpdate:
		_, err = b.mosaic.update(attrs, inputs)
	}
	return err == nil
}

// cacheOps are the composites on a cache of package attention, which is their first input, but the second of attention.
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

// attentionAttributes are those of the composites.
type attentionAttributes struct {
	Scale    float64 `json:"scale"`
	SoftCap  float64 `json:"soft_cap"`
	Window   int     `json:"window"`
	Paged    bool    `json:"paged"`
	OneToken bool    `json:"one_token"`

	sinks bool // scores beside those of keys, one of each head, are an input behind the others
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
	if err := m.uses.refuseQuantized(mosaic.RaggedPagedAttention, inputs[inputCache]); err != nil {
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

// find looks for a payload, and notes what came of it.
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
// The kernel wants other things of its operands than the composite does. It reads page 0 of a row's list before it
// knows whether there is a row, so that pages of -1 become 0. With no sequence at all it would leave a copy running
// behind its end, so that it always gets one, of at least one token. What it leaves in rows of padding is arbitrary:
// they are made 0.
func (m *mosaicKernels) emitAttention(f *function, attrs json.RawMessage, inputs []*stablehlo.Value,
	_ []shapes.Shape) ([]*stablehlo.Value, error) {
	in := make([]shapes.Shape, len(inputs))
	for i, v := range inputs {
		in[i] = fromXLA(v.Shape())
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
	out := s.mosaicCall(call, operands)
	padding := s.less(inputs[inputTokenSeqs], 0)
	return []*stablehlo.Value{s.zeroRows(out[0], padding)}, s.err
}

// steps emits operations one after another, and none after the first error.
type steps struct {
	f   *function
	err error
}

func (s *steps) do(emit func() (*stablehlo.Value, error)) *stablehlo.Value {
	if s.err != nil {
		return nil
	}
	v, err := emit()
	s.err = err
	return v
}

func (s *steps) ints(values ...int32) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value,
		error) {
		return s.f.constant(values, shapes.Make(dtypes.Int32, len(values)))
	})
}

func (s *steps) max(x, y *stablehlo.Value) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) { return stablehlo.Maximum(x, y) })
}

func (s *steps) reshape(x *stablehlo.Value, dims ...int) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		return stablehlo.Reshape(x, xlashapes.Make(x.Shape().DType, dims...))
	})
}

// filled emits an array of x's shape with one value.
func (s *steps) filled(x *stablehlo.Value, value int32) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		v, err := s.f.scalar(value)
		if err != nil {
			return nil, err
		}
		return stablehlo.BroadcastInDim(v, x.Shape(), nil)
	})
}

func (s *steps) atLeast(x *stablehlo.Value, least int32) *stablehlo.Value {
	return s.max(x, s.filled(x, least))
}

func (s *steps) less(x *stablehlo.Value, than int32) *stablehlo.Value {
	bound := s.filled(x, than)
	return s.do(func() (*stablehlo.Value, error) {
		return stablehlo.Compare(x, bound, types.CompareLT, types.CompareSigned)
	})
}

// padColumns widens a table with columns of zeros.
func (s *steps) padColumns(x *stablehlo.Value, columns int) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		zero, err := s.f.scalar(int32(0))
		if err != nil {
			return nil, err
		}
		return stablehlo.Pad(x, zero, []int{0, 0}, []int{0, columns - x.Shape().Dimensions[1]}, []int{0, 0})
	})
}

// zeroRows makes the rows of x zero where mask, bool[T], holds.
func (s *steps) zeroRows(x, mask *stablehlo.Value) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		shape := x.Shape()
		wide, err := stablehlo.BroadcastInDim(mask, xlashapes.Make(dtypes.Bool, shape.Dimensions...), []int{0})
		if err != nil {
			return nil, err
		}
		zero, err := s.f.scalar(int32(0))
		if err != nil {
			return nil, err
		}
		if zero, err = stablehlo.Convert(zero, shape.DType); err != nil {
			return nil, err
		}
		if zero, err = stablehlo.BroadcastInDim(zero, shape, nil); err != nil {
			return nil, err
		}
		return stablehlo.Select(wide, zero, x)
	})
}

// mosaicCall emits the custom call. Operands must be exactly what the kernel was made for: the compiler does not check.
func (s *steps) mosaicCall(call *mosaic.Call, operands []*stablehlo.Value) []*stablehlo.Value {
	results := make([]*stablehlo.Value, len(call.Results))
	s.do(func() (*stablehlo.Value, error) {
		if len(operands) != len(call.Operands) {
			return nil, fmt.Errorf("the kernel was made for %d operands, and is given %d", len(call.Operands),
				len(operands))
		}
		for i, v := range operands {
			if got, want := fromXLA(v.Shape()), call.Operands[i]; !got.Equal(want.Shape) {
				return nil, fmt.Errorf("operand %s of the kernel is %s, but it was made for %s", want.Name, got,
					want.Shape)
			}
		}
		if stand := s.f.b.backend.standIn; stand != nil {
			out, err := s.standIn(stand, call, operands)
			copy(results, out)
			return nil, err
		}
		shapes := make([]xlashapes.Shape, len(results))
		for i, r := range call.Results {
			shapes[i] = toXLA(r.Shape)
		}
		out, err := stablehlo.CustomCallV2(mosaic.Target, call.BackendConfig, operands, make([][]int, len(operands)),
			shapes, make([][]int, len(results)))
		if err != nil {
			return nil, err
		}
		// The builder writes version 2; libtpu's kernels are of version 1, the original one.
		attributes := s.f.fn.Statements[len(s.f.fn.Statements)-1].Attributes
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
			attributes["output_operand_aliases"] = mlir("[" + strings.Join(aliases, ", ") + "]")
		}
		copy(results, out)
		s.f.b.calls = append(s.f.b.calls, newKernelCall(call))
		return nil, nil
	})
	return results
}
