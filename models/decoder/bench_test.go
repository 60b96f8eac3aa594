package decoder_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/linear"
)

// BenchmarkMatmuls runs just the linear layers of a decode step of SmolLM2, with kernels and as XLA does them itself.
func BenchmarkMatmuls(b *testing.B) {
	ckpt := testenv.SmolLM2(b)
	for _, backend := range []*xla.Backend{testenv.XLA(b), testenv.XLAWithoutKernels(b)} {
		for _, form := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Int8} {
			s := decoder.Storage{Backend: backend, DType: form}
			if form == dtypes.Int8 {
				s.DType, s.Int8 = dtypes.BFloat16, true
			}
			weights, flops := load(b, ckpt, s)
			for _, rows := range []int{1, 4, 16, 64, 256} {
				b.Run(fmt.Sprintf("kernels=%s/%s/rows=%d", backend.Kernels(), form, rows), func(b *testing.B) {
					run := products(b, ckpt.Config, s, rows)
					run(weights)
					before, best := processorTime(), time.Duration(math.MaxInt64)
					for b.Loop() {
						start := time.Now()
						run(weights)
						best = min(best, time.Since(start))
					}
					// On a machine with other work, processor time and the best run are more meaningful than the
					// mean.
					b.ReportMetric((processorTime()-before).Seconds()*1e3/float64(b.N), "cpu-ms/op")
					b.ReportMetric(best.Seconds()*1e3, "best-ms/op")
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

// processorTime is what the process has used of all processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// load returns the arrays on the backend, and how many operations the products of one row are.
func load(b *testing.B, ckpt *models.Checkpoint, s decoder.Storage) (weights []compute.Buffer, flops float64) {
	for _, a := range decoder.Arrays(ckpt.Config, s) {
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

// products compiles the linear layers of a step, each on the results of the one before, with nothing in between.
func products(b *testing.B, cfg models.Config, s decoder.Storage, rows int) func(weights []compute.Buffer) {
	g := NewGraph(s.Backend, "products")
	b.Cleanup(g.Finalize)
	arrays, planes, matrices := decoder.Arrays(cfg, s), map[string]*Node{}, map[string]linear.Weight{}
	for _, a := range arrays {
		planes[a.Name] = Parameter(g, strings.ReplaceAll(a.Name, ".", "_"), a.Shape)
	}
	for _, a := range arrays {
		if f, ok := a.Matrix(); ok {
			matrices[a.Name] = linear.NewWeight(f, func(suffix string) *Node { return planes[a.Name+suffix] })
		}
	}
	x := ConvertDType(DivScalar(OnesLike(Iota(g, shapes.Make(dtypes.Float32, rows, cfg.HiddenSize), 0)), 10), s.DType)
	apply := func(name string, x, residual *Node, a linear.Activation) *Node {
		return linear.Apply(x, matrices[name], linear.Options{Residual: residual, Activation: a})
	}
	for i := range cfg.NumLayers {
		p := fmt.Sprintf("layers.%d.", i)
		qkv := apply(p+"qkv.weight", x, nil, linear.None)
		x = apply(p+"o.weight", SliceAxis(qkv, 1, AxisRange(0, cfg.NumHeads*cfg.HeadDim)), x, linear.None)
		x = apply(p+"down.weight", apply(p+"gate_up.weight", x, nil, linear.SiLU), x, linear.None)
	}
	last := linear.Apply(x, matrices["embed"], linear.Options{Float32: true})
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
