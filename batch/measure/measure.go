// Package measure runs a fixed workload on an engine several times and reports how fast it was. Figures are of a whole
// job, or there are none.
package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/batch/process"
	workloads "github.com/quire/quire/bench/workload"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/engine"
)

// Options of a measurement.
type Options struct {
	Limit    int                // rows of the workload; 0 takes all
	Sampling parameter.Sampling // all settings except the workload's temperature, and the seed
	Seed     uint64
	Kernels  string // the requested kernels, as reports name them
	Version  string // version of the program
}

// Job is a workload on an engine.
type Job struct {
	Session  *process.Session
	Workload *workloads.Workload
	Rows     []workloads.Row
	Requests []*engine.Request
	// Totals of a run.
	Completions, Tokens int

	options      Options
	hash         string // hash of the rows as the workload has them
	promptTokens int
	// contextTokens sums, over the tokens that are fed to generate another, the positions that each reads in the KV
	// cache.
	contextTokens int64
	rowOf         map[*engine.Request]*workloads.Row
}

// New makes the requests of a workload for a model.
func New(session *process.Session, w *workloads.Workload, o Options) (*Job, error) {
	b := &Job{Session: session, Workload: w, options: o, rowOf: map[*engine.Request]*workloads.Row{}}
	return b, b.prepare()
}

func (b *Job) prepare() error {
	var err error
	if b.Rows, err = b.Workload.Rows(b.Session.Vocab); err != nil {
		return err
	}
	b.hash = workloads.Hash(b.Rows)
	if limit := b.options.Limit; limit > 0 && limit < len(b.Rows) {
		b.Rows = b.Rows[:limit]
	}
	set, err := b.Workload.Over(b.options.Sampling)
	if err != nil {
		return err
	}
	set.Seed = b.options.Seed
	for i := range b.Rows {
		row := &b.Rows[i]
		if row.TokenIDs == nil {
			if row.TokenIDs, err = b.Session.Encode(row.Prompt, true); err != nil {
				return err
			}
		}
		r := &engine.Request{
			ID: row.ID, Tokens: row.TokenIDs, N: row.N, MaxTokens: row.MaxTokens, IgnoreEOS: true,
			Sampling: set.Sampling, LogitBias: set.LogitBias, TopLogprobs: set.TopLogprobs,
			ScorePrompt:       set.PromptLogprobs != parameter.NoPromptLogprobs,
			PromptTopLogprobs: max(0, set.PromptLogprobs),
			Leaf:              true, // as in a job whose rows have no parents
		}
		if row.Schema != "" { // text with a schema does not end early
			r.Structure = parameter.Structure{Kind: parameter.SchemaStructure, Text: row.Schema, Compact: true}
			r.IgnoreEOS = false
		}
		b.Requests = append(b.Requests, r)
		b.rowOf[r] = row
		b.Completions += row.N
		b.promptTokens += len(row.TokenIDs)
		b.Tokens += row.N * row.MaxTokens
		fed := int64(row.MaxTokens - 1)
		b.contextTokens += int64(row.N) * (fed*int64(len(row.TokenIDs)) + fed*(fed+1)/2)
	}
	return nil
}

// Figures are of one run of the workload. Rates are a second of wall-clock time.
type Figures struct {
	Seconds         float64 `json:"seconds"` // time until the last completion
	InputPerSecond  float64 `json:"prompt_tokens_per_second"`
	OutputPerSecond float64 `json:"generated_tokens_per_second"`
	FirstToken      float64 `json:"first_token_seconds"`
	FirstCompletion float64 `json:"first_completion_seconds"`
	// Means of the steps of one kind, absent if the device has no clock to measure them.
	DecodeStepSeconds float64 `json:"decode_step_seconds,omitempty"`
	PrefillStep       float64 `json:"prefill_step_seconds,omitempty"`
	// Idle is the share of the run in which the device did not run the program; Shares are the kinds of kernels' shares
	// of the run, with "other" for the rest of the device's time and "host" for Idle. There is only host if kernels do
	// not run.
	Idle    float64            `json:"device_idle_share"`
	Shares  map[string]float64 `json:"shares"`
	Kernels map[string]float64 `json:"kernel_seconds,omitempty"`
	// FewerThreads is the share of the run in which kernels used fewer threads than there are, since other processes
	// had the processors: the other figures are then of a busy machine.
	FewerThreads float64 `json:"fewer_threads_share,omitempty"`
	// Matmul is floating point operations of the model's products; Bytes is what must be read at least: the weights
	// each step, and keys and values for each token.
	Matmul     float64 `json:"matmul_flops_per_second,omitempty"`
	MatmulPeak float64 `json:"matmul_share_of_peak,omitempty"`
	KernelPeak float64 `json:"matmul_share_of_peak_in_kernels,omitempty"` // while the kernels of products run
	Bytes      float64 `json:"read_bytes_per_second"`
	BytesPeak  float64 `json:"read_share_of_peak,omitempty"`
	// Limit is the seconds that the run takes at least: the larger of its products at the measured peak of arithmetic
	// and its reads at the measured peak of memory. TimesLimit is Seconds divided by Limit.
	Limit       float64 `json:"limit_seconds,omitempty"`
	LimitBy     string  `json:"limit_by,omitempty"` // "arithmetic" or "reading"
	TimesLimit  float64 `json:"times_limit,omitempty"`
	MemoryPeak  int64   `json:"peak_memory_bytes"` // peak of the process in this run
	MemoryBegin int64   `json:"memory_begin_bytes"`
	MemoryEnd   int64   `json:"memory_end_bytes"`

	Engine engine.Stats `json:"engine"`
}

