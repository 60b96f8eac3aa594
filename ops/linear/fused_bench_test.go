package linear_test

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/nn"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/linear"
)

// BenchmarkQuantizedDense compares an int8 matrix in linear.Apply with GoMLX's quantized dense layer, which XLA runs as
// ordinary operations: see docs/dependencies.md.
func BenchmarkQuantizedDense(b *testing.B) {
	const out, in = 8192, 2048
	for _, rows := range []int{16, 256} {
		b.Run(fmt.Sprintf("rows=%d/linear", rows), func(b *testing.B) {
			backend := testenv.XLA(b)
			l := layer{dtype: dtypes.Float32, weights: dtypes.Int8, out: out, in: in, rows: rows}.filled(1)
			g := NewGraph(backend, "linear")
			w, buffers := l.weight(b, backend, g, linear.NewFormat(backend, l.matrix()))
			x := Parameter(g, "x", shapes.Make(dtypes.Float32, rows, in))
			buffers = append(buffers, upload(b, backend, l.x[:rows*in], x.Shape()))
			measure(b, g, linear.Apply(x, w, linear.Options{Rows: Const(g, int32(rows))}), buffers)
		})
		b.Run(fmt.Sprintf("rows=%d/GoMLX-int8", rows), func(b *testing.B) {
			backend := testenv.XLA(b)
			g := NewGraph(backend, "int8")
			x := Parameter(g, "x", shapes.Make(dtypes.Float32, rows, in))
			w := Parameter(g, "w", shapes.Make(dtypes.Int8, in, out))
			scale := Parameter(g, "scale", shapes.Make(dtypes.Float32, in, out/32))
			y := nn.QuantizedDense(x, w, &Quantization{Scheme: compute.QuantLinear, Scale: scale, BlockAxis: 1,
				BlockSize: 32}, nil)
			measure(b, g, y, []compute.Buffer{upload(b, backend, make([]float32, rows*in), x.Shape()),
				upload(b, backend, make([]int8, in*out), w.Shape()),
				upload(b, backend, make([]float32, in*out/32), scale.Shape())})
		})
		b.Run(fmt.Sprintf("rows=%d/GoMLX-Q8_0", rows), func(b *testing.B) {
			backend := testenv.XLA(b)
			g := NewGraph(backend, "q8")
			x := Parameter(g, "x", shapes.Make(dtypes.Float32, rows, in))
			w := Parameter(g, "w", shapes.Make(dtypes.Uint8, out, in/32*34)) // blocks of 32 values and a scale
			y := nn.QuantizedDense(x, w, &Quantization{Scheme: compute.QuantGGML, GGMLType: compute.GGMLQ8_0}, nil)
			measure(b, g, y, []compute.Buffer{upload(b, backend, make([]float32, rows*in), x.Shape()),
				upload(b, backend, make([]uint8, out*in/32*34), w.Shape())})
		})
	}
}

// measure runs the graph with its result read back.
func measure(b *testing.B, g *Graph, y *Node, buffers []compute.Buffer) {
	b.Helper()
	b.Cleanup(g.Finalize)
	if err := g.Compile(y); err != nil {
		b.Fatal(err)
	}
	got := make([]float32, y.Shape().Size())
	for b.Loop() {
		out, err := g.Executable().Execute(buffers, make([]bool, len(buffers)), 0)
		if err != nil {
			b.Fatal(err)
		}
		if err := out[0].ToFlatData(got); err != nil {
			b.Fatal(err)
		}
	}
}
