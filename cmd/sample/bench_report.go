package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/backend/xla/cpukernel"
	workloads "github.com/quire/quire/bench/workload"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/visible"
)

// benchReport is all that "sample bench" measured; --json prints it.
type benchReport struct {
	CommandLine []string            `json:"command_line"`
	Machine     machine             `json:"machine"`
	Model       string              `json:"model"`
	Fingerprint string              `json:"model_fingerprint"`
	Kernels     string              `json:"kernels"`
	Plan        engine.Plan         `json:"plan"`
	Workload    *workloads.Workload `json:"workload"`
	Job         jobSize             `json:"job"`
	Start       startFigures        `json:"start"`
	WarmUp      []*runFigures       `json:"warm_up"`
	Runs        []*runFigures       `json:"runs"`
	// Median is the run with the middle tokens/s.
	Median *runFigures     `json:"median"`
	Peak   *cpukernel.Peak `json:"peak,omitempty"`
}

// jobSize is how much there was to do in each run.
type jobSize struct {
	Hash         string `json:"workload_sha256"` // of all of the workload's rows
	Rows         int    `json:"rows"`
	Completions  int    `json:"completions"`
	PromptTokens int    `json:"prompt_tokens"`
	Tokens       int    `json:"generated_tokens"`
}

// startFigures are of the time before the first run. Seconds count from the command's begin.
type startFigures struct {
	ReadySeconds  float64         `json:"ready_seconds"`  // with reading the model's files, opening the backend
	EngineSeconds float64         `json:"engine_seconds"` // programs and weights
	FirstToken    float64         `json:"first_token_seconds"`
	Compiled      int             `json:"programs_compiled"`
	FromCache     int             `json:"programs_from_cache"`
	Programs      []programFigure `json:"programs"`
	MemoryPeak    int64           `json:"peak_memory_bytes"`
}

type programFigure struct {
	Name      string     `json:"name"`
	Seconds   float64    `json:"seconds"`
	FromCache bool       `json:"from_cache"`
	Memory    xla.Memory `json:"memory"`
}