// ErrPartial reports that a run did not generate everything that was asked for.
var ErrPartial = errors.New("the run is not whole, so there are no figures")

// Pass runs the workload once.
func (b *Job) Pass(ctx context.Context) (*Figures, error) {
	f := &Figures{MemoryBegin: ResidentMemory()}
	resetPeakMemory()
	clocks, fewer := cpukernel.Times(), cpukernel.OnFewerThreads()
	seen := make(map[string]bool, b.Completions)
	tokens := 0
	begin := time.Now()
	for c, err := range b.Session.Run(ctx, slices.Values(b.Requests)) {
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPartial, err)
		}
		if f.FirstCompletion == 0 {
			f.FirstCompletion = time.Since(begin).Seconds()
		}
		row, known := b.rowOf[c.Request]
		if !known {
			return nil, fmt.Errorf("%w: a completion of %s was not asked for", ErrPartial, c.Request.ID)
		}
		if err := whole(row, c); err != nil {
			return nil, fmt.Errorf("%w: %s, completion %d: %w", ErrPartial, row.ID, c.Generation, err)
		}
		key := fmt.Sprintf("%s/%d", row.ID, c.Generation)
		if seen[key] {
			return nil, fmt.Errorf("%w: %s came twice", ErrPartial, key)
		}
		seen[key] = true
		tokens += len(c.Tokens)
	}
	f.Seconds = time.Since(begin).Seconds()
	if len(seen) != b.Completions || tokens != b.Tokens {
		return nil, fmt.Errorf("%w: %d of %d completions, %d of %d tokens", ErrPartial, len(seen), b.Completions,
			tokens, b.Tokens)
	}
	f.Engine = b.Session.Stats()
	f.MemoryPeak, f.MemoryEnd = peakMemory(), ResidentMemory()
	f.InputPerSecond, f.OutputPerSecond = float64(b.promptTokens)/f.Seconds, float64(b.Tokens)/f.Seconds
	b.derive(f, clocks)
	f.FewerThreads = (cpukernel.OnFewerThreads() - fewer).Seconds() / f.Seconds
	return f, nil
}

// whole reports what a completion lacks.
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
func (b *Job) derive(f *Figures, before map[string]time.Duration) {
	st, plan := f.Engine, b.Session.Plan()
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
	steps := float64(st.PrefillSteps + st.DecodeSteps)
	read := steps*float64(plan.WeightBytes)*b.readShare(share(float64(st.PrefillTokens+st.DecodeTokens), steps)) +
		float64(b.contextTokens)*float64(plan.KVBytesPerToken)
	f.Bytes = read / f.Seconds
}

// readShare is the share of the weights that a step of so many tokens reads: not 1 if there are experts.
func (b *Job) readShare(tokens float64) float64 {
	c := b.Session.Config
	_, logits := c.Work()
	all := c.Read(math.Inf(1)) + float64(logits)
	if all == 0 {
		return 1
	}
	return (c.Read(tokens) + float64(logits)) / all
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
// only for tokens that another was generated from. 0 if the model is not known.
func (b *Job) matmulFlops(st engine.Stats) float64 {
	layers, logits := b.Session.Config.Work()
	return 2 * (float64(layers)*float64(st.PrefillTokens+st.DecodeTokens) + float64(logits)*float64(b.Tokens))
}

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
