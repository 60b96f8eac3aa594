package triton

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// batch is sequences and which of their tokens are queries: the last new[i] of lengths[i].
type batch struct {
	lengths, new []int
	padding      int
}

// TestAttention runs the calls' IR on buffers, and compares with attention computed plainly. Pages that belong to
// nobody hold NaN.
func TestAttention(t *testing.T) {
	decode := batch{lengths: []int{1, 63, 64, 65, 0, 200}, new: []int{1, 1, 1, 1, 0, 1}, padding: 2}
	prefill := batch{lengths: []int{70, 1, 33, 90}, new: []int{70, 1, 20, 1}, padding: 5}
	long := batch{lengths: []int{1030, 2100, 1024, 1023}, new: []int{1, 1, 1, 1}, padding: 1}
	for _, c := range []struct {
		heads, kvHeads, headDim, pageSize int
		dtype                             dtypes.DType
		window                            int
		softCap                           float64
		sinks                             bool
		batch                             batch
		tokensOverRows, maxLen            int
		kernels                           string
	}{
		{9, 3, 64, 16, dtypes.Float32, 0, 0, false, decode, 0, 200, "decode"},
		{4, 1, 16, 5, dtypes.Float32, 9, 0, false, decode, 0, 200, "decode"},
		{8, 8, 48, 64, dtypes.BFloat16, 0, 30, false, decode, 0, 200, "decode"},
		{4, 2, 32, 16, dtypes.Float32, 0, 0, false, long, 0, 2500, "decode combine"},
		{2, 2, 80, 32, dtypes.Float32, 1100, 5, false, long, 0, 2500, "decode combine"},
		{3, 1, 16, 16, dtypes.BFloat16, 0, 0, false, long, 0, 20_000, "decode combine"},
		{9, 3, 64, 16, dtypes.Float32, 0, 0, false, prefill, 1, 100, "prefill"},
		{4, 1, 32, 8, dtypes.BFloat16, 12, 0, false, prefill, 1, 100, "prefill"},
		{6, 2, 96, 64, dtypes.BFloat16, 0, 20, false, prefill, 1, 100, "prefill"},
		{9, 3, 64, 16, dtypes.Float32, 0, 0, true, decode, 0, 200, "decode"},
		{4, 2, 32, 16, dtypes.Float32, 0, 0, true, long, 0, 2500, "decode combine"},
		{8, 1, 16, 16, dtypes.BFloat16, 1100, 0, true, long, 0, 20_000, "decode combine"},
		{4, 1, 32, 8, dtypes.BFloat16, 12, 0, true, prefill, 1, 100, "prefill"},
		{3, 3, 16, 16, dtypes.Float32, 0, 0, true, prefill, 1, 100, "prefill"},
		{2, 1, 512, 16, dtypes.BFloat16, 0, 0, false, decode, 0, 200, "decode"},
		{2, 1, 300, 16, dtypes.Float32, 0, 0, true, decode, 0, 200, "decode"},
		{2, 1, 512, 16, dtypes.BFloat16, 40, 0, false, prefill, 1, 100, "prefill"},
		{40, 1, 576, 16, dtypes.BFloat16, 0, 0, false, decode, 0, 200, "latent"},
		{6, 1, 530, 16, dtypes.Float32, 0, 0, false, long, 0, 2500, "latent combine"},
		{8, 1, 576, 8, dtypes.BFloat16, 12, 0, false, prefill, 1, 100, "latent"},
		// A group larger than the blocks of decode.
		{34, 2, 16, 16, dtypes.BFloat16, 0, 0, false, decode, 0, 200, "prefill"},
	} {
		t.Run(fmt.Sprintf("%d heads %d kv %d dim pages of %d %s window %d cap %g sinks %t %s", c.heads, c.kvHeads,
			c.headDim, c.pageSize, c.dtype, c.window, c.softCap, c.sinks, c.kernels), func(t *testing.T) {
			if testing.Short() && c.window == 0 && c.softCap == 0 && !c.sinks && c.kernels != "latent" {
				t.Skip("the other cases of these kernels have more to compute")
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var rows, positions []float64
			for s, n := range c.batch.new {
				for i := range n {
					rows, positions = append(rows, float64(s)), append(positions, float64(c.batch.lengths[s]-n+i))
				}
			}
			for range c.batch.padding {
				rows, positions = append(rows, -1), append(positions, -1)
			}
			a := Attention{Heads: c.heads, KVHeads: c.kvHeads, HeadDim: c.headDim, PageSize: c.pageSize, DType: c.dtype,
				Scale: 1 / math.Sqrt(float64(c.headDim)), Window: c.window, SoftCap: c.softCap,
				Sinks: c.sinks, Latent: c.headDim > maxHeadDim, Tokens: len(rows), Rows: len(rows) - c.tokensOverRows,
				PagesPerSeq: ceilDiv(c.maxLen, c.pageSize)}
			elem := map[dtypes.DType]string{dtypes.Float32: "f32", dtypes.BFloat16: "bf16"}[c.dtype]
			random := func(n int) []float64 {
				out := make([]float64, n)
				for i := range out {
					out[i] = round(elem, rng.NormFloat64())
				}
				return out
			}
			q := &buffer{"q", elem, random(a.Tokens * c.heads * c.headDim)}
			table := &buffer{"table", "i32", make([]float64, a.Rows*a.PagesPerSeq)}
			for i := range table.data {
				table.data[i] = -1
			}
			used := 0
			for _, n := range c.batch.lengths {
				used += ceilDiv(n, c.pageSize)
			}
			pages, next := rng.Perm(used+2), 0
			pageLen := c.pageSize * vectors(a) * c.kvHeads * c.headDim
			cache := &buffer{"cache", elem, random(len(pages) * pageLen)}
			for s, n := range c.batch.lengths {
				for i := range ceilDiv(n, c.pageSize) {
					table.data[s*a.PagesPerSeq+i] = float64(pages[next])
					next++
				}
			}
			for _, p := range pages[next:] {
				for i := range pageLen {
					cache.data[p*pageLen+i] = math.NaN()
				}
			}
			sinks := &buffer{"sinks", "f32", nil}
			for range c.heads {
				sinks.data = append(sinks.data, round("f32", 3*rng.NormFloat64()))
			}
			calls, err := a.Calls()
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			rowsBuffer, positionsBuffer := &buffer{"seqs", "i32", rows}, &buffer{"positions", "i32", positions}
			operands := []*buffer{q, cache, table, rowsBuffer, positionsBuffer}
			for _, call := range calls {
				names = append(names, cmp.Or(call.Kernel.Form, call.Kernel.Name))
				if call.Kernel.Sink {
					operands = append(operands, sinks)
				}
				var results []*buffer
				for i, r := range call.Results {
					b := &buffer{fmt.Sprint("result ", i), map[dtypes.DType]string{dtypes.Float32: "f32",
						dtypes.BFloat16: "bf16"}[r.DType], make([]float64, r.Size())}
					for j := range b.data {
						b.data[j] = math.NaN()
					}
					results = append(results, b)
				}
				run(t, call, append(operands, results...))
				operands = append(results, rowsBuffer, positionsBuffer)
			}
			if got := strings.Join(names, " "); got != c.kernels {
				t.Errorf("kernels %q, want %q", got, c.kernels)
			}
			want := plain(a, q.data, cache.data, table.data, rows, positions, sinks.data)
			bound := 1e-5
			if c.dtype == dtypes.BFloat16 {
				bound = 0.02 // weights and results have 8 bits
			}
			for i, got := range operands[0].data {
				if !(math.Abs(got-want[i]) <= bound) {
					t.Fatalf("token %d head %d element %d is %g, want %g", i/(c.heads*c.headDim), i/c.headDim%c.heads,
						i%c.headDim, got, want[i])
				}
			}
		})
	}
}

// vectors is how many a token has of a KV head.
func vectors(a Attention) int {
	if a.Latent {
		return 1
	}
	return 2
}

// plain is attention as a formula: softmax(cap(q.k * scale)) . v over the tokens that a query sees. A sink is one more
// score, whose value is zeros.
func plain(a Attention, q, cache, table, rows, positions, sinks []float64) []float64 {
	out := make([]float64, len(q))
	group := a.Heads / a.KVHeads
	for token, row := range rows {
		if row < 0 {
			continue
		}
		end := int(positions[token]) + 1
		first := 0
		if a.Window > 0 {
			first = max(0, end-a.Window)
		}
		for h := range a.Heads {
			query := q[(token*a.Heads+h)*a.HeadDim:][:a.HeadDim]
			var weights []float64
			var values [][]float64
			total := 0.0
			if a.Sinks {
				total = math.Exp(sinks[h])
			}
			for n := first; n < end; n++ {
				page := int(table[int(row)*a.PagesPerSeq+n/a.PageSize])
				at := ((page*a.PageSize+n%a.PageSize)*a.KVHeads + h/group) * vectors(a) * a.HeadDim
				score := 0.0
				for d, x := range query {
					score += x * cache[at+d]
				}
				score *= a.Scale
				if a.SoftCap > 0 {
					score = a.SoftCap * math.Tanh(score/a.SoftCap)
				}
				weights = append(weights, math.Exp(score))
				values = append(values, cache[at+(vectors(a)-1)*a.HeadDim:][:a.HeadDim])
				total += weights[len(weights)-1]
			}
			for i, w := range weights {
				for d, x := range values[i] {
					out[(token*a.Heads+h)*a.HeadDim+d] += w / total * x
				}
			}
		}
	}
	return out
}

func TestNoKernel(t *testing.T) {
	good := Attention{Heads: 8, KVHeads: 2, HeadDim: 64, PageSize: 16, DType: dtypes.BFloat16, Scale: 1, Tokens: 8,
		Rows: 8, PagesPerSeq: 4}
	if _, err := good.Calls(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(a *Attention){
		"head_dim of at most 512, not 513": func(a *Attention) { a.HeadDim = 513 },
		"sinks or a soft cap, not both":    func(a *Attention) { a.Sinks, a.SoftCap = true, 30 },
		"513 to 576 numbers, not 577":      func(a *Attention) { a.Latent, a.KVHeads, a.HeadDim = true, 1, 577 },
		"513 to 576 numbers, not 512":      func(a *Attention) { a.Latent, a.KVHeads, a.HeadDim = true, 1, 512 },
		"latent attention have one KV":     func(a *Attention) { a.Latent = true },
		"not Float64":                      func(a *Attention) { a.DType = dtypes.Float64 },
		"128 query heads for a KV head":    func(a *Attention) { a.Heads, a.KVHeads = 129, 1 },
		"32 query heads for a KV head":     func(a *Attention) { a.Heads, a.KVHeads, a.HeadDim = 33, 1, 512 },
		"16 query heads for a KV head in Float32, not 17": func(a *Attention) {
			a.Heads, a.KVHeads, a.DType = 17, 1,
				dtypes.Float32
		},
	} {
		a := good
		change(&a)
		_, err := a.Calls()
		var none *NoKernelError
		if !errors.As(err, &none) || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	if _, err := (Attention{Heads: 3, KVHeads: 2}).Calls(); err == nil || errors.As(err, new(*NoKernelError)) {
		t.Errorf("3 heads of 2 KV heads: %v", err)
	}
}

func TestParts(t *testing.T) {
	for length, want := range map[int][2]int{1: {1, 128}, 1024: {1, 1024}, 1025: {2, 640}, 8192: {8, 1024},
		16384: {16, 1024}, 131072: {16, 8192}, 131073: {16, 8320}} {
		if n, tokens := parts(length); n != want[0] || tokens != want[1] {
			t.Errorf("%d tokens are %d parts of %d, want %v", length, n, tokens, want)
		}
	}
	for length := 1; length < 40_000; length += 7 {
		if n, tokens := parts(length); n*tokens < length || (n-1)*tokens >= length || tokens%partAlign != 0 {
			t.Fatalf("%d parts of %d tokens are not a context of %d", n, tokens, length)
		}
	}
}

func TestEveryKernelIsFilled(t *testing.T) {
	kernels, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	if len(kernels) != 189 {
		t.Errorf("there are %d kernels", len(kernels))
	}
	for _, k := range kernels {
		if k.N > 0 && partAlign%k.N != 0 {
			t.Errorf("parts of a context do not divide into blocks of %d tokens", k.N)
		}
		if _, err := k.fill(nil); err == nil {
			t.Errorf("%+v needs no values", k)
		}
	}
	for _, dtype := range []dtypes.DType{dtypes.BFloat16, dtypes.Float16, dtypes.Float32} {
		for _, headDim := range []int{1, 16, 17, 64, 80, 128, 256, 257, 512} {
			for _, tokens := range []int{8, 9} {
				for _, is := range []Attention{{}, {SoftCap: 5}, {Sinks: true}} {
					a := Attention{Heads: 4, KVHeads: 2, HeadDim: headDim, PageSize: 16, DType: dtype, Scale: 1,
						SoftCap: is.SoftCap, Sinks: is.Sinks, Tokens: tokens, Rows: 8, PagesPerSeq: 200}
					calls, err := a.Calls()
					if err != nil || len(calls) != 1+9-tokens {
						t.Errorf("%s: %d calls, %v", a, len(calls), err)
					}
				}
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "{}", "{\nmodule", `{"kernel":"attend"}` + "\nmodule {}"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
