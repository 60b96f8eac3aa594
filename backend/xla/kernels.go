package xla

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	xlashapes "github.com/gomlx/go-xla/types/shapes"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// kernel is a composite that a custom call of XLA's typed FFI stands for: its operands and results are the composite's.
type kernel struct {
	target string // one of cpukernel.Handlers
	// alias has for a result that is an operand updated in place the operand's number. Where the operand lives on, XLA
	// copies it first.
	alias map[int]int
	attrs map[string]attribute
}

// attribute is the kind of an attribute: all of a kernel's must be given.
type attribute int

const (
	integer attribute = iota // i64
	float                    // f64
	boolean
	text
)

// cpuKernels are the composites with a kernel in C, on XLA:CPU.
var cpuKernels = map[string]kernel{
	"kv_update": {
		target: "quire_kv_update", alias: map[int]int{0: 0}, attrs: map[string]attribute{"by_head": boolean},
	},
	"copy_pages": {target: "quire_copy_pages", alias: map[int]int{0: 0}},
	"zero_pages": {target: "quire_zero_pages", alias: map[int]int{0: 0}},
	"zeros":      {target: "quire_zeros", attrs: map[string]attribute{"results": integer}},
	"rms_norm":   {target: "quire_rms_norm", attrs: map[string]attribute{"eps": float}},
	"layer_norm": {target: "quire_layer_norm", attrs: map[string]attribute{"eps": float}},
	"rope": {
		target: "quire_rope",
		attrs: map[string]attribute{"heads": integer, "kv_heads": integer, "rotate": boolean, "norm": boolean,
			"eps": float},
	},
	"sample":                 {target: "quire_sample"},
	"sample_masked":          {target: "quire_sample_masked"},
	"sample_filtered":        {target: "quire_sample_filtered"},
	"sample_filtered_masked": {target: "quire_sample_filtered_masked"},
	"logprobs":               {target: "quire_logprobs"},
	"entropy":                {target: "quire_entropy"},
	"step_clock":             {target: "quire_step_clock", alias: map[int]int{0: 0}},
	"draft_text": {
		target: "quire_draft_text", attrs: map[string]attribute{"longest": integer, "shortest": integer},
	},
	"draft_log":   {target: "quire_draft_log"},
	"prefix_sums": {target: "quire_prefix_sums"},
	"positions":   {target: "quire_positions"},
	"count_rows":  {target: "quire_count_rows"},
	"owners":      {target: "quire_owners"},
	"short_conv":  {target: "quire_short_conv", alias: map[int]int{1: 2}},
	"gated_delta": {
		target: "quire_gated_delta", alias: map[int]int{1: 5},
		attrs: map[string]attribute{"key_heads": integer, "value_heads": integer, "key_dim": integer,
			"value_dim": integer, "eps": float},
	},
	"gate": {target: "quire_gate"},
	"mamba2": {
		target: "quire_mamba2", alias: map[int]int{1: 6},
		attrs: map[string]attribute{"heads": integer, "head_dim": integer, "groups": integer, "state_dim": integer,
			"min_step": float, "max_step": float},
	},
	"gated_norm": {target: "quire_gated_norm", attrs: map[string]attribute{"groups": integer, "eps": float}},
	"linear_rows": {
		target: "quire_linear_rows",
		attrs: map[string]attribute{"in": integer, "out": integer, "gate_up": boolean, "scales": boolean,
			"blocks": integer},
	},
	"linear": {
		target: "quire_linear",
		attrs: map[string]attribute{"in": integer, "out": integer, "gate_up": boolean, "scales": boolean,
			"activation": integer, "bias": boolean, "residual": boolean, "blocks": integer},
	},
	"linear_heads": {target: "quire_linear_heads", attrs: map[string]attribute{"in": integer, "out": integer}},
	"experts": {
		target: "quire_experts",
		attrs: map[string]attribute{"in": integer, "inner": integer, "gate_up": boolean, "scales": boolean,
			"activation": integer, "bias": boolean, "residual": boolean, "up_blocks": integer,
			"down_blocks": integer},
	},
	"ragged_paged_attention": {target: "quire_ragged_paged_attention", attrs: attentionAttrs},
	latentAttention:          {target: "quire_latent_attention", attrs: attentionAttrs},
}

var attentionAttrs = map[string]attribute{"scale": float, "soft_cap": float, "window": integer, "paged": boolean,
	"by_head": boolean}

// Values of [Options.Kernels].
const (
	KernelsAuto = "auto"
	KernelsOff  = "off"
)

// addKernels makes the kernels the native form of their composites where the plugin can call them.
func (b *Backend) addKernels(mode string) error {
	switch mode {
	case KernelsOff:
		return nil
	case "", KernelsAuto:
	default:
		return fmt.Errorf("xla: Options.Kernels is %q, but must be %s or %s", mode, KernelsAuto, KernelsOff)
	}
	if b.platform != "cpu" || !pjrtc.HasFFI(b.plugin) {
		return nil
	}
	level, err := cpukernel.Features()
	if err != nil {
		return err
	}
	handlers := cpukernel.Handlers()
	for _, target := range slices.Sorted(maps.Keys(handlers)) {
		if err := pjrtc.RegisterHandler(b.plugin, "Host", target, handlers[target]); err != nil {
			return fmt.Errorf("xla: registering a kernel: %w: use --kernels off", err)
		}
	}
	for op, k := range cpuKernels {
		b.composites[op] = k.emit
	}
	b.kernels = level
	return nil
}

// SameForms says that the model gives a token the same bytes as a prompt's and as a drawn one: the kernels do, whatever
// the number of rows. Without them a backend may order sums by the shapes.
func (b *Backend) SameForms() bool { return b.kernels != "" }

