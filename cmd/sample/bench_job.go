package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/batch"
	workloads "github.com/quire/quire/bench/workload"
	"github.com/quire/quire/engine"
)

// bench is a workload on an engine.
type bench struct {
	options  *benchOptions
	session  *batch.Session
	workload *workloads.Workload
	rows     []workloads.Row
	hash     string // of the rows as the workload has them
	requests []*engine.Request
	// Totals of a run.
	completions, promptTokens, tokens int
	// contextTokens sums, over the tokens that are fed to draw another, the positions that each reads in the KV cache.
	contextTokens int64
}

// prepare makes the requests.
func (b *bench) prepare() error {
	var err error
	if b.rows, err = b.workload.Rows(b.session.Vocab); err != nil {
		return err
	}
	b.hash = workloads.Hash(b.rows)
	if limit := b.options.limit; limit > 0 && limit < len(b.rows) {
		b.rows = b.rows[:limit]
	}
	settings := b.options.run.spec.Sampling.Sampling
	settings.Temperature, settings.Seed = b.workload.Temperature, b.options.seed
	for i := range b.rows {
		row := &b.rows[i]
		if row.TokenIDs == nil {
			if row.TokenIDs, err = b.session.Encode(row.Prompt, true); err != nil {
				return err
			}
		}
		b.requests = append(b.requests, &engine.Request{
			ID: row.ID, Tokens: row.TokenIDs, N: row.N, MaxTokens: row.MaxTokens, Sampling: settings, IgnoreEOS: true,
			Tag: row,
		})
		b.completions += row.N
		b.promptTokens += len(row.TokenIDs)
		b.tokens += row.N * row.MaxTokens
		fed := int64(row.MaxTokens - 1)
		b.contextTokens += int64(row.N) * (fed*int64(len(row.TokenIDs)) + fed*(fed+1)/2)
	}
	return nil
}

// writeRows writes the rows as other engines take them, and "sample run" does.
func (b *bench) writeRows(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--write-rows: %w", err)
	}
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	for _, r := range b.rows {
		err = errors.Join(err, e.Encode(map[string]any{
			"id": r.ID, "prompt_token_ids": r.TokenIDs, "n": r.N, "max_tokens": r.MaxTokens,
			"temperature": b.workload.Temperature, "ignore_eos": true,
		}))
	}
	if err = errors.Join(err, w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("--write-rows: %w", err)
	}
	return nil
}

// runFigures are of one run of the workload. Rates are a second of wall-clock time.
type runFigures struct {
	Seconds         float64 `json:"seconds"` // until the last completion
	InputPerSecond  float64 `json:"prompt_tokens_per_second"`
	OutputPerSecond float64 `json:"generated_tokens_per_second"`
	FirstToken      float64 `json:"first_token_seconds"`
	FirstCompletion float64 `json:"first_completion_seconds"`
	// Means of the steps of one kind, absent where the device has no clock to measure them.
	DecodeStepSeconds float64 `json:"decode_step_seconds,omitempty"`
	PrefillStep       float64 `json:"prefill_step_seconds,omitempty"`
	// Idle is the share of the run in which the device did not run the program; Shares are the kinds of kernels' shares
	// of the run, with "other" for the rest of the device's time and "host" for Idle. There are none but host where
	// kernels do not run.
	Idle    float64            `json:"device_idle_share"`
	Shares  map[string]float64 `json:"shares"`
	Kernels map[string]float64 `json:"kernel_seconds,omitempty"`
	// Matmul is floating point operations of the model's products; Bytes is what must be read at least: the weights
	// each step, and keys and values for each token.
	Matmul      float64 `json:"matmul_flops_per_second,omitempty"`
	MatmulPeak  float64 `json:"matmul_share_of_peak,omitempty"`
	KernelPeak  float64 `json:"matmul_share_of_peak_in_kernels,omitempty"` // while the kernels of products run
	Bytes       float64 `json:"read_bytes_per_second"`
	BytesPeak   float64 `json:"read_share_of_peak,omitempty"`
	MemoryPeak  int64   `json:"peak_memory_bytes"` // of the process in this run
	MemoryBegin int64   `json:"memory_begin_bytes"`
	MemoryEnd   int64   `json:"memory_end_bytes"`

	Engine engine.Stats `json:"engine"`
}

// errPartial says that a run did not draw all that was asked for.
var errPartial = errors.New("the run is not whole, so there are no figures")

