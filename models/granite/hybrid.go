package granite

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models/arch"
)

// hybrid is GraniteMoeHybridForCausalLM, which is Granite 4: Mamba-2 in most layers or in none, and one feed-forward
// or a mixture with a shared expert.
var hybrid = arch.Decoder{
	Class: "GraniteMoeHybridForCausalLM", ModelType: "granitemoehybrid",
	GGUF: arch.GGUF{Architecture: "granitehybrid", Interleaved: true, Experts: true,
		Keys: slices.Concat(scales, spaces)},
	Defaults: arch.Defaults{MaxPositions: 2048, Theta: 1e4, BOS: 1, EOS: []int32{2},
		Sizes: map[string]int{"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
			"num_hidden_layers": 32, "num_attention_heads": 32}},
	Names: mixtureNames.With(arch.Names{
		arch.GateUp:     {HF: "shared_mlp.input_linear"},
		arch.Down:       {HF: "shared_mlp.output_linear", GGUF: "ffn_down"},
		arch.MambaIn:    {HF: "mamba.in_proj", GGUF: "ssm_in"},
		arch.MambaOut:   {HF: "mamba.out_proj", GGUF: "ssm_out"},
		arch.ConvTaps:   {HF: "mamba.conv1d", GGUF: "ssm_conv1d"},
		arch.ConvBias:   {HF: "mamba.conv1d", GGUF: "ssm_conv1d"},
		arch.MambaDecay: {HF: "mamba.A_log", GGUF: "ssm_a"},
		arch.MambaStep:  {HF: "mamba.dt_bias", GGUF: "ssm_dt.bias"},
		arch.MambaSkip:  {HF: "mamba.D", GGUF: "ssm_d"},
		arch.MambaNorm:  {HF: "mamba.norm", GGUF: "ssm_norm"},
	}),
	JSON: readHybrid, Metadata: readHybridMetadata,
}

// The keys of GGUF files. Files without Mamba-2 have the keys of its sizes, too, and have architecture granite.
var (
	scales = []string{"attention.scale", "embedding_scale", "residual_scale", "logit_scale"}
	spaces = []string{"ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank", "ssm.group_count",
		"expert_shared_feed_forward_length"}
)

// readHybridMetadata reads a GGUF file, which has no bounds of time steps.
func readHybridMetadata(m *arch.Metadata, c *arch.Config) error {
	setLayers(c, m.Float("embedding_scale", 1), m.Float("attention.scale", c.Layers[0].Scale),
		m.Float("residual_scale", 1), m.Float("logit_scale", 1))
	inner, space := m.Int("ssm.inner_size", 0), arch.StateSpace{Heads: m.Int("ssm.time_step_rank", 0),
		Groups: m.Int("ssm.group_count", 0), StateDim: m.Int("ssm.state_size", 0)}
	if space.Heads < 1 || inner%space.Heads != 0 {
		return fmt.Errorf("ssm.inner_size is %d for %s", inner, plural.Count(space.Heads, "head"))
	}
	space.HeadDim = inner / space.Heads
	taps, turned := m.Int("ssm.conv_kernel", 0), m.Bool("rope.scaling.finetuned", true)
	for i := range c.Layers {
		has := func(name string) bool { return m.HasTensor(fmt.Sprintf("blk.%d.%s", i, name)) }
		l := &c.Layers[i]
		l.QKVBias, l.OBias = has("attn_q.bias"), has("attn_output.bias")
		if has("ssm_in.weight") {
			space.TapsBias, space.Bias = has("ssm_conv1d.bias"), has("ssm_in.bias")
			l.Mixer, l.Mamba, l.Taps = arch.Mamba, space, taps
		}
		if !turned || l.Mixer == arch.Mamba {
			l.Rope = arch.NoRope
		}
	}
	if m.Int("expert_count", 0) == 0 {
		return nil
	}
	return m.Experts(c, true)
}

