package linear_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/linear"
)

// arrayOf is an array of the device and its numbers.
type arrayOf struct {
	name  string
	shape shapes.Shape
	flat  any
}

func upAll(b *testing.B, backend compute.Backend, arrays []arrayOf) (buffers []compute.Buffer) {
	for _, a := range arrays {
		buffer := upload(b, backend, a.flat, a.shape)
		b.Cleanup(func() { _ = buffer.Finalize() })
		buffers = append(buffers, buffer)
	}
	return buffers
}

// BenchmarkExperts runs a layer's experts of Qwen3-30B-A3B in bfloat16 with random weights, and says how long it takes
// by how long the weights of the experts in use take to be read once: see docs/kernels.md.
func BenchmarkExperts(b *testing.B) {
	const experts, k, in, inner = 128, 8, 2048, 768
	backend := testenv.XLA(b)
	random := rand.New(rand.NewPCG(1, 1))
	noise := make([]bfloat16.BFloat16, 1<<20)
	for i := range noise {
		noise[i] = bfloat16.FromFloat32(float32(random.NormFloat64()) / 64)
	}
	var arrays []arrayOf
	weight := func(name string, m linear.Matrix) linear.Weight {
		f := linear.NewFormat(backend, m)
		shape := shapes.Make(m.DType, append([]int{experts}, f.Shape().Dimensions...)...)
		flat := make([]bfloat16.BFloat16, shape.Size())
		for at := 0; at < len(flat); {
			at += copy(flat[at:], noise)
		}
		arrays = append(arrays, arrayOf{name, shape, flat})
		return linear.Weight{Format: f}
	}
	up := weight("up", linear.Matrix{Out: 2 * inner, In: in, GateUp: true, DType: dtypes.BFloat16})
	down := weight("down", linear.Matrix{Out: in, In: inner, DType: dtypes.BFloat16})
	peak, err := cpukernel.MeasurePeak(runtime.NumCPU())
	if err != nil {
		b.Fatal(err)
	}
	for _, rows := range []int{1, 16, 64, 512} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			g := NewGraph(backend, "experts")
			e := linear.Experts{Up: up, Down: down, Activation: linear.SiLU}
			e.Up.Data, e.Down.Data = Parameter(g, "up", arrays[0].shape), Parameter(g, "down", arrays[1].shape)
			chosen, used := make([]int32, rows*k), map[int32]bool{}
			for row := range rows {
				for i, of := range random.Perm(experts)[:k] {
					chosen[row*k+i] = int32(of)
					used[int32(of)] = true
				}
			}
			x := Parameter(g, "x", shapes.Make(dtypes.BFloat16, rows, in))
			routes := linear.Routes{Experts: Parameter(g, "experts", shapes.Make(dtypes.Int32, rows, k)),
				Shares: MulScalar(Ones(g, shapes.Make(dtypes.Float32, rows, k)), 1.0/k)}
			buffers := upAll(b, backend, append(arrays, arrayOf{"x", x.Shape(), noise[:rows*in]},
				arrayOf{"experts", routes.Experts.Shape(), chosen}))
			b.Cleanup(g.Finalize)
			y := ConvertDType(e.Apply(x, routes, linear.Options{}), dtypes.Float32)
			if err := g.Compile(ReduceAllSum(y)); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				out, err := g.Executable().Execute(buffers, make([]bool, len(buffers)), 0)
				if err != nil {
					b.Fatal(err)
				}
				if err := out[0].ToFlatData(make([]float32, 1)); err != nil {
					b.Fatal(err)
				}
			}
			bytes := float64(len(used)) * 3 * in * inner * 2
			seconds := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(seconds/(bytes/peak.Read), "x-reading")
			b.ReportMetric(seconds*peak.BFloat16/(float64(rows)*k*3*in*inner*2), "x-arithmetic")
			b.ReportMetric(float64(len(used)), "experts")
		})
	}
}
