package attention_test

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/tokenqueue"
)

// tpuShape is an attention layer's, as a model and the engine's plan have it.
type tpuShape struct {
	heads, kvHeads, headDim, pageSize, pages, perSeq, seqs, tokens int
	dtype                                                          dtypes.DType // of the cache
}

// queries is the dtype of queries, and of new keys and values.
func (s tpuShape) queries() dtypes.DType {
	if s.dtype == dtypes.F8E4M3FN {
		return dtypes.BFloat16
	}
	return s.dtype
}

func (s tpuShape) String() string {
	return fmt.Sprintf("%dx%dx%d,page%dx%d,%dx%d,T%d", s.heads, s.kvHeads, s.headDim, s.pageSize, s.pages, s.seqs,
		s.perSeq, s.tokens)
}

// layout is the cache's on a TPU.
func (s tpuShape) layout(b *xla.Backend) attention.Layout {
	opts := attention.Options{Scale: math.Pow(float64(s.headDim), -0.5), OneTokenPerSeq: s.tokens == s.seqs}
	return attention.PagedLayout(s.pages, s.pageSize, s.kvHeads, s.headDim, s.dtype).ForTPU(b, attention.Step{
		Tokens: s.tokens, Seqs: s.seqs, PagesPerSeq: s.perSeq, Heads: s.heads, DType: s.queries(),
		Options: opts})
}

// tpuProgram compiles a loop that writes new tokens to a donated cache and attends, as the engine's does.
func tpuProgram(t *testing.T, b *xla.Backend, s tpuShape) *xla.Executable {
	t.Helper()
	view := b.Donating(map[string]int{"cache": 0}).(*xla.View)
	g := NewGraph(view, "attention")
	opts := attention.Options{Scale: math.Pow(float64(s.headDim), -0.5), OneTokenPerSeq: s.tokens == s.seqs}
	layout := s.layout(b)
	i32 := func(name string, dims ...int) *Node { return Parameter(g, name, shapes.Make(dtypes.Int32, dims...)) }
	cache := Parameter(g, "cache", layout.Shape())
	q := Parameter(g, "q", shapes.Make(s.queries(), s.tokens, s.heads, s.headDim))
	k := Parameter(g, "k", shapes.Make(s.queries(), s.tokens, s.kvHeads, s.headDim))
	v := Parameter(g, "v", shapes.Make(s.queries(), s.tokens, s.kvHeads, s.headDim))
	batch := tokenqueue.PageBatchInfo{
		SlotIDs: i32("slots", s.seqs), PageIndices: i32("pages", s.seqs, s.perSeq), SeqLens: i32("lens", s.seqs),
		CuQLens: i32("cu", s.seqs+1),
		NumSeqs: i32("n"), NewTokenDests: i32("dests", s.tokens), TokenSeqs: i32("seqs", s.tokens),
		PosIDs: i32("positions", s.tokens), PageSize: s.pageSize,
	}
	type loop struct{ Round, Cache, Q *Node }
	end := control.While(loop{Scalar(g, dtypes.Int32, 0), cache, q},
		func(l loop) *Node { return LessThan(l.Round, Scalar(g, dtypes.Int32, 100)) },
		func(l loop) loop {
			out, cache := layout.Attend(l.Q, k, v, l.Cache, batch, opts)
			return loop{AddScalar(l.Round, 1), cache, out}
		})
	start := time.Now()
	if err := g.Compile(end.Cache, end.Q); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	t.Logf("%s: compiled in %.1f s", s, time.Since(start).Seconds())
	return view.Executables()[0]
}

