package config

import (
	"fmt"
	"strings"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/internal/plural"
)

// Plan reports what an engine settled on before it allocated its memory. Sizes are in bytes. If several devices run the
// model together, they are the sizes of one device.
type Plan struct {
	// Encodes reports that it is the plan of an encoder, which has neither a KV cache nor slots: MaxSeqs is how many
	// rows a step has room for, and PrefillTokens how many tokens.
	Encodes bool   `json:"encodes,omitempty"`
	Backend string `json:"backend"`
	// Runtime describes the backend without the level of its kernels.
	Runtime string `json:"-"`
	// Devices is how many run the model together, each with a part of it: see docs/parallel.md.
	Devices int `json:"devices"`
	// ExpertGroups is the number of groups that they divide experts among.
	ExpertGroups int `json:"expert_groups"`
	// Replicas is how many engines like this take requests from one queue; 0 for one alone.
	Replicas   int    `json:"replicas,omitempty"`
	Model      string `json:"model"`
	Parameters int64  `json:"parameters"`
	DType      string `json:"dtype"`
	// Weights are the forms of matrices that are not held in DType.
	Weights string `json:"weights,omitempty"`
	// Quantization is how a quantized safetensors checkpoint is stored: see [models.Checkpoint.Quantization].
	Quantization    string `json:"quantization,omitempty"`
	KVDType         string `json:"kv_dtype"`
	KV              string `json:"kv"`
	WeightBytes     int64  `json:"weight_bytes"`
	KVBytesPerToken int64  `json:"kv_bytes_per_token"`
	// StateBytes is the size of the states of a page: one for each layer that keeps a state of a sequence.
	StateBytes int64 `json:"state_bytes,omitempty"`
	KVBytes    int64 `json:"kv_bytes"`
	// Lowered names what is less than the config asks for, and why.
	Lowered []string `json:"lowered,omitempty"`
	// MaxSeqs is how many sequences decode at once. Holders is how many prompts may wait for their clones.
	MaxSeqs       int `json:"max_seqs"`
	Holders       int `json:"holders"`
	Contexts      int `json:"contexts,omitempty"` // contexts that may be open at once
	Pages         int `json:"pages"`
	PageSize      int `json:"page_size"`
	PagesPerSeq   int `json:"pages_per_seq"`
	MaxModelLen   int `json:"max_model_len"`
	PrefillTokens int `json:"prefill_tokens"`
	MaxRounds     int `json:"max_rounds"`
	// Layers is LayersUnrolled or LayersLoop. LayerTurns is how often that loop runs in a step, 1 if there is none.
	Layers     string `json:"layers"`
	LayerTurns int    `json:"-"`
	// PrefixCache reports whether pages have names, so that prompts that begin with them share them.
	PrefixCache bool `json:"prefix_cache"`
	// NameDrawn reports whether pages of completions have names too: a token then has the same bytes in a prompt and
	// after one.
	NameDrawn bool      `json:"name_drawn"`
	Admission Admission `json:"admission"`
	// Transfers reports whether pages can be moved to the host and back, which takes two more programs.
	Transfers bool `json:"transfers"`
	// Programs are the names of the programs that the engine compiles.
	Programs []string `json:"programs"`
	// Drafts is how many tokens of a sequence are drafted in a step at most, DraftWidth how many tokens a step with
	// drafts has: see Config.Speculate.
	Drafts     int `json:"drafts,omitempty"`
	DraftWidth int `json:"draft_width,omitempty"`
	// Drafter is the model that drafts them, if there is one: see Config.DraftModel.
	Drafter *Drafter `json:"drafter,omitempty"`
	// Adapters is the number of low-rank adapters that requests may name, AdapterSlots how many of them the device has
	// room for, and AdapterBytes the memory of that room.
	Adapters     int   `json:"adapters,omitempty"`
	AdapterSlots int   `json:"adapter_slots,omitempty"`
	AdapterBytes int64 `json:"adapter_bytes,omitempty"`
	// Features are the features that the programs have from the start: see Config.Features. MaskBytes is the device
	// memory of the states and masks of structured output, if Features includes it.
	Features  []string `json:"features,omitempty"`
	MaskBytes int64    `json:"mask_bytes,omitempty"`

	// StagingBytes is the device memory of blocks of pages on their way to the host and back, besides KVBytes.
	// LaterFeatureBytes is what the arrays of features take that rows may still ask for. On a CPU they are 0.
	StagingBytes      int64 `json:"-"`
	LaterFeatureBytes int64 `json:"-"`

	// Figures that only the text of the plan shows: the rows of a decode step, the states and masks that MaskBytes have
	// room for, and what the keys and values of a token consist of.
	Slots             int    `json:"-"`
	MaskStates, Masks int    `json:"-"`
	TokenText         string `json:"-"`
}

