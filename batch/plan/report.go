package plan

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/backend/chip"
	"github.com/quire/quire/backend/hlo"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch/plan/speed"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
)

// Report is what a plan found; "sample plan --json" prints it as it is. Sizes are bytes of one device.
type Report struct {
	Model    string `json:"model"`
	Defaults string `json:"defaults,omitempty"` // of parameters that the model's files set
	Topology string `json:"topology,omitempty"`
	Device   string `json:"device"`
	// Devices is how many there are; each would run the whole model by itself.
	Devices      int   `json:"devices"`
	DeviceMemory int64 `json:"device_memory"`

	Weights   int64 `json:"weights"`
	KV        int64 `json:"kv"`
	Tables    int64 `json:"tables"`
	Masks     int64 `json:"masks,omitempty"` // states and masks of structured output
	Temporary int64 `json:"temporary"`
	Code      int64 `json:"code"`
	// Staging is blocks of pages on their way to the host and back. LaterFeatures is the arrays of features that rows
	// may still ask for.
	Staging       int64 `json:"staging,omitempty"`
	LaterFeatures int64 `json:"later_features,omitempty"`
	// Rest is inputs, outputs and what layouts pad.
	Rest  int64 `json:"rest"`
	Total int64 `json:"total"`
	// Matrix is the largest matrix, the output's.
	Matrix int64 `json:"largest_matrix"`

	// AllUsable reports whether the pages are as many as the job can use, and not bounded by memory.
	AllUsable bool `json:"all_usable"`
	// Complete reports whether the search for the most pages came to its end: 1/128 more, or pages of 1/512 of the
	// memory, were seen not to fit, or are useless. It is false if --max-compiles ended it, or nothing was searched.
	Complete        bool   `json:"search_complete"`
	Pages           int    `json:"pages"`
	TokensOfContext int    `json:"tokens_of_context"`
	Context         int    `json:"context"`
	Sequences       int    `json:"sequences_at_context"`
	KVMemoryFlag    string `json:"kv_memory_flag"`
	// MaxModelLenFlag is the limit that a run must be given to have these programs, if the plan was given none and a
	// run would take it from its rows.
	MaxModelLenFlag int             `json:"max_model_len_flag,omitempty"`
	Trials          []Trial         `json:"trials,omitempty"`
	Programs        []Program       `json:"programs"`
	Kernels         []xla.KernelUse `json:"kernels,omitempty"`
	// Warnings list what makes the job slower than necessary.
	Warnings []setting.Text  `json:"warnings,omitempty"`
	Estimate *speed.Estimate `json:"estimate,omitempty"`
	// Expected is what the programs would reach; nil if the compiler has no estimates for the device.
	Expected *speed.Expected `json:"expected,omitempty"`
	Plan     engine.Plan     `json:"plan"`
}

// Program is one compiled program.
type Program struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	// Before reports whether it was compiled by an earlier process, and that what it needs was kept.
	Before bool       `json:"compiled_before,omitempty"`
	Memory xla.Memory `json:"memory"`
	// Cost is the compiler's, each loop's body counted once; nil if it has none.
	Cost *xla.Cost `json:"cost,omitempty"`
	// Copied is the largest array that the program writes again, as it is or in a different order; nil if there is none
	// or the device is the host.
	Copied *hlo.Copy `json:"largest_copy,omitempty"`
}

// defaultContext is the length that sequences and speeds are reported for by default.
const defaultContext = 2048