// The kernel is in the program for a TPU, the cache is updated in place, and nothing of its size is copied, converted
// or moved.
func TestKernelInTPUProgram(t *testing.T) {
	testenv.Slow(t)
	plugin, err := setup.FindPlugin("tpu")
	if err != nil {
		t.Skip(`libtpu is not installed ("sample setup tpu" fetches it): nothing is compiled for TPU`)
	}
	bf16, float8 := dtypes.BFloat16, dtypes.F8E4M3FN
	for _, topology := range []string{"v5e:1x1", "v6e:1x1"} {
		for _, s := range []tpuShape{
			{32, 8, 128, 16, 4001, 128, 64, 64, bf16},   // Llama-3.1-8B, decode of 64 sequences of 2,048 tokens
			{32, 8, 128, 16, 4001, 128, 96, 128, bf16},  // its prefill
			{64, 8, 128, 128, 300, 64, 256, 256, bf16},  // Llama-3.1-70B, 256 sequences of 8,192 tokens
			{8, 1, 128, 64, 2000, 256, 256, 1024, bf16}, // an eighth of it, sequences of 16,384 tokens
			{32, 8, 128, 16, 100, 5, 16, 16, bf16},      // fewer pages a sequence than a block has
			{32, 8, 64, 16, 4001, 128, 64, 64, bf16},    // Llama-3.2-1B, decode
			{14, 2, 64, 64, 1000, 32, 96, 128, bf16},    // Qwen2.5-0.5B, prefill
			{28, 4, 128, 64, 1000, 32, 64, 64, bf16},    // Qwen2.5-7B
			{9, 3, 64, 16, 4001, 128, 64, 64, bf16},     // SmolLM2-135M, whose KV heads are rounded up
			{2, 1, 128, 16, 4001, 128, 64, 64, bf16},    // a sixteenth of Llama-3.1-8B, decode
			{2, 1, 128, 64, 1000, 32, 96, 1024, bf16},   // its prefill
			{1, 1, 128, 64, 1000, 32, 64, 64, bf16},     // a thirty-second
			{4, 4, 128, 16, 1000, 32, 64, 64, bf16},     // an eighth of Llama-2-7B
			{1, 1, 64, 16, 1000, 32, 64, 64, bf16},      // a sixteenth of SmolLM2
			{6, 2, 64, 64, 1000, 32, 96, 128, bf16},     // half of it, prefill
			{16, 16, 64, 16, 1000, 32, 64, 64, bf16},    // half of SmolLM2-1.7B
			{32, 8, 128, 64, 1000, 32, 64, 64, float8},
			{32, 8, 128, 64, 1000, 32, 96, 1024, float8},
			{2, 1, 128, 64, 1000, 32, 64, 64, float8}, // whose key and value are half a register
			{9, 3, 64, 64, 1000, 32, 96, 128, float8},
		} {
			t.Run(topology+"/"+s.String(), func(t *testing.T) {
				b, err := xla.OpenTopology(xla.TopologyOptions{Plugin: plugin, Name: topology})
				if err != nil {
					t.Fatal(err)
				}
				defer b.Finalize()
				e := tpuProgram(t, b, s)
				if used := b.KernelUses(); len(used) != 1 || used[0].Kernel == "" {
					t.Errorf("the kernels are %+v", used)
				}
				checkInPlace(t, e, s, s.layout(b))
				hlo, _ := e.OptimizedHLO()
				if strings.Count(hlo, `custom_call_target="tpu_custom_call"`) != 1 {
					t.Error("the optimized form does not call the kernel once")
				}
				if stores := s.layout(b).Packed > 0; stores && strings.Contains(hlo, " scatter(") {
					t.Error("keys and values are scattered")
				} else if s.pageSize >= 64 && !stores {
					t.Error("the kernel does not store keys and values")
				}
			})
		}
	}
}

// Without a kernel too, and for a head dim that a TPU would pad, the cache is updated in place.
func TestPlainFormInTPUProgram(t *testing.T) {
	testenv.Slow(t)
	plugin, err := setup.FindPlugin("tpu")
	if err != nil {
		t.Skip(`libtpu is not installed ("sample setup tpu" fetches it): nothing is compiled for TPU`)
	}
	for _, s := range []tpuShape{
		{9, 3, 64, 16, 4000, 128, 64, 64, dtypes.BFloat16},   // SmolLM2-135M
		{32, 8, 64, 16, 4000, 128, 64, 128, dtypes.BFloat16}, // Llama-3.2-1B
		{32, 8, 128, 16, 4000, 128, 64, 128, dtypes.BFloat16},
	} {
		b, err := xla.OpenTopology(xla.TopologyOptions{Plugin: plugin, Name: "v5e:1x1", Kernels: xla.KernelsOff})
		if err != nil {
			t.Fatal(err)
		}
		checkInPlace(t, tpuProgram(t, b, s), s, s.layout(b))
		b.Finalize()
	}
}