// Drafter is the model of a plan that drafts tokens.
type Drafter struct {
	Model       string `json:"model"`
	Parameters  int64  `json:"parameters"`
	DType       string `json:"dtype"`
	Weights     string `json:"weights,omitempty"` // the form, as in [Plan]
	WeightBytes int64  `json:"weight_bytes"`
	// KVBytesPerToken is the size of a token in its layers, in the same pages as the model's.
	KVBytesPerToken int64 `json:"kv_bytes_per_token"`
}

// Brief is the plan in two lines: the model, and what it runs on.
func (p Plan) Brief() string {
	backend, _, _ := strings.Cut(p.Backend, ",")
	if p.Devices > 1 {
		backend += fmt.Sprintf(", %d devices together", p.Devices)
	}
	if p.Replicas > 1 {
		backend += fmt.Sprintf(", %d replicas", p.Replicas)
	}
	if p.Encodes {
		const lines = "%-12s %s, %s parameters in %s, %s\n%-12s %s; steps of %s, texts of up to %d"
		return fmt.Sprintf(lines, "model", p.Model, count(p.Parameters), typeText(p.Weights, p.DType),
			bytesText(p.WeightBytes), "encoder", backend, plural.Count(p.PrefillTokens, "token"), p.MaxModelLen)
	}
	const lines = "%-12s %s, %s parameters in %s, %s\n%-12s %s; %s of up to %d tokens; KV cache %s"
	return fmt.Sprintf(lines, "model", p.Model, count(p.Parameters), typeText(p.Weights, p.DType),
		bytesText(p.WeightBytes), "engine", backend, plural.Count(p.MaxSeqs, "slot"), p.MaxModelLen,
		bytesText(p.KVBytes))
}

// typeText is the type of weights and activations.
func typeText(weights, dtype string) string {
	if weights != "" {
		return fmt.Sprintf("%s, activations in %s", weights, dtype)
	}
	return dtype
}

