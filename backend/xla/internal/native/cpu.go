package native

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
	"github.com/gomlx/go-xla/pjrt"
	"github.com/gomlx/go-xla/stablehlo"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/internal/program"
)

// kernel is a custom call of XLA's typed FFI that replaces a composite, and has its operands and results.
type kernel struct {
	target string // one of cpukernel.Handlers
	// alias[r] is the number of the operand that result r updates in place. XLA copies the operand first if it is used
	// later.
	alias map[int]int
	attrs map[string]attribute
}

// attribute is the kind of an attribute. All attributes of a kernel must be given.
type attribute int

const (
	integer attribute = iota // i64
	float                    // f64
	boolean
	text
)

// cpuKernels has the composites with a kernel in C, on XLA:CPU.
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
	"linear":         {target: "quire_linear", attrs: linearAttrs},
	"linear_adapted": {target: "quire_linear_adapted", attrs: adaptedAttrs},
	"low_rank":       {target: "quire_low_rank", attrs: map[string]attribute{"in": integer, "rank": integer}},
	"linear_heads":   {target: "quire_linear_heads", attrs: map[string]attribute{"in": integer, "out": integer}},
	"experts": {
		target: "quire_experts",
		attrs: map[string]attribute{"in": integer, "inner": integer, "gate_up": boolean, "scales": boolean,
			"activation": integer, "bias": boolean, "residual": boolean, "up_blocks": integer,
			"down_blocks": integer},
	},
	"ragged_paged_attention": {target: "quire_ragged_paged_attention", attrs: attentionAttrs},
	latentAttention:          {target: "quire_latent_attention", attrs: attentionAttrs},
	"row_attention": {
		target: "quire_row_attention",
		attrs: map[string]attribute{"scale": float, "soft_cap": float, "window": integer, "ahead": integer,
			"zero": integer},
	},
	"pool_rows": {target: "quire_pool_rows", attrs: map[string]attribute{"largest": boolean}},
}

var linearAttrs = map[string]attribute{"in": integer, "out": integer, "gate_up": boolean, "scales": boolean,
	"activation": integer, "bias": boolean, "residual": boolean, "blocks": integer}

var adaptedAttrs = func() map[string]attribute {
	attrs := maps.Clone(linearAttrs)
	attrs["first"], attrs["cut1"], attrs["cut2"] = integer, integer, integer
	return attrs
}()

var attentionAttrs = map[string]attribute{"scale": float, "soft_cap": float, "window": integer, "paged": boolean,
	"by_head": boolean}

// registerCPU registers the kernels in C with the plugin, and returns their instruction set. It returns "" if the
// plugin can't call them.
func registerCPU(plugin *pjrt.Plugin) (level string, err error) {
	if !pjrtc.HasFFI(plugin) {
		return "", nil
	}
	if level, err = cpukernel.Features(); err != nil {
		return "", err
	}
	handlers := cpukernel.Handlers()
	for _, target := range slices.Sorted(maps.Keys(handlers)) {
		if err := pjrtc.RegisterHandler(plugin, "Host", target, handlers[target]); err != nil {
			return "", fmt.Errorf("xla: registering a kernel: %w: use --kernels off", err)
		}
	}
	return level, nil
}

// emit emits the custom call. It is a [program.Emitter].
func (k kernel) emit(f *program.Function, attrs json.RawMessage, inputs []*stablehlo.Value,
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
		if s := program.FromXLA(inputs[input].Shape()); !s.Equal(results[result]) {
			return nil, fmt.Errorf("result %d of shape %s is input %d in place, which is %s", result, results[result],
				input, s)
		}
	}
	out, err := f.FFICall(k.target, config, inputs, results)
	if err != nil {
		return nil, err
	}
	program.SetAliases(f.LastStatement(), k.alias, len(results))
	if k.readsAsItWrites(inputs) {
		return out, nil // XLA has to see both
	}
	f.JoinChain(k.target, config, k.alias)
	return out, nil
}

// readsAsItWrites reports whether an array that the call updates in place is also another input.
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