// checkInPlace compares the bytes updated in place with the cache, and finds nothing else as large.
func checkInPlace(t *testing.T, e *xla.Executable, s tpuShape, layout attention.Layout) {
	t.Helper()
	elements := s.pages * s.pageSize * 2 * s.kvHeads * s.headDim
	bytes := int64(s.pages*s.pageSize) * layout.BytesPerToken()
	m, err := e.Memory()
	if err != nil {
		t.Fatal(err)
	}
	if m.Aliased != bytes || m.Temporary > bytes/4+1<<20 {
		t.Errorf("memory is %+v, the cache has %d bytes", m, bytes)
	}
	hlo, err := e.OptimizedHLO()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(hlo) {
		op := largeMove.FindStringSubmatch(line)
		if op == nil {
			continue
		}
		n := 1
		for d := range strings.SplitSeq(op[1], ",") {
			size, _ := strconv.Atoi(d)
			n *= size
		}
		if n >= elements {
			t.Errorf("%s of KV size: %.200s", op[2], line)
		}
	}
}

// largeMove is an instruction that makes an array anew: its dimensions, and its name.
var largeMove = regexp.MustCompile(
	`= \w+\[([\d,]+)\]\S* (copy|copy-start|transpose|convert|gather|pad|concatenate|all-gather)\(`)

// Where there is no kernel the plain form is built, and the backend says why; a payload of the user's is taken.
func TestNoKernelForTPU(t *testing.T) {
	testenv.Slow(t)
	plugin, err := setup.FindPlugin("tpu")
	if err != nil {
		t.Skip(`libtpu is not installed ("sample setup tpu" fetches it): nothing is compiled for TPU`)
	}
	for _, c := range []struct {
		name, want string
		shape      tpuShape
		options    xla.TopologyOptions
	}{
		{"odd heads", "sample kernels capture --heads 18 --kv-heads 2",
			tpuShape{18, 2, 128, 16, 40, 8, 4, 4, dtypes.BFloat16}, xla.TopologyOptions{}},
		{"head_dim 64", "sample kernels capture --heads 10 --kv-heads 2 --head-dim 64",
			tpuShape{10, 2, 64, 16, 40, 8, 4, 4, dtypes.BFloat16}, xla.TopologyOptions{}},
		{"float32", "no payload was captured", tpuShape{8, 2, 128, 16, 40, 8, 4, 4, dtypes.Float32},
			xla.TopologyOptions{}},
		{"head_dim 80", "multiples of 128, and the model's is 80", tpuShape{8, 2, 80, 16, 40, 8, 4, 4, dtypes.BFloat16},
			xla.TopologyOptions{}},
		{"page table", "SMEM", tpuShape{8, 2, 128, 16, 40, 1024, 256, 256, dtypes.BFloat16}, xla.TopologyOptions{}},
		{"off", "", tpuShape{8, 2, 128, 16, 40, 8, 4, 4, dtypes.BFloat16},
			xla.TopologyOptions{Kernels: xla.KernelsOff}},
		{"no folder", "", tpuShape{8, 2, 128, 16, 40, 8, 4, 4, dtypes.BFloat16},
			xla.TopologyOptions{Kernels: xla.KernelsOff, KernelDir: filepath.Join(t.TempDir(), "none")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Plugin, c.options.Name = plugin, "v5e:1x1"
			b, err := xla.OpenTopology(c.options)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Finalize()
			hlo, err := tpuProgram(t, b, c.shape).OptimizedHLO()
			if err != nil || strings.Contains(hlo, "tpu_custom_call") {
				t.Errorf("the program has a kernel (%v)", err)
			}
			used := b.KernelUses()
			if c.want == "" {
				if used != nil {
					t.Errorf("kernels are off, but these are used: %+v", used)
				}
				return
			}
			if len(used) == 0 || used[0].Kernel != "" || !strings.Contains(used[0].Reason, c.want) {
				t.Errorf("the backend says %+v, want %q", used, c.want)
			}
		})
	}
}
