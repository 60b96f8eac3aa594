package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
)

// planReport is what "sample plan" found; --json prints it as it is. Sizes are bytes of one device.
type planReport struct {
	Model    string `json:"model"`
	Topology string `json:"topology,omitempty"`
	Device   string `json:"device"`
	// Devices is how many there are; each would run the whole model by itself.
	Devices      int   `json:"devices"`
	DeviceMemory int64 `json:"device_memory"`

	Weights   int64 `json:"weights"`
	KV        int64 `json:"kv"`
	Tables    int64 `json:"tables"`
	Temporary int64 `json:"temporary"`
	Code      int64 `json:"code"`
	// Rest is inputs, outputs and what layouts pad.
	Rest  int64 `json:"rest"`
	Total int64 `json:"total"`

	// AllUsable says that the pages are as many as the job can use, and not bounded by memory.
	AllUsable bool `json:"all_usable"`
	// Complete says that the search for the most pages came to its end: 1/128 more, or pages of 1/512 of the memory,
	// were seen not to fit, or are of no use. It is false if --max-compiles ended it, or nothing was searched.
	Complete        bool            `json:"search_complete"`
	Pages           int             `json:"pages"`
	TokensOfContext int             `json:"tokens_of_context"`
	Context         int             `json:"context"`
	Sequences       int             `json:"sequences_at_context"`
	KVMemoryFlag    string          `json:"kv_memory_flag"`
	Trials          []trial         `json:"trials,omitempty"`
	Programs        []planProgram   `json:"programs"`
	Kernels         []xla.KernelUse `json:"kernels,omitempty"`
	Estimate        *estimate       `json:"estimate,omitempty"`
	Plan            engine.Plan     `json:"plan"`
}

// planProgram is one compiled program.
type planProgram struct {
	Name    string     `json:"name"`
	Seconds float64    `json:"seconds"`
	Memory  xla.Memory `json:"memory"`
	// Cost is the compiler's, each loop's body counted once; nil where it has none.
	Cost *xla.Cost `json:"cost,omitempty"`
}

// defaultContext is the length that sequences and speeds are told for if nothing is said.
const defaultContext = 2048

// describe fills in the report from the programs.
func (r *planReport) describe(p *planner, done *engine.Precompiled) error {
	r.Plan = done.Plan
	programs := done.Programs
	if p.kept != nil {
		programs = append(slices.Clone(programs), p.kept.Programs...)
	}
	for _, program := range programs {
		m, err := memoryOf(program)
		if err != nil {
			return err
		}
		entry := planProgram{Name: program.Name, Seconds: program.Seconds, Memory: m}
		if cost, err := program.Executable.(*xla.Executable).Cost(); err == nil {
			entry.Cost = &cost
		}
		r.Programs = append(r.Programs, entry)
		r.Code += max(m.Code, 0)
		if m.Total > r.Total {
			r.Total, r.Temporary = m.Total, m.Temporary
		}
	}
	for _, program := range r.Programs { // the code of the others stays on the device
		if program.Memory.Total != r.Total {
			r.Total += max(program.Memory.Code, 0)
			break
		}
	}
	plan := done.Plan
	r.Weights, r.KV, r.Tables = plan.WeightBytes, plan.KVBytes, done.StateBytes-plan.KVBytes
	r.Rest = r.Total - r.Weights - r.KV - r.Tables - r.Temporary - r.Code
	r.Pages, r.TokensOfContext = plan.Pages, plan.Pages*plan.PageSize
	r.AllUsable = plan.KV == "paged" && plan.Pages >= usablePages(plan)
	r.KVMemoryFlag = fmt.Sprint(plan.KVBytes)
	r.Context = p.o.context
	if r.Context == 0 {
		r.Context = min(defaultContext, plan.MaxModelLen)
	}
	r.Sequences = plan.Pages / ((r.Context + plan.PageSize - 1) / plan.PageSize)
	r.Kernels = p.backend.KernelUses()
	kind, err := p.backend.DeviceKind()
	if err != nil {
		return err
	}
	if c, ok := findChip(kind); ok && r.Sequences > 0 {
		e := p.work(plan, min(r.Sequences, plan.MaxSeqs), r.Context).roofline(c)
		r.Estimate = &e
	}
	return nil
}

