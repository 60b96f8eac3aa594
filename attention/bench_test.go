package attention_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/tokenqueue"
)

var peak = sync.OnceValues(func() (cpukernel.Peak, error) { return cpukernel.MeasurePeak(runtime.NumCPU()) })

// benchAttention runs attention alone: seqs sequences whose last fresh tokens, up to position length, are new, in pages
// of page tokens. Beside 8-bit keys and values queries are bfloat16.
func benchAttention(b *testing.B, heads, kvHeads, headDim, seqs, length, fresh, page int, dtype dtypes.DType) {
	perSeq := (length + page - 1) / page
	layout := attention.PagedLayout(seqs*perSeq, page, kvHeads, headDim, dtype)
	if layout.Quantized() {
		dtype = dtypes.BFloat16
	}
	backend := testenv.XLA(b)
	view := backend.Donating(nil).(*xla.View)
	g := NewGraph(view, "attention")
	tokens := seqs * fresh
	i32 := func(name string, dims ...int) *Node { return Parameter(g, name, shapes.Make(dtypes.Int32, dims...)) }
	cache, q := Parameter(g, "cache", layout.Shape()), Parameter(g, "q", shapes.Make(dtype, tokens, heads, headDim))
	batch := tokenqueue.PageBatchInfo{SlotIDs: i32("slots", seqs), PageIndices: i32("pages", seqs, perSeq),
		SeqLens: i32("lens", seqs),
		CuQLens: i32("starts", seqs+1), NumSeqs: i32("seqs"), TokenSeqs: i32("token_seqs", tokens),
		PosIDs: i32("positions", tokens), PageSize: page}
	if err := g.Compile(layout.RaggedPagedAttention(q, cache, batch,
		attention.Options{Scale: 0.125, OneTokenPerSeq: fresh == 1})); err != nil {
		b.Fatal(err)
	}
	exec := view.Executables()[0]

	values := make([][]int32, 7)
	for i := range seqs {
		values[0], values[2], values[3] = append(values[0], int32(i)), append(values[2], int32(length)),
			append(values[3], int32(i*fresh))
		for t := range fresh {
			values[5], values[6] = append(values[5], int32(i)), append(values[6], int32(length-fresh+t))
		}
	}
	for _, p := range rand.New(rand.NewPCG(1, 1)).Perm(seqs * perSeq) {
		values[1] = append(values[1], int32(p))
	}
	values[3], values[4] = append(values[3], int32(tokens)), []int32{int32(seqs)}
	inputs := []compute.Buffer{random(b, backend, layout.Shape()), random(b, backend, q.Shape())}
	for i, n := range []*Node{batch.SlotIDs, batch.PageIndices, batch.SeqLens, batch.CuQLens, batch.NumSeqs,
		batch.TokenSeqs, batch.PosIDs} {
		buffer, err := backend.BufferFromFlatData(0, values[i], n.Shape())
		if err != nil {
			b.Fatal(err)
		}
		inputs = append(inputs, buffer)
	}
	most, err := peak()
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		out, err := exec.ExecuteAsync(inputs, make([]bool, len(inputs))).Await()
		if err != nil {
			b.Fatal(err)
		}
		if err := out[0].Finalize(); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	for _, in := range inputs {
		if err := in.Finalize(); err != nil {
			b.Fatal(err)
		}
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	if fresh == 1 {
		read := float64(seqs) * float64(length) * float64(layout.BytesPerToken()) / seconds
		b.ReportMetric(read/1e9, "GB/s")
		b.ReportMetric(read/most.Read, "of-read-bandwidth")
		return
	}
	scores := float64(seqs) * float64(heads) * (float64(fresh)*float64(length) - float64(fresh)*float64(fresh-1)/2)
	b.ReportMetric(4*scores*float64(headDim)/seconds/1e9, "GFLOP/s")
	b.ReportMetric(4*scores*float64(headDim)/seconds/most.Float32, "of-f32-peak")
}

func random(b *testing.B, backend *xla.Backend, shape shapes.Shape) compute.Buffer {
	out, err := ExecOnce(backend, func(g *Graph) *Node {
		x := Iota(g, shapes.Make(dtypes.Int32, shape.Size()), 0)
		x = SubScalar(MulScalar(ConvertDType(ModScalar(MulScalar(x, 7919), 1009), dtypes.Float32), 2.0/1009), 1)
		return Reshape(ConvertDType(x, shape.DType), shape.Dimensions...)
	})
	if err != nil {
		b.Fatal(err)
	}
	buffer, err := out.DonateBuffer(backend, 0)
	if err != nil {
		b.Fatal(err)
	}
	return buffer
}

// One token for each of 64 sequences; 4,096 tokens of context should take at most twice the time of reading their keys
// and values.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name                    string
		heads, kvHeads, headDim int
		dtype                   dtypes.DType
	}{
		{"SmolLM2/f32", 9, 3, 64, dtypes.Float32}, {"SmolLM2/bf16", 9, 3, 64, dtypes.BFloat16},
		{"SmolLM2/int8", 9, 3, 64, dtypes.Int8}, {"SmolLM2/fp8", 9, 3, 64, dtypes.F8E4M3FN},
		{"Llama-8B/bf16", 32, 8, 128, dtypes.BFloat16}, {"Llama-8B/int8", 32, 8, 128, dtypes.Int8},
	} {
		for _, context := range []int{128, 1024, 4096} {
			b.Run(fmt.Sprintf("%s/context%d", c.name, context), func(b *testing.B) {
				benchAttention(b, c.heads, c.kvHeads, c.headDim, 64, context, 1, 16, c.dtype)
			})
		}
	}
	b.Run("SmolLM2/bf16/1sequence/context4096",
		func(b *testing.B) { benchAttention(b, 9, 3, 64, 1, 4096, 1, 16, dtypes.BFloat16) })
	for _, page := range []int{32, 64, 128} {
		for _, context := range []int{128, 4096} {
			b.Run(fmt.Sprintf("SmolLM2/bf16/pages%d/context%d", page, context),
				func(b *testing.B) { benchAttention(b, 9, 3, 64, 64, context, 1, page, dtypes.BFloat16) })
		}
	}
}

// 512 tokens of prompt, alone or behind others.
func BenchmarkPrefill(b *testing.B) {
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Int8} {
		b.Run(fmt.Sprintf("SmolLM2/%s/512", dtype),
			func(b *testing.B) { benchAttention(b, 9, 3, 64, 1, 512, 512, 16, dtype) })
		b.Run(fmt.Sprintf("Llama-8B/%s/512", dtype),
			func(b *testing.B) { benchAttention(b, 32, 8, 128, 1, 512, 512, 16, dtype) })
		b.Run(fmt.Sprintf("Llama-8B/%s/512behind1536", dtype),
			func(b *testing.B) { benchAttention(b, 32, 8, 128, 1, 2048, 512, 16, dtype) })
	}
}