func readHybrid(j *arch.JSON, c *arch.Config) error {
	shared := j.Int("shared_intermediate_size", 1024)
	experts := arch.Experts{Count: j.Int("num_local_experts", 8), Chosen: j.Int("num_experts_per_tok", 2),
		Size: c.IntermediateSize, Renormalize: true, Shared: shared, Fused: arch.FusedHalves}
	if experts.Count == 0 {
		c.IntermediateSize, experts = shared, arch.Experts{}
	}
	setLayers(c, j.Float("embedding_multiplier", 1), j.Float("attention_multiplier", 1),
		j.Float("residual_multiplier", 1), j.Float("logits_scaling", 1))
	attends, err := attending(j, c)
	if err != nil {
		return err
	}
	if !slices.Contains(attends, true) {
		return arch.Unsupported("", "a %s in which no layer attends", c.Architecture)
	}
	space, err := stateSpace(j, c)
	if err != nil {
		return err
	}
	taps, bias := j.Int("mamba_d_conv", 4), j.Bool("attention_bias", false)
	turned := j.String("position_embedding_type", "") == "rope"
	for i := range c.Layers {
		l := &c.Layers[i]
		l.QKVBias, l.OBias, l.Experts = bias, bias, experts
		if !attends[i] {
			l.Mixer, l.Mamba, l.Taps = arch.Mamba, space, taps
		}
		if !attends[i] || !turned {
			l.Rope = arch.NoRope
		}
	}
	return j.Require("hidden_act", "silu")
}

// attending returns which layers attend. Both the key and the types have an older and a newer name; without either
// key, no layer attends.
func attending(j *arch.JSON, c *arch.Config) ([]bool, error) {
	key := "layer_types"
	if !j.Has(key) {
		key = "layers_block_type"
	}
	var types []string
	list := make([]bool, c.NumLayers)
	if j.Decode(key, &types); types == nil {
		return list, nil
	}
	if len(types) != c.NumLayers {
		return nil, fmt.Errorf("%s has %s for %s", key, plural.Count(len(types), "entry"),
			plural.Count(c.NumLayers, "layer"))
	}
	for i, t := range types {
		switch t {
		case "attention", "full_attention":
			list[i] = true
		case "mamba", "linear_attention":
		default:
			return nil, arch.Unsupported("attention and mamba are", "layer type %q", t)
		}
	}
	return list, nil
}

func stateSpace(j *arch.JSON, c *arch.Config) (s arch.StateSpace, err error) {
	inner := j.Int("mamba_expand", 2) * c.HiddenSize
	s = arch.StateSpace{Heads: j.Int("mamba_n_heads", 128), Groups: j.Int("mamba_n_groups", 1),
		StateDim: j.Int("mamba_d_state", 256), TapsBias: j.Bool("mamba_conv_bias", true),
		Bias: j.Bool("mamba_proj_bias", false)}
	if s.Heads < 1 || inner%s.Heads != 0 {
		return s, fmt.Errorf("mamba_n_heads is %d; it must divide mamba_expand * hidden_size, which is %d", s.Heads,
			inner)
	}
	s.HeadDim = inner / s.Heads
	var dim json.RawMessage
	if j.Decode("mamba_d_head", &dim); dim != nil && string(dim) != `"auto"` {
		if n := j.Int("mamba_d_head", s.HeadDim); n != s.HeadDim {
			return s, fmt.Errorf("mamba_d_head is %d; %d heads of mamba_expand * hidden_size, which is %d, have %d", n,
				s.Heads, inner, s.HeadDim)
		}
	}
	s.MinStep, s.MaxStep, err = timeSteps(j)
	return s, err
}

// timeSteps reads the bounds of time steps; 0 means that there is none.
func timeSteps(j *arch.JSON) (least, most float64, err error) {
	var limits []json.RawMessage
	if j.Decode("time_step_limit", &limits); limits == nil {
		return 0, 0, nil
	}
	bound := func(text json.RawMessage) float64 {
		var special struct {
			Float string `json:"__float__"` // this is how transformers writes infinity
		}
		if json.Unmarshal(text, &special) == nil && special.Float == "Infinity" {
			return math.Inf(1)
		}
		var x float64
		err = errors.Join(err, json.Unmarshal(text, &x))
		return x
	}
	if len(limits) == 2 {
		least, most = bound(limits[0]), bound(limits[1])
	}
	if len(limits) != 2 || err != nil || !(least >= 0 && least <= most) || most == 0 || math.IsInf(least, 1) {
		return 0, 0, fmt.Errorf("time_step_limit is %s; it must be two numbers, the first at least 0, the second at "+
			"least the first and above 0", limits)
	}
	if math.IsInf(most, 1) {
		most = 0
	}
	return least, most, nil
}