// describe fills in the rest of the report: its programs are there.
func (r *Report) describe(p *Planner, done *engine.Precompiled) error {
	plan := done.Plan
	r.Plan = plan
	a := accountOf(plan, r.Programs)
	r.Total, r.Temporary, r.Code, r.Staging, r.LaterFeatures = a.total(), a.temporary, a.code, a.staging, a.later
	r.Weights, r.KV, r.Tables = plan.AllWeightBytes(), plan.KVBytes, done.StateBytes-plan.KVBytes
	r.Masks = plan.MaskBytes
	r.Rest = a.arrays - a.temporary - r.Weights - r.KV - r.Tables - r.Masks
	r.Pages, r.TokensOfContext = plan.Pages, plan.Pages*plan.PageSize
	r.AllUsable = plan.KV == "paged" && plan.Pages >= usablePages(plan)
	r.KVMemoryFlag = fmt.Sprint(plan.KVBytes)
	if p.config.MaxModelLen == 0 && p.backend.Traits().ScalarMemory > 0 {
		r.MaxModelLenFlag = plan.MaxModelLen
	}
	r.Context = p.options.Context
	if r.Context == 0 {
		r.Context = min(defaultContext, plan.MaxModelLen)
	}
	r.Sequences = plan.Pages / ((r.Context + plan.PageSize - 1) / plan.PageSize)
	r.Kernels = p.backend.KernelUses()
	r.Matrix = p.matrix(plan)
	r.Warnings = append(kernelWarnings(r.Kernels), plan.Warnings(p.backend.Traits())...)
	kind, err := p.backend.DeviceKind()
	if err != nil {
		return err
	}
	if c, ok := chip.Find(kind); ok && r.Sequences > 0 {
		e := p.work(plan, min(r.Sequences, plan.MaxSeqs), r.Context).Roofline(c)
		r.Estimate = &e
	}
	if p.backend.Traits().IsHost {
		return nil
	}
	return r.readPrograms(p, done)
}

// readPrograms finds what the optimized programs copy, and how long their steps are expected to take.
func (r *Report) readPrograms(p *Planner, done *engine.Precompiled) error {
	for name, executable := range p.programs(done) {
		text, err := executable.(*xla.Executable).OptimizedHLO()
		if err != nil {
			return err
		}
		program := hlo.Read(text)
		for i := range r.Programs {
			if copied, ok := program.LargestCopy(); ok && r.Programs[i].Name == name {
				r.Programs[i].Copied = &copied
			}
		}
		steps, ok := program.Steps(r.Plan.LayerTurns)
		if name != largestProgram || !ok || r.Estimate == nil || r.Estimate.Chip.Clock == 0 {
			continue
		}
		e := p.work(r.Plan, r.Estimate.Sequences, r.Context).Expected(r.Estimate.Chip, steps)
		r.Expected = &e
	}
	if r.Expected != nil {
		copied, _ := r.largestCopy()
		r.Warnings = append(r.Warnings, r.Expected.Warnings(*r.Estimate, copied)...)
	}
	return nil
}

// kernelWarnings names the shapes that attention has no kernel for, and the remedy.
func kernelWarnings(used []xla.KernelUse) (warnings []setting.Text) {
	for _, u := range used {
		if u.Kernel == "" {
			warnings = append(warnings, setting.Textf("%s runs without a kernel, in ordinary operations, for %s: %s",
				strings.ReplaceAll(u.Composite, "_", " "), u.For, u.Reason))
		}
	}
	return warnings
}

// Tried lists the trials of the search in words.
func (r *Report) Tried() string {
	var parts []string
	for _, t := range r.Trials {
		parts = append(parts, t.String())
	}
	return strings.Join(parts, ", ")
}

// Size prints bytes in units of 1024, as memory is counted.
func Size(n int64) string {
	if n < 0 {
		return "-" + humanize.IBytes(uint64(-n))
	}
	return humanize.IBytes(uint64(n))
}

// sizes formats what is needed and what there is, with enough decimals to distinguish the two.
func sizes(needed, available int64) (string, string) {
	if available < 1<<30 {
		return Size(needed), Size(available)
	}
	gib := func(n int64, decimals int) string { return fmt.Sprintf("%.*f GiB", decimals, float64(n)/(1<<30)) }
	decimals := 1
	for decimals < 3 && needed != available && gib(needed, decimals) == gib(available, decimals) {
		decimals++
	}
	return gib(needed, decimals), gib(available, decimals)
}

// MoreSeqs returns how many sequences at once would use the memory that a plan leaves free, a power of two; 0 if it is
// not worth mentioning. Each further sequence takes as much of the KV cache as the others.
func (r *Report) MoreSeqs() int {
	slots := r.Plan.MaxSeqs
	if !r.AllUsable || r.KV <= 0 || slots < 1 {
		return 0
	}
	free := float64(r.DeviceMemory-r.Total) * 0.9 // temporaries grow, too
	more := 1
	for float64(2*more) <= float64(slots)*(1+free/float64(r.KV)) {
		more *= 2
	}
	if more = min(more, maxMoreSeqs); more < 2*slots {
		return 0
	}
	return more
}

// maxMoreSeqs bounds [Report.MoreSeqs]: beyond it steps take longer, and no device has more tokens a second.
const maxMoreSeqs = 512
