package estimate

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/batch/plan"
	"github.com/quire/quire/batch/plan/speed"
	"github.com/quire/quire/cmd/sample/cli"
)

// printPlan writes the report of a plan as a table.
func printPlan(w io.Writer, r *plan.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	part := func(name string, n int64, note string) {
		fmt.Fprintf(t, "  %s\t%10s\t%5.1f %%\t%s\n", name, plan.Size(n), 100*float64(n)/float64(r.DeviceMemory), note)
	}
	p := r.Plan
	row("model", "%s: %s, %.2f B parameters in %s", r.Model, p.Model, float64(p.Parameters)/1e9, p.DType)
	if r.Defaults != "" {
		row("defaults", "%s", r.Defaults)
	}
	row("device", "%s, %s of memory", r.Device, plan.Size(r.DeviceMemory))
	if together := max(1, p.Devices); r.Devices > 1 {
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
	part("weights", r.Weights-p.AdapterBytes, "")
	if p.Adapters > 0 {
		part("adapters", p.AdapterBytes, fmt.Sprintf("%d, room for %d at once", p.Adapters, p.AdapterSlots))
	}
	if !p.Encodes {
		part("KV cache", r.KV, pagesOf(r))
		part("tables", r.Tables, "")
	}
	if r.Masks > 0 {
		part("masks", r.Masks, p.MaskRoom())
	}
	part("temporaries", r.Temporary, "")
	part("code", r.Code, "")
	if r.Staging > 0 {
		part("pages on their way", r.Staging, "to the host and back")
	}
	if r.LaterFeatures > 0 {
		part("features", r.LaterFeatures, "that rows may still ask for")
	}
	part("inputs, outputs, padding", r.Rest, "")
	part("total", r.Total, fmt.Sprintf("%s are free", plan.Size(r.DeviceMemory-r.Total)))
	t.Flush()
	fmt.Fprintln(t)
	if p.Encodes {
		row("steps", "of %s tokens, of at most %d texts, each of at most %s tokens",
			humanize.Comma(int64(p.PrefillTokens)), p.MaxSeqs, humanize.Comma(int64(p.MaxModelLen)))
	} else {
		printContext(r, row)
	}
	for _, text := range p.Lowered {
		row("lowered", "%s", text)
	}
	if p.ExpertGroups > 1 {
		row("experts", "shared out to %d groups of devices", p.ExpertGroups)
	}
	if more := r.MoreSeqs(); more > 0 && !p.Encodes {
		row("free", "%s: --max-seqs %d would use them", plan.Size(r.DeviceMemory-r.Total), more)
	}
	if !p.Encodes {
		row("sequences", "%s of %s tokens; %d decode at once", humanize.Comma(int64(r.Sequences)),
			humanize.Comma(int64(r.Context)), min(r.Sequences, p.MaxSeqs))
	}
	for _, program := range r.Programs {
		when := fmt.Sprintf("in %.1f s", program.Seconds)
		if program.Before {
			when = "before"
		}
		row("program "+program.Name, "compiled %s, %s of temporaries, %s of code, %s in place", when,
			plan.Size(program.Memory.Temporary), plan.Size(program.Memory.Code), plan.Size(program.Memory.Aliased))
	}
	for _, k := range r.Kernels {
		if k.Tried != "" {
			row("too large", "%s for %s: %s", k.Composite, k.For, k.Tried)
		}
		if k.Kernel != "" {
			row("kernel", "%s for %s: %s", k.Composite, k.For, k.Kernel)
		} else {
			row("plain form", "%s for %s: %s", k.Composite, k.For, k.Reason)
		}
	}
	t.Flush()
	if p.Encodes {
		for _, w := range r.Warnings {
			row("warning", "%s", w.Spell(cli.AsFlag))
		}
		t.Flush()
		return
	}
	fmt.Fprintln(t)
	printEstimate(r, row)
	for _, w := range r.Warnings {
		row("warning", "%s", w.Spell(cli.AsFlag))
	}
	flags, why := "--kv-memory "+r.KVMemoryFlag, ""
	if r.MaxModelLenFlag > 0 {
		flags += fmt.Sprintf(" --max-model-len %d", r.MaxModelLenFlag)
		why = ", the model's own limit: without it run takes what its longest row needs"
	}
	row("run with", "%s%s", flags, why)
	t.Flush()
}

// printContext writes how many tokens there is room for.
func printContext(r *plan.Report, row func(name, format string, args ...any)) {
	p := r.Plan
	switch {
	case r.AllUsable:
		row("context", "%s tokens: all that %d sequences and %d waiting prompts of %s tokens can use",
			humanize.Comma(int64(r.TokensOfContext)), p.MaxSeqs, p.Holders,
			humanize.Comma(int64(p.MaxModelLen)))
	case len(r.Trials) > 0 && !r.Complete:
		row("context", "%s tokens fit; more may, as the search ended with --max-compiles (%s)",
			humanize.Comma(int64(r.TokensOfContext)), r.Tried())
	case len(r.Trials) > 0:
		row("context", "%s tokens: the most that compile and fit, to within 1/128, or 1/512 of the memory (%s)",
			humanize.Comma(int64(r.TokensOfContext)), r.Tried())
	default:
		row("context", "%s tokens, as --kv-memory says", humanize.Comma(int64(r.TokensOfContext)))
	}
}

// pagesOf reports what the KV cache is.
func pagesOf(r *plan.Report) string {
	p := r.Plan
	text := fmt.Sprintf("%d pages of %d tokens, %s a token in %s", r.Pages, p.PageSize, plan.Size(p.KVBytesPerToken),
		p.KVDType)
	if p.StateBytes > 0 {
		text += fmt.Sprintf(", and states of %s a page", plan.Size(p.StateBytes))
	}
	if p.Drafter != nil {
		text += fmt.Sprintf(", and %s of the draft model", plan.Size(p.Drafter.KVBytesPerToken))
	}
	return text
}

func printEstimate(r *plan.Report, row func(name, format string, args ...any)) {
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
	if r.Expected == nil {
		return
	}
	row("expected", "by the compiler's estimates, with stated rates for attention's kernels, scatters and exchanges; "+
		"nothing was measured")
	ms := func(seconds float64) string { return fmt.Sprintf("%.2f", 1000*seconds) }
	parts := func(name string, perSecond float64, t speed.StepTime) {
		row(name, "%s tokens/s; %s ms a step: layers %s, attention %s, rows %s, exchanges %s, sampling %s, tables %s",
			humanize.Comma(int64(perSecond)), ms(t.Total()), ms(t.Layers), ms(t.Attention), ms(t.Rows), ms(t.Exchanges),
			ms(t.Sampling), ms(t.Tables))
	}
	parts("  decode", r.Expected.DecodeTokensPerSecond, r.Expected.Decode)
	parts("  prefill", r.Expected.PrefillTokensPerSecond, r.Expected.Prefill)
}