// CachesByHead says that kernels read caches by head in less time: see package attention.
func (b *Backend) CachesByHead() bool { return b.kernels != "" }

// Kernels returns the instruction set that the kernels in C run with, one of [cpukernel.Levels], or "off" where there
// are none.
func (b *Backend) Kernels() string {
	if b.kernels == "" {
		return KernelsOff
	}
	return b.kernels
}

// emit emits the custom call. It is an [emitter].
func (k kernel) emit(f *function, attrs json.RawMessage, inputs []*stablehlo.Value,
	results []shapes.Shape) ([]*stablehlo.Value, error) {
	config, err := k.config(attrs)
	if err != nil {
		return nil, err
	}
	if len(inputs) == 0 || len(results) == 0 {
		return nil, errors.New("a kernel takes at least one input and has at least one result")
	}
	for result, input := range k.alias {
		if result >= len(results) || input >= len(inputs) {
			return nil, fmt.Errorf("it has %d inputs and %d results, but result %d is input %d in place", len(inputs),
				len(results), result, input)
		}
		if s := fromXLA(inputs[input].Shape()); !s.Equal(results[result]) {
			return nil, fmt.Errorf("result %d of shape %s is input %d in place, which is %s", result, results[result],
				input, s)
		}
	}
	out, err := f.ffiCall(k.target, config, inputs, results)
	if err != nil {
		return nil, err
	}
	setAliases(f.lastStatement(), k.alias, len(results))
	if k.readsAsItWrites(inputs) {
		return out, nil // XLA has to see both
	}
	f.calls[f.lastStatement()] = &call{k.target, config, k.alias}
	return out, nil
}

// readsAsItWrites says whether an array that the call updates in place is another of its inputs too.
func (k kernel) readsAsItWrites(inputs []*stablehlo.Value) bool {
	for _, in := range k.alias {
		for i, v := range inputs {
			if i != in && v.String() == inputs[in].String() {
				return true
			}
		}
	}
	return false
}

// setAliases notes of a call's results which are operands updated in place.
func setAliases(s *stablehlo.Statement, alias map[int]int, results int) {
	var aliases []string
	for _, result := range slices.Sorted(maps.Keys(alias)) {
		place := "[]"
		if results > 1 {
			place = fmt.Sprintf("[%d]", result)
		}
		aliases = append(aliases,
			fmt.Sprintf(
				"#stablehlo.output_operand_alias<output_tuple_indices = %s, operand_index = %d, "+
					"operand_tuple_indices = []>", place, alias[result]))
	}
	if len(aliases) > 0 {
		s.Attributes["output_operand_aliases"] = mlir("[" + strings.Join(aliases, ", ") + "]")
	}
}

// ffiCall emits a custom call of the typed FFI; config is a dictionary of its attributes.
func (f *function) ffiCall(target, config string, inputs []*stablehlo.Value,
	results []shapes.Shape) ([]*stablehlo.Value, error) {
	outputs := make([]xlashapes.Shape, len(results))
	for i, s := range results {
		outputs[i] = toXLA(s)
	}
	row := func(n int) [][]int { return make([][]int, n) } // row-major
	out, err := stablehlo.CustomCallV2(target, "", inputs, row(len(inputs)), outputs, row(len(results)))
	if err != nil {
		return nil, err
	}
	// The builder writes version 2; version 4 is the typed FFI, whose configuration is a dictionary.
	statement := f.lastStatement()
	statement.Attributes["api_version"] = int32(4)
	statement.Attributes["backend_config"] = mlir(config)
	return out, nil
}

func (f *function) lastStatement() *stablehlo.Statement {
	return f.fn.Statements[len(f.fn.Statements)-1]
}

// config prints the attributes of a composite as the dictionary of the call.
func (k kernel) config(attrs json.RawMessage) (string, error) {
	given := map[string]json.RawMessage{}
	if err := json.Unmarshal(attrs, &given); err != nil {
		return "", fmt.Errorf("attributes %s: %w", attrs, err)
	}
	for name := range given {
		if _, ok := k.attrs[name]; !ok {
			return "", fmt.Errorf("attributes %s: the kernel has no attribute %q", attrs, name)
		}
	}
	var items []string
	for _, name := range slices.Sorted(maps.Keys(k.attrs)) {
		item, err := k.attrs[name].print(given[name])
		if err != nil {
			return "", fmt.Errorf("attribute %q is %s: %w", name, given[name], err)
		}
		items = append(items, name+" = "+item)
	}
	return "{" + strings.Join(items, ", ") + "}", nil
}

// print turns a JSON value into an MLIR attribute.
func (a attribute) print(value json.RawMessage) (string, error) {
	if value == nil {
		return "", errors.New("it is missing")
	}
	switch a {
	case integer:
		var n int64
		err := json.Unmarshal(value, &n)
		return fmt.Sprintf("%d : i64", n), err
	case float:
		var x float64
		err := json.Unmarshal(value, &x)
		return fmt.Sprintf("0x%016X : f64", math.Float64bits(x)), err
	case boolean:
		var is bool
		err := json.Unmarshal(value, &is)
		return strconv.FormatBool(is), err
	default:
		var s string
		if err := json.Unmarshal(value, &s); err != nil {
			return "", err
		}
		if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
			return "", errors.New("only printable ASCII without quotes and backslashes is possible")
		}
		return `"` + s + `"`, nil
	}
}

// mlir is an attribute already printed.
type mlir string

// ToStableHLO is the method through which go-xla's builder prints attributes.
func (m mlir) ToStableHLO() string { return string(m) }
