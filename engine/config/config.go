// Package config holds what an engine is made from: the [Config] that a caller gives, the sizes that follow from it
// ([Settle]), and the [Plan] that reports them. Sizes are settled once and do not change afterwards.
package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/lockstep"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/tables"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/adapter"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/text/tokenizer"
)

// Config describes an engine. The engine chooses a value for each field that is zero.
type Config struct {
	Model *models.Checkpoint
	// Tokenizer turns tokens into text, and stop strings need it. If it is nil, completions have no text.
	Tokenizer *tokenizer.Tokenizer
	Backend   compute.Backend
	// Hosts are the processes whose devices run the model together. Backend is then a group over their devices, and
	// each process has an engine with the same config. The engine of process 0 generates completions, the others follow
	// it. It is nil if this process runs the model alone.
	Hosts *lockstep.Group

	// MaxSeqs is how many sequences decode at once. The default is 64 on CPUs. On accelerators it is up to 256, and
	// fewer if the memory holds fewer, or if the page table would be too large for attention's kernel.
	MaxSeqs int
	// PageSize is the number of tokens of a page: a power of two up to 32, or a multiple of 32. The default is 16; on
	// TPUs 64, or 128 if the page table is too large otherwise; and more for models that keep states.
	PageSize int
	// MaxModelLen bounds prompt and completion together. The default is the length that the model was trained for.
	MaxModelLen int
	// PrefillTokens is how many prompt tokens a step takes.
	PrefillTokens int
	// MaxRounds bounds the decode steps of a call.
	MaxRounds int
	// KVMemory is the memory for keys and values in bytes. The default is most of the free memory of an accelerator, or
	// half of a CPU's memory up to 4 GiB.
	KVMemory int64
	// KV is "paged" or "basic". The contiguous cache of basic is the reference that tests compare with.
	KV string
	// Admission is Overcommit (default) or Reserve. If the pool has room for every sequence at its longest, it is
	// Reserve.
	Admission Admission
	// HostKVMemory is the memory of the host, in bytes, for prefixes that had to leave the device and for snapshots; 0
	// for none.
	HostKVMemory int64
	// StopStates is the number of states that the device has room for, of automata that look for stop strings and
	// sequences of stop tokens: about one for each byte of the strings of running requests. The default is 2048 if
	// there is a Tokenizer. If it is negative, the host looks for stop strings after each call, as it does for strings
	// that need more than half of the room.
	StopStates int
	// MaskStates is the number of states of structured output that the device has room for, 1 KiB each; 32768 by
	// default. There is room for an eighth as many masks of the vocabulary, a bit for each token. The room is allocated
	// with the first request that needs it: see Features.
	MaskStates int
	// Contexts is how many contexts may be open at once: see engine/contexts. With 0 the engine has no programs for
	// them.
	Contexts int
	// NoPrefixCache turns off the prefix cache, which keeps pages for requests that begin with the same tokens.
	NoPrefixCache bool
	// DType is the type of weights and activations: Float32, BFloat16 or Float16, by default the checkpoint's own
	// ([models.Checkpoint.DType]). KVDType is the type of the cache: one of these, by default DType; or Int8 or
	// F8E4M3FN, which have a scale for each token and KV head.
	DType, KVDType dtypes.DType
	// Layers is LayersUnrolled (default) or LayersLoop: how the programs contain the model's layers, and so how weights
	// and caches are laid out.
	Layers string
	// ExpertGroups is the number of groups among which the devices that run the model together divide the experts of
	// each layer; a divisor of the number of devices. The devices of a group split each of its experts. The default is
	// 1, or on TPUs so many that a device's columns of an expert fill whole tiles of memory.
	ExpertGroups int
	// Weights is the form of matrices: "" for DType; WeightsAuto for blocks if the checkpoint has them, and DType
	// otherwise; "f32", "bf16" or "f16"; "q8_0" or "q4_0" for blocks of 32 numbers of 8 or 4 bits with a scale; "int8"
	// for 8-bit numbers with a scale for each row. Before products with anything but floats, kernels round activations
	// to 8 bits.
	Weights string
	// Features are those for which the engine compiles its programs at the start; none by default. When a request asks
	// for another one, the program that generates is compiled again, between two calls.
	Features feature.Set
	// Hidden are the hidden states that feature.Hidden reports.
	Hidden HiddenStates
	// Speculate is how many tokens of a sequence are drafted in a step at most: see docs/speculation.md. Completions
	// stay the same. 0 drafts none, SpeculateAuto as many as pay off, and none if the bytes of a token depend on the
	// step that computes it.
	Speculate int
	// DraftModel is a small model that drafts tokens, in place of the sequence's own text; nil for none. It must have
	// the model's tokens.
	DraftModel *models.Checkpoint
	// SwapWeights keeps memory for a second set of weights beside the model's: see engine.Engine.Swap.
	SwapWeights bool
	// Adapters are the low-rank adapters that requests may name. AdapterSlots is how many of them the device has room
	// for: by default all, or as many as take a quarter of the weights' memory, at least 16.
	Adapters     []Adapter
	AdapterSlots int
	// ZeroPages clears pages when they are freed, for tenants that must not share memory. Without it pages are cleared
	// logically.
	ZeroPages bool
	// Debug checks every rule of the device state after each step, and logs the free pages.
	Debug bool
	Log   *slog.Logger
	// Observe is called after each call of the device; nil for nobody. Replicas call it at the same time.
	Observe func(schedule.Call)
	// Inspect is called after each call of the device, and when a run or a follower fails; nil for nobody. It returns
	// the name of the file that it wrote the tables to, which the failure then mentions. Replicas call it at the same
	// time.
	Inspect func(Inspection) (file string)
	// Trace returns what records the times of a replica, by the replica's number from 0; nil for none.
	Trace func(replica int) schedule.Tracer
	// Replica is the number of this engine among several, from 0.
	Replica int
}

