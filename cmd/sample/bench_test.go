package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quire/quire/batch"
	workloads "github.com/quire/quire/bench/workload"
	"github.com/quire/quire/engine"
)

// faultyEngine does what the fake engine does, and then something else to what comes out.
type faultyEngine struct {
	fakeEngine
	change func(number int, c *engine.Completion) []*engine.Completion
	err    error // at the end
}

func (f *faultyEngine) Run(ctx context.Context, requests iter.Seq[*engine.Request]) iter.Seq2[*engine.Completion,
	error] {
	return func(yield func(*engine.Completion, error) bool) {
		number := 0
		for c := range f.fakeEngine.Run(ctx, requests) {
			for _, out := range f.change(number, c) {
				if !yield(out, nil) {
					return
				}
			}
			number++
		}
		if f.err != nil {
			yield(nil, f.err)
		}
	}
}

// Whatever is missing, doubled or short, there are no figures.
func TestBenchRefusesPartialRuns(t *testing.T) {
	keep := func(_ int, c *engine.Completion) []*engine.Completion { return []*engine.Completion{c} }
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
		faulty faultyEngine
		whole  bool
	}{
		"whole":   {faultyEngine{change: keep}, true},
		"missing": {faultyEngine{change: third(func(*engine.Completion) []*engine.Completion { return nil })}, false},
		"doubled": {
			faultyEngine{
				change: third(func(c *engine.Completion) []*engine.Completion { return []*engine.Completion{c, c} })},
			false},
		"short": {faultyEngine{change: third(func(c *engine.Completion) []*engine.Completion {
			c.Tokens = c.Tokens[1:]
			return []*engine.Completion{c}
		})}, false},
		"stopped": {faultyEngine{change: third(func(c *engine.Completion) []*engine.Completion {
			c.FinishReason = engine.FinishStop
			return []*engine.Completion{c}
		})}, false},
		"of another generation": {faultyEngine{change: third(func(c *engine.Completion) []*engine.Completion {
			c.Generation = 2
			return []*engine.Completion{c}
		})}, false},
		"with an error": {faultyEngine{change: third(func(c *engine.Completion) []*engine.Completion {
			c.Err = broken
			return []*engine.Completion{c}
		})}, false},
		"ended by an error": {faultyEngine{change: keep, err: broken}, false},
	} {
		c.faulty.maxSeqs = 4
		f, err := smokeBench(t, &c.faulty).pass(t.Context())
		if c.whole != (err == nil) || c.whole != (f != nil) || !c.whole && !errors.Is(err, errPartial) {
			t.Errorf("%s: figures %v, error %v", name, f, err)
		}
	}
}

// smokeBench makes a measurement of the workload smoke on a sampler.
func smokeBench(t *testing.T, s batch.Sampler) *bench {
	t.Helper()
	model := filepath.Join(t.TempDir(), "echo.fake")
	if err := os.WriteFile(model, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	o := &benchOptions{}
	session, err := fakeModels{}.Open(t.Context(), &batch.Task{Spec: batch.Spec{Model: model}})
	if err != nil {
		t.Fatal(err)
	}
	session.Sampler = s
	w, err := workloads.Open("smoke")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{options: o, session: session, workload: w}
	if err := b.prepare(); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBenchFigures(t *testing.T) {
	b := smokeBench(t, &fakeEngine{maxSeqs: 4, delay: time.Millisecond})
	if b.completions != 16 || b.tokens != 64 {
		t.Fatalf("%d completions, %d tokens", b.completions, b.tokens)
	}
	// 16 completions feed 3 tokens each; one behind a prompt of P tokens reads P+1, P+2, P+3 positions.
	want := int64(0)
	for _, r := range b.requests {
		want += int64(r.N * (3*len(r.Tokens) + 1 + 2 + 3))
	}
	if b.contextTokens != want {
		t.Errorf("%d positions, want %d", b.contextTokens, want)
	}
	f, err := b.pass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.OutputPerSecond < 1 || f.OutputPerSecond > 64/f.Seconds*1.001 || f.FirstCompletion <= 0 ||
		f.FirstCompletion >= f.Seconds || f.MemoryPeak == 0 {
		t.Errorf("%+v", f)
	}
	// Products: 2 operations for each weight and token.
	b.session.Config.HiddenSize, b.session.Config.NumLayers, b.session.Config.NumHeads, b.session.Config.NumKVHeads = 8,
		3, 4, 2
	b.session.Config.HeadDim, b.session.Config.IntermediateSize, b.session.Config.VocabSize = 2, 16, 100
	perLayer := 8*(4+2+2)*2 + 4*2*8 + 3*8*16
	if got, want := b.matmulFlops(engine.Stats{PrefillTokens: 10, DecodeTokens: 5}),
		float64(2*(perLayer*3*15+8*100*64)); got != want {
		t.Errorf("%g operations, want %g", got, want)
	}
}

func TestBenchMedian(t *testing.T) {
	r := &benchReport{}
	for _, rate := range []float64{30, 10, 20} {
		r.Runs = append(r.Runs, &runFigures{OutputPerSecond: rate})
	}
	if r.finish(); r.Median.OutputPerSecond != 20 {
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
	m := thisMachine()
	if m.CPU == "" || m.Threads < 1 || m.CPUs < m.Threads || m.Memory < 1<<20 {
		t.Errorf("%+v", m)
	}
	if now, peak := residentMemory(), peakMemory(); now <= 0 || peak < now {
		t.Error(fmt.Sprintf("resident %d, peak %d", now, peak))
	}
}