// print writes the report as a table.
func (r *planReport) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	part := func(name string, n int64, note string) {
		fmt.Fprintf(t, "  %s\t%10s\t%5.1f %%\t%s\n", name, size(n), 100*float64(n)/float64(r.DeviceMemory), note)
	}
	plan := r.Plan
	row("model", "%s: %s, %.2f B parameters in %s", r.Model, plan.Model, float64(plan.Parameters)/1e9, plan.DType)
	row("device", "%s, %s of memory", r.Device, size(r.DeviceMemory))
	if together := max(1, plan.Devices); r.Devices > 1 {
		if together == 1 {
			row("devices", "%d, each with the whole model: planned for one, and %d run side by side", r.Devices,
				r.Devices)
		} else {
			row("devices",
				"%d: %d run the model together, with %d places for replicas; memory is that of one device, speed "+
					"that of one replica", r.Devices, together, r.Devices/together)
		}
	}
	t.Flush()
	fmt.Fprintln(t, "\nmemory of one device")
	part("weights", r.Weights, "")
	part("KV cache", r.KV, fmt.Sprintf("%d pages of %d tokens, %s a token in %s", r.Pages, plan.PageSize,
		size(plan.KVBytesPerToken), plan.KVDType))
	part("tables", r.Tables, "")
	part("temporaries", r.Temporary, "")
	part("code", r.Code, "")
	part("inputs, outputs, padding", r.Rest, "")
	part("total", r.Total, fmt.Sprintf("%s are free", size(r.DeviceMemory-r.Total)))
	t.Flush()
	fmt.Fprintln(t)
	switch {
	case r.AllUsable:
		row("context", "%s tokens: all that %d sequences and %d waiting prompts of %s tokens can use",
			humanize.Comma(int64(r.TokensOfContext)), plan.MaxSeqs, plan.Holders,
			humanize.Comma(int64(plan.MaxModelLen)))
	case len(r.Trials) > 0 && !r.Complete:
		row("context", "%s tokens fit; more may, as the search ended with --max-compiles (%s)",
			humanize.Comma(int64(r.TokensOfContext)), r.trials())
	case len(r.Trials) > 0:
		row("context", "%s tokens: the most that compile and fit, to within 1/128, or 1/512 of the memory (%s)",
			humanize.Comma(int64(r.TokensOfContext)), r.trials())
	default:
		row("context", "%s tokens, as --kv-memory says", humanize.Comma(int64(r.TokensOfContext)))
	}
	row("sequences", "%s of %s tokens; %d decode at once", humanize.Comma(int64(r.Sequences)),
		humanize.Comma(int64(r.Context)), min(r.Sequences, plan.MaxSeqs))
	for _, program := range r.Programs {
		row("program "+program.Name, "compiled in %.1f s, %s of temporaries, %s of code, %s in place", program.Seconds,
			size(program.Memory.Temporary), size(program.Memory.Code), size(program.Memory.Aliased))
	}
	for _, k := range r.Kernels {
		if k.Kernel != "" {
			row("kernel", "%s for %s: %s", k.Composite, k.For, k.Kernel)
		} else {
			row("plain form", "%s for %s: %s", k.Composite, k.For, k.Reason)
		}
	}
	t.Flush()
	fmt.Fprintln(t)
	r.printEstimate(row)
	row("run with", "--kv-memory %s", r.KVMemoryFlag)
	t.Flush()
}

func (r *planReport) printEstimate(row func(name, format string, args ...any)) {
	e := r.Estimate
	if e == nil {
		row("speed", "no estimate: the peaks of this device are not known")
		return
	}
	row("speed",
		"at most, by the roofline of %s (%.0f TFLOP/s, %.0f GB/s), without the time that devices spend on each "+
			"other; an estimate, nothing was measured", e.Chip.Name, e.Chip.FLOPs/1e12, e.Chip.Bandwidth/1e9)
	row("  decode", "%s tokens/s with %d sequences of %d tokens: %s bound, %.1f GFLOP and %s a step",
		humanize.Comma(int64(e.DecodeTokensPerSecond)),
		e.Sequences, e.Context, e.DecodeBound, e.DecodeFLOPs/1e9, humanize.Bytes(uint64(e.DecodeBytes)))
	row("  prefill", "%s tokens/s in steps of %d tokens: %s bound, %.1f GFLOP and %s a step",
		humanize.Comma(int64(e.PrefillTokensPerSecond)),
		r.Plan.PrefillTokens, e.PrefillBound, e.PrefillFLOPs/1e9, humanize.Bytes(uint64(e.PrefillBytes)))
}

func (r *planReport) trials() string {
	var parts []string
	for _, t := range r.Trials {
		parts = append(parts, t.String())
	}
	return strings.Join(parts, ", ")
}

// size prints bytes in units of 1024, as memory is counted.
func size(n int64) string {
	if n < 0 {
		return "-" + humanize.IBytes(uint64(-n))
	}
	return humanize.IBytes(uint64(n))
}
