package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/internal/program"
	"github.com/quire/quire/backend/xla/triton"
)

// hasTriton reports whether Triton compiles for an NVIDIA GPU. It does from A100 on.
func hasTriton(device pjrtc.Device) bool {
	capability, _ := device.Attributes["compute_capability"].(string)
	return !strings.HasPrefix(capability, "7.") && !strings.HasPrefix(capability, "6.")
}

// tritonKernels finds the kernels for calls of composites, and notes what became of them.
type tritonKernels struct{ uses *kernelUses }

// attention finds the kernels for a call of the composite op, and notes what became of it.
func (k *tritonKernels) attention(op string, attrs json.RawMessage, inputs []shapes.Shape) ([]triton.Call, error) {
	a, err := attentionOf(attrs, inputs)
	if err != nil {
		return nil, err
	}
	q, cache, table := inputs[inputQ].Dimensions, inputs[inputCache].Dimensions, inputs[inputPageIndices].Dimensions
	if len(q) != 3 || len(cache) != 4 || len(table) != 2 {
		return nil, fmt.Errorf("queries %s, cache %s and page table %s are not of 3, 4 and 2 axes", inputs[inputQ],
			inputs[inputCache], inputs[inputPageIndices])
	}
	if a.sinks && !inputs[attentionInputs].Equal(shapes.Make(dtypes.Float32, q[1])) {
		return nil, fmt.Errorf("sinks %s of %d heads", inputs[attentionInputs], q[1])
	}
	if err := k.uses.refuseQuantized(op, inputs[inputCache], "auto"); err != nil {
		return nil, err
	}
	want := triton.Attention{
		Heads: q[1], KVHeads: cache[2] / 2, HeadDim: q[2], PageSize: cache[1], DType: inputs[inputCache].DType,
		Scale: a.Scale, Window: a.Window, SoftCap: a.SoftCap, Sinks: a.sinks,
		Tokens: q[0], Rows: table[0], PagesPerSeq: table[1],
	}
	if op == triton.LatentAttention {
		want.KVHeads, want.Latent = cache[2], true
	}
	var calls []triton.Call
	err = &triton.NoKernelError{Reason: "the cache is contiguous"}
	if a.Paged {
		calls, err = want.Calls()
	}
	use := KernelUse{Composite: op, For: want.String()}
	var none *triton.NoKernelError
	switch {
	case errors.As(err, &none):
		use.Reason = none.Reason
	case err != nil:
		return nil, err
	default:
		first := calls[0].Kernel
		use.Kernel = fmt.Sprintf("Triton %s, blocks of %d queries and %d tokens, contexts in %d parts", first.Form,
			first.M, first.N, calls[0].Grid[2])
	}
	k.uses.note(use)
	return calls, err
}

// emitter returns the emitter of the composite op.
func (k *tritonKernels) emitter(op string) program.Emitter {
	return func(f *program.Function, attrs json.RawMessage, inputs []*stablehlo.Value,
		results []shapes.Shape) ([]*stablehlo.Value, error) {
		return k.emitAttention(op, f, attrs, inputs, results)
	}
}

// emitAttention emits the kernels for a call of the composite op.
func (k *tritonKernels) emitAttention(op string, f *program.Function, attrs json.RawMessage, inputs []*stablehlo.Value,
	results []shapes.Shape) ([]*stablehlo.Value, error) {
	in := make([]shapes.Shape, len(inputs))
	for i, v := range inputs {
		in[i] = program.FromXLA(v.Shape())
	}
	calls, err := k.attention(op, attrs, in)
	if err != nil {
		return nil, err
	}
	q, rows, positions := inputs[inputQ], inputs[inputTokenSeqs], inputs[inputPosIDs]
	if q, err = stablehlo.Convert(q, in[inputCache].DType); err != nil {
		return nil, err
	}
	operands := []*stablehlo.Value{q, inputs[inputCache], inputs[inputPageIndices], rows, positions}
	for _, c := range calls {
		if c.Kernel.Sink {
			operands = append(operands, inputs[attentionInputs])
		}
		out, err := tritonCall(f, c, operands)
		if err != nil {
			return nil, err
		}
		operands = append(out, rows, positions)
	}
	out, err := stablehlo.Convert(operands[0], results[0].DType)
	return []*stablehlo.Value{out}, err
}

// tritonCall emits the custom call. The kernel's pointers are the operands, then the results.
func tritonCall(f *program.Function, c triton.Call, operands []*stablehlo.Value) ([]*stablehlo.Value, error) {
	config := fmt.Sprintf(
		"{name = %s, ir = %s, num_warps = %d : i32, num_stages = %d : i32, grid_x = %d : i32, grid_y = %d : i32, "+
			"grid_z = %d : i32, debug = false}",
		mlirString(c.Kernel.Name), mlirString(c.IR), c.Kernel.Warps, c.Kernel.Stages, c.Grid[0], c.Grid[1], c.Grid[2])
	return f.FFICall(triton.Target, config, operands, c.Results)
}

// mlirString quotes a text as MLIR does.
func mlirString(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&out, `\%02X`, c)
		} else {
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
	return out.String()
}
