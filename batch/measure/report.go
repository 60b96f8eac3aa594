package measure

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/backend/xla/cpukernel"
	workloads "github.com/quire/quire/bench/workload"
	"github.com/quire/quire/engine"
)

// Report is all that was measured; "sample bench --json" prints it.
type Report struct {
	CommandLine []string            `json:"command_line"`
	Machine     Machine             `json:"machine"`
	Model       string              `json:"model"`
	Fingerprint string              `json:"model_fingerprint"`
	Kernels     string              `json:"kernels"`
	Plan        engine.Plan         `json:"plan"`
	Workload    *workloads.Workload `json:"workload"`
	Job         JobSize             `json:"job"`
	Start       StartFigures        `json:"start"`
	WarmUp      []*Figures          `json:"warm_up"`
	Runs        []*Figures          `json:"runs"`
	// Median is the run with the middle tokens/s.
	Median *Figures        `json:"median"`
	Peak   *cpukernel.Peak `json:"peak,omitempty"`
	// RoughLimit reports whether reading changed by more than a fifth while the runs continued, and with it their
	// limit.
	RoughLimit bool `json:"limit_is_rough,omitempty"`
}

// JobSize is how much there was to do in each run.
type JobSize struct {
	Hash         string `json:"workload_sha256"` // hash of all of the workload's rows
	Rows         int    `json:"rows"`
	Completions  int    `json:"completions"`
	PromptTokens int    `json:"prompt_tokens"`
	Tokens       int    `json:"generated_tokens"`
}

// StartFigures are of the time before the first run. Seconds count from the start of the command.
type StartFigures struct {
	ReadySeconds  float64         `json:"ready_seconds"`  // with reading the model's files, opening the backend
	EngineSeconds float64         `json:"engine_seconds"` // programs and weights
	FirstToken    float64         `json:"first_token_seconds"`
	Compiled      int             `json:"programs_compiled"`
	FromCache     int             `json:"programs_from_cache"`
	Programs      []ProgramFigure `json:"programs"`
	MemoryPeak    int64           `json:"peak_memory_bytes"`
}

type ProgramFigure struct {
	Name      string     `json:"name"`
	Seconds   float64    `json:"seconds"`
	FromCache bool       `json:"from_cache"`
	Memory    xla.Memory `json:"memory"`
}

// Report begins a report when the engine is ready.
func (b *Job) Report(opened time.Duration) *Report {
	s, st := b.Session, b.Session.Stats()
	r := &Report{
		CommandLine: os.Args, Machine: thisMachine(b.options.Version), Model: s.Model, Fingerprint: s.Fingerprint,
		Kernels: b.options.Kernels,
		Plan:    s.Plan(), Workload: b.Workload,
		Job: JobSize{Hash: b.hash, Rows: len(b.Rows), Completions: b.Completions, PromptTokens: b.promptTokens,
			Tokens: b.Tokens},
		Start: StartFigures{ReadySeconds: opened.Seconds(), EngineSeconds: st.StartSeconds, MemoryPeak: peakMemory()},
	}
	e, ok := s.Sampler.(interface {
		Executables() map[string]compute.Executable
	})
	if !ok {
		return r
	}
	executables := e.Executables()
	for _, name := range slices.Sorted(maps.Keys(executables)) {
		p := ProgramFigure{Name: name}
		if compiled, ok := executables[name].(*xla.Executable); ok {
			p.Seconds, p.FromCache = compiled.CompileTime.Seconds(), compiled.FromCache
			p.Memory, _ = compiled.Memory() // zero if the plugin does not say
		}
		if p.FromCache {
			r.Start.FromCache++
		} else {
			r.Start.Compiled++
		}
		r.Start.Programs = append(r.Start.Programs, p)
	}
	return r
}

// Compare sets the shares of what the processor can do, and the limit of each run.
func (r *Report) Compare(peak cpukernel.Peak) {
	r.Peak = &peak
	changed := peak.ReadBefore / peak.Read
	r.RoughLimit = changed > 0 && (changed < 0.8 || changed > 1.25)
	flops := r.arithmetic()
	for _, f := range slices.Concat(r.WarmUp, r.Runs) {
		f.MatmulPeak, f.BytesPeak = share(f.Matmul, flops), share(f.Bytes, peak.Read)
		f.KernelPeak = share(f.MatmulPeak, f.Shares["matmul"])
		f.Limit, f.LimitBy = f.Seconds*f.MatmulPeak, "arithmetic"
		if f.BytesPeak > f.MatmulPeak {
			f.Limit, f.LimitBy = f.Seconds*f.BytesPeak, "reading"
		}
		f.TimesLimit = share(f.Seconds, f.Limit)
	}
}

// arithmetic is the peak of what the products are computed in, the fastest if matrices have several forms. Matrices of
// at most 8 bits are multiplied as integers, except fp8.
func (r *Report) arithmetic() float64 {
	fastest := 0.0
	for form := range strings.SplitSeq(cmp.Or(r.Plan.Weights, r.Plan.DType), " and ") {
		rate := r.Peak.Int8
		switch {
		case form == "BFloat16":
			rate = r.Peak.BFloat16
		case strings.HasPrefix(form, "Float"), strings.HasPrefix(form, "fp8"):
			rate = r.Peak.Float32
		}
		fastest = max(fastest, rate)
	}
	return fastest
}

// Finish picks the run that stands for all.
func (r *Report) Finish() {
	byRate := slices.SortedFunc(slices.Values(r.Runs), func(a, b *Figures) int {
		switch {
		case a.OutputPerSecond < b.OutputPerSecond:
			return -1
		case a.OutputPerSecond > b.OutputPerSecond:
			return 1
		}
		return 0
	})
	r.Median = byRate[len(byRate)/2]
	r.Start.FirstToken = r.Start.ReadySeconds + slices.Concat(r.WarmUp, r.Runs)[0].FirstToken
}