// String shows the plan as a table.
func (p Plan) String() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s "+format+"\n", append([]any{name}, args...)...)
	}
	row("backend", "%s", p.Backend)
	if p.Devices > 1 {
		virtual := ""
		if backend.IsHost(p.Backend) {
			virtual = " virtual ones of the CPU"
		}
		row("devices", "%d%s run the model together; sizes are those of one", p.Devices, virtual)
	}
	if p.ExpertGroups > 1 {
		row("experts", "shared out to %d groups of devices", p.ExpertGroups)
	}
	if p.Replicas > 1 {
		row("replicas", "%d with a queue in common; sizes are those of one", p.Replicas)
	}
	row("model", "%s, %s parameters in %s, %s", p.Model, count(p.Parameters), typeText(p.Weights, p.DType),
		bytesText(p.WeightBytes))
	if p.Drafter != nil {
		row("draft model", "%s", p.Drafter)
	}
	if p.Adapters > 0 {
		row("adapters", "%d, room for %d, %s", p.Adapters, p.AdapterSlots, bytesText(p.AdapterBytes))
	}
	if p.Quantization != "" {
		row("stored as", "%s", p.Quantization)
	}
	if p.Encodes {
		row("texts", "up to %d tokens each", p.MaxModelLen)
		row("steps", "%d tokens of up to %s", p.PrefillTokens, plural.Count(p.MaxSeqs, "text"))
		row("programs", "%s", strings.Join(p.Programs, ", "))
		return b.String()
	}
	row("KV cache", "%s, %s a token (%s), %s in all", p.KV, bytesText(p.KVBytesPerToken), p.TokenText,
		bytesText(p.KVBytes))
	if p.StateBytes > 0 {
		row("states", "%s a page, of the layers that keep a state of a sequence; in the %s above",
			bytesText(p.StateBytes), bytesText(p.KVBytes))
	}
	if p.KV == paged {
		row("pages", "%d of %s: %d tokens of context; up to %s a sequence", p.Pages, plural.Count(p.PageSize, "token"),
			p.Pages*p.PageSize, plural.Count(p.PagesPerSeq, "page"))
	}
	for _, text := range p.Lowered {
		row("lowered", "%s", text)
	}
	row("sequences", "%s, up to %d tokens each; %s", plural.Count(p.MaxSeqs, "slot"), p.MaxModelLen,
		fmt.Sprintf("%d waiting %s", p.Holders, plural.Noun(p.Holders, "prompt")))
	if p.Contexts > 0 {
		row("contexts", "up to %d", p.Contexts)
	}
	row("steps", "prefill %d tokens, decode %d rows, up to %s a call", p.PrefillTokens, p.Slots,
		plural.Count(p.MaxRounds, "step"))
	if p.Drafts > 0 {
		row("speculation", "up to %s a sequence, %d tokens a step with drafts",
			plural.Count(p.Drafts, "drafted token"), p.DraftWidth)
	}
	row("programs", "%s", strings.Join(p.Programs, ", "))
	if len(p.Features) > 0 {
		row("features", "%s", strings.Join(p.Features, ", "))
	}
	if p.MaskBytes > 0 {
		row("masks", "%s, %s", p.MaskRoom(), bytesText(p.MaskBytes))
	}
	return b.String()
}

// String is a row of a plan.
func (d *Drafter) String() string {
	return fmt.Sprintf("%s, %s parameters in %s, %s; %s of the pages a token", d.Model, count(d.Parameters),
		typeText(d.Weights, d.DType), bytesText(d.WeightBytes), bytesText(d.KVBytesPerToken))
}

// MaskRoom describes what MaskBytes have room for.
func (p Plan) MaskRoom() string {
	return fmt.Sprintf("%d states of grammars and %d masks of tokens", p.MaskStates, p.Masks)
}

// AllWeightBytes is the size of the weights of the model, its adapters and the draft model.
func (p Plan) AllWeightBytes() int64 {
	if p.Drafter == nil {
		return p.WeightBytes + p.AdapterBytes
	}
	return p.WeightBytes + p.AdapterBytes + p.Drafter.WeightBytes
}

// PageBytes is the size of a page in all layers, including the draft model's layers.
func (p Plan) PageBytes() int64 {
	bytes := p.KVBytesPerToken*int64(p.PageSize) + p.StateBytes
	if p.Drafter != nil {
		bytes += p.Drafter.KVBytesPerToken * int64(p.PageSize)
	}
	return bytes
}

// loopOnGPU is what XLA:GPU does with a loop of layers: its products read no slices of larger arrays. See docs/gpu.md.
var loopOnGPU = setting.Textf("with `layers` loop, programs for GPUs copy the weights of each layer in each step; " +
	"take unrolled")

// Warnings names what is slow about the plan on a backend with the given traits.
func (p Plan) Warnings(traits backend.Traits) (warnings []setting.Text) {
	if traits.CopiesSlices && p.Layers == LayersLoop {
		warnings = append(warnings, loopOnGPU)
	}
	return warnings
}
