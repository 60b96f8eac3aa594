package linear_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/linear"
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

// expertWeights are random matrices of all experts, of floats in bfloat16 or in blocks of a format: those of the first
// one again and again.
func expertWeights(b *testing.B, backend compute.Backend, name string, m linear.Matrix, experts int) (linear.Format,
	arrayOf) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	f := linear.NewFormat(backend, m)
	one := reflect.MakeSlice(reflect.SliceOf(m.DType.GoType()), f.Shape().Size(), f.Shape().Size())
	if m.Blocks.Is() {
		l := layer{dtype: dtypes.BFloat16, out: m.Out, in: m.In}.inBlocks(m.Blocks, 1)
		if err := f.PackBlocks(backend, 0, one.Interface(), l.blocks, 0); err != nil {
			b.Fatal(err)
		}
	} else {
		for i, flat := 0, one.Interface().([]bfloat16.BFloat16); i < len(flat); i++ {
			flat[i] = bfloat16.FromFloat32(float32(random.NormFloat64()) / 64)
		}
	}
	all := reflect.MakeSlice(one.Type(), 0, experts*one.Len())
	for range experts {
		all = reflect.AppendSlice(all, one)
	}
	shape := shapes.Make(m.DType, append([]int{experts}, f.Shape().Dimensions...)...)
	return f, arrayOf{name, shape, all.Interface()}
}

// BenchmarkExperts runs a layer's experts of Qwen3-30B-A3B with random weights, in bfloat16 and in blocks, and says how
// long it takes by how long the weights of the experts in use take to be read once: see bench/kernels.md.
func BenchmarkExperts(b *testing.B) {
	for _, f := range []blocks.Format{{}, blocks.Q8_0, blocks.Q4_0, blocks.Q4_K, blocks.Q6_K, blocks.MXFP4} {
		name, dtype := "BFloat16", dtypes.BFloat16
		if f.Is() {
			name, dtype = f.String(), dtypes.Uint8
		}
		b.Run(name, func(b *testing.B) { benchmarkExperts(b, dtype, f) })
	}
}

func benchmarkExperts(b *testing.B, dtype dtypes.DType, blocksOf blocks.Format) {
	const experts, k, in, inner = 128, 8, 2048, 768
	backend := testenv.XLA(b)
	random := rand.New(rand.NewPCG(1, 1))
	noise := make([]bfloat16.BFloat16, 512*in)
	for i := range noise {
		noise[i] = bfloat16.FromFloat32(float32(random.NormFloat64()) / 64)
	}
	up, upArray := expertWeights(b, backend, "up", linear.Matrix{Out: 2 * inner, In: in, GateUp: true, DType: dtype,
		Blocks: blocksOf}, experts)
	down, downArray := expertWeights(b, backend, "down", linear.Matrix{Out: in, In: inner, DType: dtype,
		Blocks: blocksOf}, experts)
	arrays := upAll(b, backend, []arrayOf{upArray, downArray})
	each := float64(up.Bytes() + down.Bytes())
	peak, err := cpukernel.MeasurePeak(runtime.NumCPU())
	if err != nil {
		b.Fatal(err)
	}
	for _, rows := range []int{1, 16, 64, 512} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			g := NewGraph(backend, "experts")
			e := linear.Experts{Up: linear.Weight{Format: up}, Down: linear.Weight{Format: down},
				Activation: linear.SiLU}
			e.Up.Data, e.Down.Data = Parameter(g, "up", upArray.shape), Parameter(g, "down", downArray.shape)
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
			buffers := append(slices.Clip(arrays), upAll(b, backend, []arrayOf{{"x", x.Shape(), noise[:rows*in]},
				{"experts", routes.Experts.Shape(), chosen}})...)
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
			bytes := float64(len(used)) * each
			seconds := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(seconds/(bytes/peak.Read), "x-reading")
			b.ReportMetric(seconds*peak.BFloat16/(float64(rows)*k*3*in*inner*2), "x-arithmetic")
			b.ReportMetric(float64(len(used)), "experts")
		})
	}
}
