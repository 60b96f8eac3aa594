package estimate

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch/measure"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/internal/visible"
)

// printBench writes the report of a measurement as a table.
func printBench(w io.Writer, r *measure.Report) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, visible.Line(fmt.Sprintf(format, args...)))
	}
	row("machine", "%s, %d threads of %d, %s", r.Machine.CPU, r.Machine.Threads, r.Machine.CPUs,
		cli.MemoryText(r.Machine.Memory))
	row("engine", "sample %s, %s in %s, %d slots, kernels %s", r.Machine.Version, r.Plan.Model, r.Plan.DType,
		r.Plan.MaxSeqs, kernelsOf(r))
	row("workload", "%s: %s", r.Workload.Name, r.Workload.About)
	row("job", "%d rows, %d completions, %d prompt tokens, %d generated", r.Job.Rows, r.Job.Completions,
		r.Job.PromptTokens, r.Job.Tokens)
	row("start", "%s until ready (%s for programs and weights), %s until the first token, peak %s",
		cli.Seconds(r.Start.ReadySeconds), cli.Seconds(r.Start.EngineSeconds),
		cli.Seconds(r.Start.FirstToken), cli.MemoryText(r.Start.MemoryPeak))
	for _, p := range r.Start.Programs {
		how := "compiled"
		if p.FromCache {
			how = "loaded from the cache"
		}
		row("  "+p.Name, "%s in %s, %s of temporary memory", how, cli.Seconds(p.Seconds),
			cli.MemoryText(p.Memory.Temporary))
	}
	for _, f := range r.WarmUp {
		row("warm-up", "%.0f tokens/s in %s", f.OutputPerSecond, cli.Seconds(f.Seconds))
	}
	var rates []string
	for _, f := range r.Runs {
		rates = append(rates, fmt.Sprintf("%.0f", f.OutputPerSecond))
	}
	m := r.Median
	row("generated", "%.0f tokens/s (runs: %s)", m.OutputPerSecond, strings.Join(rates, ", "))
	row("prompts", "%.0f tokens/s", m.InputPerSecond)
	row("run", "%s; first token after %s, first completion after %s", cli.Seconds(m.Seconds), cli.Seconds(m.FirstToken),
		cli.Seconds(m.FirstCompletion))
	row("steps", "%s, %s", steps("decode", m.Engine.DecodeSteps, m.DecodeStepSeconds),
		steps("prefill", m.Engine.PrefillSteps, m.PrefillStep))
	if m.Engine.DraftedTokens > 0 {
		row("speculation", "%s", cli.Speculated(m.Engine))
	}
	row("time", "%s", sharesOf(m))
	if m.FewerThreads >= 0.005 {
		row("threads", "fewer than %d for %.0f %% of the run: other processes had the processors", r.Machine.Threads,
			100*m.FewerThreads)
	}
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
		row("peak", "%.0f GFLOP/s float32, %.0f bfloat16, %.0f int8, %.1f GB/s read (%s, %d threads)",
			r.Peak.Float32/1e9, r.Peak.BFloat16/1e9, r.Peak.Int8/1e9, r.Peak.Read/1e9, r.Peak.Level, r.Peak.Threads)
		if r.RoughLimit {
			row("reading", "%.1f GB/s before the runs, %.1f after them: the limit is rough", r.Peak.ReadBefore/1e9,
				r.Peak.Read/1e9)
		}
		if m.Limit > 0 {
			row("limit", "%s at the peak of %s; the run took %.1f times that", cli.Seconds(m.Limit), m.LimitBy,
				m.TimesLimit)
		}
	}
	row("memory", "peak %s, %s before the run, %s after it", cli.MemoryText(m.MemoryPeak),
		cli.MemoryText(m.MemoryBegin),
		cli.MemoryText(m.MemoryEnd))
	table.Flush()
}

// steps counts the steps of one kind, with their mean time if it was measured.
func steps(kind string, n int, each float64) string {
	if each == 0 {
		return fmt.Sprintf("%d %s", n, kind)
	}
	return fmt.Sprintf("%d %s of %s", n, kind, cli.Seconds(each))
}

// kernelsOf names what the kernels in C run with.
func kernelsOf(r *measure.Report) string {
	if r.Peak != nil && r.Kernels == xla.KernelsAuto {
		return r.Peak.Level
	}
	return xla.KernelsOff
}

// sharesOf prints how the time of a run is divided.
func sharesOf(f *measure.Figures) string {
	var parts []string
	for _, kind := range []string{"matmul", "attention", "sampling", "elementwise", "other", "host"} {
		if s, ok := f.Shares[kind]; ok {
			parts = append(parts, fmt.Sprintf("%s %.1f %%", kind, 100*s))
		}
	}
	return strings.Join(parts, ", ")
}