// Adapter is a low-rank adapter by the name that requests give it.
type Adapter struct {
	Name string
	*adapter.Adapter
}

// Inspection is a time at which the engine's tables can be looked at, for [Config.Inspect].
type Inspection struct {
	Replica int
	Calls   int64 // finished calls of this run
	// Fault is why the run ends; nil after a call.
	Fault error
	// Tables reads the tables. It may be called until Inspect returns.
	Tables func() *tables.Dump
}

// Admission is how pages are reserved for sequences.
type Admission string

const (
	// Reserve admits a sequence when there are pages for the longest that it may become. Nothing is ever swapped out.
	Reserve Admission = "reserve"
	// Overcommit admits a sequence when there are pages for its prompt. If pages run out, the sequences admitted last
	// are swapped out to the host's memory. They continue when others have ended, and generate the same tokens.
	Overcommit Admission = "overcommit"
)

// Values of Config.Layers.
const (
	// LayersUnrolled has each layer in the program, with a cache of its own.
	LayersUnrolled = "unrolled"
	// LayersLoop has a loop over layers, whose body is one layer, or several that repeat in this order. The weights
	// of all turns are one array each, [turns, ...], and so are the caches: page p of turn t is page t*P + p.
	LayersLoop = "loop"
)

// Values of Config.KV.
const (
	paged = "paged"
	basic = "basic"
)

// Weights are the values of [Config.Weights], apart from "".
var Weights = []string{WeightsAuto, "f32", "bf16", "f16", "q8_0", "q4_0", "int8"}

// WeightsAuto keeps matrices in the form that the checkpoint has.
const WeightsAuto = "auto"

// SpeculateAuto is a [Config.Speculate].
const SpeculateAuto = -1

// MaxDrafts is the largest Config.Speculate.
const MaxDrafts = 16