// pass runs the workload once.
func (b *bench) pass(ctx context.Context) (*runFigures, error) {
	f := &runFigures{MemoryBegin: residentMemory()}
	resetPeakMemory()
	clocks := cpukernel.Times()
	seen := make(map[string]bool, b.completions)
	tokens := 0
	begin := time.Now()
	for c, err := range b.session.Run(ctx, slices.Values(b.requests)) {
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errPartial, err)
		}
		if f.FirstCompletion == 0 {
			f.FirstCompletion = time.Since(begin).Seconds()
		}
		row := c.Request.Tag.(*workloads.Row)
		if err := whole(row, c); err != nil {
			return nil, fmt.Errorf("%w: %s, completion %d: %w", errPartial, row.ID, c.Generation, err)
		}
		key := fmt.Sprintf("%s/%d", row.ID, c.Generation)
		if seen[key] {
			return nil, fmt.Errorf("%w: %s came twice", errPartial, key)
		}
		seen[key] = true
		tokens += len(c.Tokens)
	}
	f.Seconds = time.Since(begin).Seconds()
	if len(seen) != b.completions || tokens != b.tokens {
		return nil, fmt.Errorf("%w: %d of %d completions, %d of %d tokens", errPartial, len(seen), b.completions,
			tokens, b.tokens)
	}
	f.Engine = b.session.Stats()
	f.MemoryPeak, f.MemoryEnd = peakMemory(), residentMemory()
	f.InputPerSecond, f.OutputPerSecond = float64(b.promptTokens)/f.Seconds, float64(b.tokens)/f.Seconds
	b.derive(f, clocks)
	return f, nil
}

// whole says what a completion lacks.
func whole(row *workloads.Row, c *engine.Completion) error {
	switch {
	case c.Err != nil:
		return c.Err
	case len(c.Tokens) != row.MaxTokens || c.FinishReason != engine.FinishLength:
		return fmt.Errorf("it has %d of %d tokens and ended by %q", len(c.Tokens), row.MaxTokens, c.FinishReason)
	case c.Generation < 0 || c.Generation >= row.N:
		return fmt.Errorf("there is no such completion: %d were asked for", row.N)
	}
	return nil
}

// derive computes what follows from the engine's account and the kernels' clocks.
func (b *bench) derive(f *runFigures, before map[string]time.Duration) {
	st, plan := f.Engine, b.session.Plan()
	f.FirstToken = st.FirstTokenSeconds
	f.DecodeStepSeconds = share(st.DecodeSeconds, float64(st.DecodeSteps))
	f.PrefillStep = share(st.PrefillSeconds, float64(st.PrefillSteps))
	f.Idle = max(0, 1-st.DeviceSeconds/f.Seconds)
	f.Shares = map[string]float64{"host": f.Idle}
	f.Kernels = map[string]float64{}
	other := st.DeviceSeconds
	for name, total := range cpukernel.Times() {
		if spent := (total - before[name]).Seconds(); spent > 0 {
			f.Kernels[name] = spent
			f.Shares[kernelKind(name)] += spent / f.Seconds
			other -= spent
		}
	}
	if len(f.Kernels) > 0 {
		f.Shares["other"] = max(0, other/f.Seconds)
	}
	if flops := b.matmulFlops(st); flops > 0 {
		f.Matmul = flops / f.Seconds
	}
	read := float64(st.PrefillSteps+st.DecodeSteps)*float64(plan.WeightBytes) +
		float64(b.contextTokens)*float64(plan.KVBytesPerToken)
	f.Bytes = read / f.Seconds
}

// kernelKind sorts the kernels by what they are for.
func kernelKind(name string) string {
	for _, kind := range []struct{ name, words string }{
		{"matmul", "linear gemm matmul"},
		{"attention", "attention kv_update pages"},
		{"sampling", "sample"},
	} {
		for word := range strings.FieldsSeq(kind.words) {
			if strings.Contains(name, word) {
				return kind.name
			}
		}
	}
	return "elementwise" // norms, rotary embedding
}

// matmulFlops is the arithmetic of the products with weights: two operations for each weight and token, the logits'
// only for tokens that another was drawn from. 0 where the model is not known.
func (b *bench) matmulFlops(st engine.Stats) float64 {
	c := b.session.Config
	heads := float64((2*c.NumHeads + 2*c.NumKVHeads) * c.HeadDim) // query, key, value, output
	layer := float64(c.HiddenSize) * (heads + 3*float64(c.IntermediateSize))
	body := layer * float64(c.NumLayers) * float64(st.PrefillTokens+st.DecodeTokens)
	return 2 * (body + float64(c.HiddenSize)*float64(c.VocabSize)*float64(b.tokens))
}
