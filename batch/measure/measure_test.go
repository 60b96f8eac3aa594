package measure

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/process"
	workloads "github.com/quire/quire/bench/workload"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models/arch"
)

// echo gives each request its completions, all of the longest that they may be, and then does something to them.
type echo struct {
	delay  time.Duration
	change func(number int, c *engine.Completion) []*engine.Completion
	err    error // at the end
}

func (e *echo) Plan() engine.Plan   { return engine.Plan{Backend: "echo", MaxSeqs: 4} }
func (e *echo) Stats() engine.Stats { return engine.Stats{} }
func (e *echo) Close()              {}

func (e *echo) Run(_ context.Context, requests iter.Seq[*engine.Request]) iter.Seq2[*engine.Completion, error] {
	return func(yield func(*engine.Completion, error) bool) {
		number := 0
		for r := range requests {
			for g := range r.N {
				time.Sleep(e.delay)
				c := &engine.Completion{Request: r, Generation: g, FinishReason: engine.FinishLength,
					Generated: engine.Generated{Tokens: make([]int32, r.MaxTokens)}}
				for _, out := range e.change(number, c) {
					if !yield(out, nil) {
						return
					}
				}
				number++
			}
		}
		if e.err != nil {
			yield(nil, e.err)
		}
	}
}

func keep(_ int, c *engine.Completion) []*engine.Completion { return []*engine.Completion{c} }

// Whatever is missing, doubled or short, there are no figures.
func TestRefusesPartialRuns(t *testing.T) {
	third := func(change func(c *engine.Completion) []*engine.Completion) func(int,
		*engine.Completion) []*engine.Completion {
		return func(number int, c *engine.Completion) []*engine.Completion {
			if number == 3 {
				return change(c)
			}
			return []*engine.Completion{c}
		}
	}
	broken := errors.New("the device fell over")
	for name, c := range map[string]struct {
		faulty echo
		whole  bool
	}{
		"whole":   {echo{change: keep}, true},
		"missing": {echo{change: third(func(*engine.Completion) []*engine.Completion { return nil })}, false},
		"doubled": {
			echo{
				change: third(func(c *engine.Completion) []*engine.Completion { return []*engine.Completion{c, c} })},
			false},
		"short": {echo{change: third(func(c *engine.Completion) []*engine.Completion {
			c.Tokens = c.Tokens[1:]
			return []*engine.Completion{c}
		})}, false},
		"stopped": {echo{change: third(func(c *engine.Completion) []*engine.Completion {
			c.FinishReason = engine.FinishStop
			return []*engine.Completion{c}
		})}, false},
		"of another generation": {echo{change: third(func(c *engine.Completion) []*engine.Completion {
			c.Generation = 2
			return []*engine.Completion{c}
		})}, false},
		"with an error": {echo{change: third(func(c *engine.Completion) []*engine.Completion {
			c.Err = broken
			return []*engine.Completion{c}
		})}, false},
		"ended by an error": {echo{change: keep, err: broken}, false},
	} {
		f, err := smoke(t, &c.faulty).Pass(t.Context())
		if c.whole != (err == nil) || c.whole != (f != nil) || !c.whole && !errors.Is(err, ErrPartial) {
			t.Errorf("%s: figures %v, error %v", name, f, err)
		}
	}
}