// dtypes returns the types of weights and activations, and of keys and values.
func (c Config) dtypes() (weights, kv dtypes.DType, err error) {
	weights, kv = c.DType, c.KVDType
	if weights == dtypes.InvalidDType {
		weights = c.Model.DType()
	}
	if kv == dtypes.InvalidDType {
		kv = weights
	}
	floats := []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Float16}
	if !slices.Contains(floats, weights) {
		return 0, 0, fmt.Errorf("dtype %s is not supported: choose float32, bfloat16 or float16", weights)
	}
	if !slices.Contains(floats, kv) && kv != dtypes.Int8 && kv != dtypes.F8E4M3FN {
		return 0, 0, fmt.Errorf("kv dtype %s is not supported: choose float32, bfloat16, float16, int8 or fp8", kv)
	}
	if !slices.Contains(Weights, c.Weights) && c.Weights != "" {
		return 0, 0, fmt.Errorf("weights %q are not supported: choose %s", c.Weights, strings.Join(Weights, ", "))
	}
	return weights, kv, nil
}

// blocks returns the function that names the format of a tensor of the model: see decoder.Storage.
func (c Config) blocks() func(tensor string) blocks.Format {
	switch c.Weights {
	case WeightsAuto:
		return c.Model.Blocks
	case "q8_0":
		return func(string) blocks.Format { return blocks.Q8_0 }
	case "q4_0":
		return func(string) blocks.Format { return blocks.Q4_0 }
	}
	return nil
}

// arrays are the arrays of the model's weights, in the form that the engine holds them in.
func (c Config) arrays() []decoder.Array { return decoder.Arrays(c.model(), c.storage()) }

// adapterArrays are the arrays of adapters, with room for so many.
func (c Config) adapterArrays(slots int) []decoder.AdapterArray {
	if slots == 0 {
		return nil
	}
	rank := 0
	for _, a := range c.Adapters {
		rank = max(rank, a.Rank)
	}
	adapts := func(tensor string) bool {
		for _, a := range c.Adapters {
			if a.Adapts(tensor) {
				return true
			}
		}
		return false
	}
	return decoder.AdapterArrays(c.model(), c.storage(), slots, rank, adapts)
}

// storage is how the engine holds weights.
func (c Config) storage() decoder.Storage {
	weights, _, _ := c.dtypes() // Settle has checked them
	matrices := map[string]dtypes.DType{"f32": dtypes.Float32, "bf16": dtypes.BFloat16, "f16": dtypes.Float16}
	return decoder.Storage{Backend: c.Backend, DType: weights, Int8: c.Weights == "int8",
		Blocks: c.blocks(), Matrices: matrices[c.Weights], LayerLoop: c.Layers == LayersLoop}
}

// model is the model's config, with the groups that devices divide its experts among.
func (c Config) model() models.Config {
	model := c.Model.Config
	model.ExpertGroups = cmp.Or(c.ExpertGroups, c.defaultExpertGroups())
	return model
}

// defaultExpertGroups is the fewest groups with which a device's columns of an expert fill whole tiles of memory. With
// others a TPU's programs copy all experts in each step, because prompts and generated tokens want them in two orders.
// It is 1 if the platform has no tiles, or no number of groups is right.
func (c Config) defaultExpertGroups() int {
	devices, lanes := collective.Devices(c.Backend), backend.Of(c.Backend).Lanes
	fills := func(groups int) bool {
		for _, l := range c.Model.Config.Layers {
			if e := l.Experts; e.Count > 0 && (e.Count < groups || e.Size*groups%(lanes*devices) != 0) {
				return false
			}
		}
		return true
	}
	for groups := 1; lanes > 0 && groups <= devices; groups++ {
		if devices%groups == 0 && fills(groups) {
			return groups
		}
	}
	return 1
}

// drafter is the config of the draft model, as if it ran alone. It has the model's types, which are those that a job
// keeps.
func (c Config) drafter() Config {
	c.DType, c.KVDType, _ = c.dtypes() // Settle has checked them
	c.Model, c.DraftModel = c.DraftModel, nil
	return c
}

// sameForms reports whether a generated token may run in a step of prompts, and its page may serve a prompt, because it
// gets the same bytes there. This holds with the kernels for CPUs, which compute each row by itself. Without kernels,
// prompts and generated tokens have different forms.
func (c Config) sameForms() bool {
	return backend.Of(c.Backend).SameForms
}
