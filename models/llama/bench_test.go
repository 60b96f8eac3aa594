package llama_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/linear"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/llama"
	"github.com/quire/quire/xla"
)

// BenchmarkMatmuls runs just the linear layers of a decode step of SmolLM2, with kernels and as XLA does them itself.
func BenchmarkMatmuls(b *testing.B) {
	ckpt := testenv.SmolLM2(b)
	for _, backend := range []*xla.Backend{testenv.XLA(b), testenv.XLAWithoutKernels(b)} {
		for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
			s := llama.Storage{Backend: backend, DType: dtype}
			weights, flops := load(b, ckpt, s)
			for _, rows := range []int{1, 16, 64, 256} {
				b.Run(fmt.Sprintf("kernels=%s/%s/rows=%d", backend.Kernels(), dtype, rows), func(b *testing.B) {
					run := products(b, ckpt.Config, s, rows)
					run(weights)
					for b.Loop() {
						run(weights)
					}
					b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
					b.ReportMetric(float64(rows)*flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
			for _, w := range weights {
				_ = w.Finalize()
			}
		}
	}
}

// load returns the arrays on the backend, and how many operations the products of one row are.
func load(b *testing.B, ckpt *models.Checkpoint, s llama.Storage) (weights []compute.Buffer, flops float64) {
	for _, a := range llama.Arrays(ckpt.Config, s) {
		buffer, err := a.Load(s.Backend, 0, ckpt)
		if err != nil {
			b.Fatal(err)
		}
		weights = append(weights, buffer)
		if f, ok := a.Matrix(); ok {
			flops += 2 * float64(f.Out) * float64(f.In)
		}
	}
	return weights, flops
}

// products compiles the linear layers of a step: each waits for the one before, as in the model.
func products(b *testing.B, cfg models.Config, s llama.Storage, rows int) func(weights []compute.Buffer) {
	g := NewGraph(s.Backend, "products")
	b.Cleanup(g.Finalize)
	x := map[int]*Node{} // what a layer of this many inputs takes
	for _, width := range []int{cfg.HiddenSize, cfg.NumHeads * cfg.HeadDim, cfg.IntermediateSize} {
		x[width] = ConvertDType(DivScalar(OnesLike(Iota(g, shapes.Make(dtypes.Float32, rows, width), 0)), 10), s.DType)
	}
	arrays := llama.Arrays(cfg, s)
	nodes := make([]*Node, len(arrays))
	for i, a := range arrays {
		nodes[i] = Parameter(g, strings.ReplaceAll(a.Name, ".", "_"), a.Shape)
	}
	order := make([]int, 0, len(arrays)) // the embedding is the last product, the logits
	for i := range arrays {
		order = append(order, (i+1)%len(arrays))
	}
	var last *Node
	for _, i := range order {
		f, ok := arrays[i].Matrix()
		if !ok {
			continue
		}
		o := linear.Options{Float32: i == 0}
		if !o.Float32 && !f.GateUp && f.Out == cfg.HiddenSize {
			o.Residual = x[cfg.HiddenSize]
		}
		last = linear.Apply(x[f.In], linear.Weight{Format: f, Data: nodes[i]}, o)
		for width := range x {
			part := SliceAxis(last, 1, AxisRange(0, 1))
			x[width] = Add(x[width], MulScalar(ConvertDType(part, s.DType), 1e-9))
		}
	}
	if err := g.Compile(ReduceAllSum(ConvertDType(last, dtypes.Float32))); err != nil {
		b.Fatal(err)
	}
	return func(weights []compute.Buffer) {
		out, err := g.Executable().Execute(slices.Clone(weights), make([]bool, len(weights)), 0)
		if err != nil {
			b.Fatal(err)
		}
		sum := make([]float32, 1)
		if err := out[0].ToFlatData(sum); err != nil {
			b.Fatal(err)
		}
		_ = out[0].Finalize()
	}
}
