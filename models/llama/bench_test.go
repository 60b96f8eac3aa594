package llama_test

import (
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models/llama"
)

// BenchmarkMatmuls runs just the matrix products of a decode step of SmolLM2 with 64 rows in float32: what a step can't be faster than
// as long as XLA computes them. Hold it beside seconds_a_step of bench/decode_vs_llama.sh.
func BenchmarkMatmuls(b *testing.B) {
	const rows = 64
	backend, ckpt := testenv.XLA(b), testenv.SmolLM2(b)
	var weights []compute.Buffer
	var arrays []llama.Array
	for _, a := range llama.Arrays(ckpt.Config) {
		if len(a.Shape) != 2 {
			continue
		}
		flat, err := a.Read(ckpt, dtypes.Float32)
		if err != nil {
			b.Fatal(err)
		}
		buffer, err := backend.BufferFromFlatData(0, flat, shapes.Make(dtypes.Float32, a.Shape...))
		if err != nil {
			b.Fatal(err)
		}
		arrays, weights = append(arrays, a), append(weights, buffer)
	}
	g := NewGraph(backend, "matmuls")
	byWidth := map[int]*Node{} // an input of each width that the products take
	var params, results []*Node
	for _, a := range arrays {
		params = append(params, Parameter(g, strings.ReplaceAll(a.Name, ".", "_"), shapes.Make(dtypes.Float32, a.Shape...)))
	}
	for i, w := range append(params[1:len(params):len(params)], params[0]) { // the embedding is the last product, the logits
		in := w.Shape().Dimensions[1]
		if byWidth[in] == nil {
			byWidth[in] = DivScalar(OnesLike(Iota(g, shapes.Make(dtypes.Float32, rows, in), 0)), float64(i+1))
		}
		y := Dot(byWidth[in], w).General([]int{1}, nil, []int{1}, nil)
		results = append(results, ReduceAllSum(y))
		// The next product of this width waits for this one, as in the model.
		byWidth[in] = Add(byWidth[in], MulScalar(SliceAxis(y, 1, AxisRange(0, 1)), 1e-9))
	}
	if err := g.Compile(results...); err != nil {
		b.Fatal(err)
	}
	defer g.Finalize()
	for b.Loop() {
		out, err := g.Executable().Execute(weights, make([]bool, len(weights)), 0)
		if err != nil {
			b.Fatal(err)
		}
		for _, o := range out {
			_ = o.Finalize()
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}