// smoke makes a measurement of the workload smoke on a sampler.
func smoke(t *testing.T, s process.Sampler) *Job {
	t.Helper()
	w, err := workloads.Open("smoke")
	if err != nil {
		t.Fatal(err)
	}
	session := &process.Session{Sampler: s, Text: ask.Text{Vocab: 257,
		Encode: func(text string, _ bool) ([]int32, error) { return make([]int32, len(text)), nil }}}
	b, err := New(session, w, Options{Sampling: parameter.Defaults().Sampling})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFigures(t *testing.T) {
	b := smoke(t, &echo{change: keep, delay: time.Millisecond})
	if b.Completions != 16 || b.Tokens != 64 {
		t.Fatalf("%d completions, %d tokens", b.Completions, b.Tokens)
	}
	// 16 completions feed 3 tokens each; one after a prompt of P tokens reads P+1, P+2, P+3 positions.
	want := int64(0)
	for _, r := range b.Requests {
		want += int64(r.N * (3*len(r.Tokens) + 1 + 2 + 3))
		if !r.Leaf {
			t.Errorf("%s: its pages are kept when it ends, which a job without parents does not do", r.ID)
		}
	}
	if b.contextTokens != want {
		t.Errorf("%d positions, want %d", b.contextTokens, want)
	}
	f, err := b.Pass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.OutputPerSecond < 1 || f.OutputPerSecond > 64/f.Seconds*1.001 || f.FirstCompletion <= 0 ||
		f.FirstCompletion >= f.Seconds || f.MemoryPeak == 0 {
		t.Errorf("%+v", f)
	}
	// Products: 2 operations for each weight and token; those of the logits for each token generated.
	b.Session.Config = arch.Config{HiddenSize: 8, NumHeads: 4, NumKVHeads: 2, HeadDim: 2, IntermediateSize: 16,
		VocabSize: 100, Layers: []arch.Layer{{Gated: true}, {KVFrom: 1}}}
	layers := 2*(8*(4+2+2)*2+4*2*8) + (3+2)*8*16
	if got, want := b.matmulFlops(engine.Stats{PrefillTokens: 10, DecodeTokens: 5}),
		float64(2*(layers*15+8*100*64)); got != want {
		t.Errorf("%g operations, want %g", got, want)
	}
}

// The limit of a run is the more of its arithmetic and its reading at their peaks.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		dtype, weights string
		matmul         float64
		limit          float64
		by             string
	}{
		{dtype: "Float32", matmul: 10, limit: 2, by: "arithmetic"},
		{dtype: "BFloat16", matmul: 10, limit: 1, by: "arithmetic"},
		{dtype: "BFloat16", weights: "Float32 and Q4_1", matmul: 10, limit: 0.5, by: "arithmetic"},
		{dtype: "BFloat16", weights: "fp8 in blocks of 128", matmul: 1, limit: 0.3, by: "reading"},
	} {
		f := &Figures{Seconds: 2, Matmul: c.matmul, Bytes: 15}
		r := &Report{Plan: engine.Plan{DType: c.dtype, Weights: c.weights}, Runs: []*Figures{f}}
		r.Compare(cpukernel.Peak{Float32: 10, BFloat16: 20, Int8: 40, Read: 100})
		if math.Abs(f.Limit-c.limit) > 1e-9 || f.LimitBy != c.by || math.Abs(f.TimesLimit-2/c.limit) > 1e-9 {
			t.Errorf("%+v: the limit is %g s by %s, %g times", c, f.Limit, f.LimitBy, f.TimesLimit)
		}
	}
}

func TestMedian(t *testing.T) {
	r := &Report{}
	for _, rate := range []float64{30, 10, 20} {
		r.Runs = append(r.Runs, &Figures{OutputPerSecond: rate})
	}
	if r.Finish(); r.Median.OutputPerSecond != 20 {
		t.Errorf("the median is %g", r.Median.OutputPerSecond)
	}
}

func TestKernelKind(t *testing.T) {
	for name, want := range map[string]string{
		"quire_linear": "matmul", "quire_linear_rows": "matmul", "quire_ragged_paged_attention": "attention",
		"quire_kv_update":  "attention",
		"quire_copy_pages": "attention", "quire_sample": "sampling", "quire_rms_norm": "elementwise",
		"quire_rope": "elementwise",
	} {
		if got := kernelKind(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestMachine(t *testing.T) {
	m := thisMachine("devel")
	if m.CPU == "" || m.Threads < 1 || m.CPUs < m.Threads || m.Memory < 1<<20 {
		t.Errorf("%+v", m)
	}
	if now, peak := ResidentMemory(), peakMemory(); now <= 0 || peak < now {
		t.Error(fmt.Sprintf("resident %d, peak %d", now, peak))
	}
}

func TestProcessors(t *testing.T) {
	amd := "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n"
	for _, c := range []struct {
		cpuinfo, name string
		n             int
	}{
		{amd + "\n" + amd, "AMD EPYC (family 25, model 17)", 2},
		{"processor\t: 0\nBogoMIPS\t: 50.00\nCPU part\t: 0xd0c\n", "unknown", 1}, // arm64
		{"", "unknown", 0},
	} {
		if name, n := processors(strings.SplitSeq(c.cpuinfo, "\n")); name != c.name || n != c.n {
			t.Errorf("%d processors %q, want %d %q, of %q", n, name, c.n, c.name, c.cpuinfo)
		}
	}
}