// report begins a report when the engine is ready.
func (b *bench) report(opened time.Duration) *benchReport {
	s, st := b.session, b.session.Stats()
	r := &benchReport{
		CommandLine: b.options.commandLine, Machine: thisMachine(), Model: s.Model, Fingerprint: s.Fingerprint,
		Kernels: b.options.run.spec.Engine.Kernels,
		Plan:    s.Plan(), Workload: b.workload,
		Job: jobSize{Hash: b.hash, Rows: len(b.rows), Completions: b.completions, PromptTokens: b.promptTokens,
			Tokens: b.tokens},
		Start: startFigures{ReadySeconds: opened.Seconds(), EngineSeconds: st.StartSeconds, MemoryPeak: peakMemory()},
	}
	e, ok := s.Sampler.(compiledEngine)
	if !ok {
		return r
	}
	executables := e.Executables()
	for _, name := range slices.Sorted(maps.Keys(executables)) {
		p := programFigure{Name: name}
		if compiled, ok := executables[name].(*xla.Executable); ok {
			p.Seconds, p.FromCache = compiled.CompileTime.Seconds(), compiled.FromCache
			p.Memory, _ = compiled.Memory() // zero where the plugin does not say
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

// compare sets the shares of what the processor can do.
func (r *benchReport) compare(peak cpukernel.Peak) {
	r.Peak = &peak
	flops := peak.Float32
	if r.Plan.DType == "BFloat16" {
		flops = peak.BFloat16
	}
	for _, f := range slices.Concat(r.WarmUp, r.Runs) {
		f.MatmulPeak, f.BytesPeak = share(f.Matmul, flops), share(f.Bytes, peak.Read)
		f.KernelPeak = share(f.MatmulPeak, f.Shares["matmul"])
	}
}

// finish picks the run that stands for all.
func (r *benchReport) finish() {
	byRate := slices.SortedFunc(slices.Values(r.Runs), func(a, b *runFigures) int {
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

// print writes the report as a table.
func (r *benchReport) print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, visible.Line(fmt.Sprintf(format, args...)))
	}
	row("machine", "%s, %d threads of %d, %s", r.Machine.CPU, r.Machine.Threads, r.Machine.CPUs,
		memoryText(r.Machine.Memory))
	row("engine", "sample %s, %s in %s, %d slots, kernels %s", r.Machine.Version, r.Plan.Model, r.Plan.DType,
		r.Plan.MaxSeqs, r.kernels())
	row("workload", "%s: %s", r.Workload.Name, r.Workload.About)
	row("job", "%d rows, %d completions, %d prompt tokens, %d generated", r.Job.Rows, r.Job.Completions,
		r.Job.PromptTokens, r.Job.Tokens)
	row("start", "%s until ready (%s for programs and weights), %s until the first token, peak %s",
		seconds(r.Start.ReadySeconds), seconds(r.Start.EngineSeconds),
		seconds(r.Start.FirstToken), memoryText(r.Start.MemoryPeak))
	for _, p := range r.Start.Programs {
		how := "compiled"
		if p.FromCache {
			how = "loaded from the cache"
		}
		row("  "+p.Name, "%s in %s, %s of temporary memory", how, seconds(p.Seconds), memoryText(p.Memory.Temporary))
	}
	for _, f := range r.WarmUp {
		row("warm-up", "%.0f tokens/s in %s", f.OutputPerSecond, seconds(f.Seconds))
	}
	var rates []string
	for _, f := range r.Runs {
		rates = append(rates, fmt.Sprintf("%.0f", f.OutputPerSecond))
	}
	m := r.Median
	row("generated", "%.0f tokens/s (runs: %s)", m.OutputPerSecond, strings.Join(rates, ", "))
	row("prompts", "%.0f tokens/s", m.InputPerSecond)
	row("run", "%s; first token after %s, first completion after %s", seconds(m.Seconds), seconds(m.FirstToken),
		seconds(m.FirstCompletion))
	row("steps", "%s, %s", steps("decode", m.Engine.DecodeSteps, m.DecodeStepSeconds),
		steps("prefill", m.Engine.PrefillSteps, m.PrefillStep))
	row("time", "%s", m.shares())
	if r.Peak != nil {
		if m.Matmul > 0 {
			kernels := ""
			if m.KernelPeak > 0 {
				kernels = fmt.Sprintf("; %.0f %% while matmul kernels run", 100*m.KernelPeak)
			}
			row("arithmetic", "%.1f GFLOP/s of matmuls, %.0f %% of the measured peak%s", m.Matmul/1e9, 100*m.MatmulPeak,
				kernels)
		}
		row("memory read", "%.1f GB/s at least, %.0f %% of the measured peak", m.Bytes/1e9, 100*m.BytesPeak)
		row("peak", "%.0f GFLOP/s float32, %.0f GFLOP/s bfloat16, %.1f GB/s read (%s, %d threads)", r.Peak.Float32/1e9,
			r.Peak.BFloat16/1e9, r.Peak.Read/1e9, r.Peak.Level, r.Peak.Threads)
	}
	row("memory", "peak %s, %s before the run, %s after it", memoryText(m.MemoryPeak), memoryText(m.MemoryBegin),
		memoryText(m.MemoryEnd))
	table.Flush()
}

// steps counts the steps of one kind, with their mean time where that was measured.
func steps(kind string, n int, each float64) string {
	if each == 0 {
		return fmt.Sprintf("%d %s", n, kind)
	}
	return fmt.Sprintf("%d %s of %s", n, kind, seconds(each))
}

// kernels names what the kernels in C run with.
func (r *benchReport) kernels() string {
	if r.Peak != nil && r.Kernels == xla.KernelsAuto {
		return r.Peak.Level
	}
	return xla.KernelsOff
}

// shares shows where the time of a run went.
func (f *runFigures) shares() string {
	var parts []string
	for _, kind := range []string{"matmul", "attention", "sampling", "elementwise", "other", "host"} {
		if s, ok := f.Shares[kind]; ok {
			parts = append(parts, fmt.Sprintf("%s %.1f %%", kind, 100*s))
		}
	}
	return strings.Join(parts, ", ")
}
