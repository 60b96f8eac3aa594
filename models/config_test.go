package models

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/models/arch"
)

// configGolden is an entry of testdata/configs.json, made by scripts/oracle/config_goldens.py from transformers.
type configGolden struct {
	Name   string
	Config json.RawMessage
	Want   struct {
		KVHeads         int       `json:"num_key_value_heads"`
		HeadDim         int       `json:"head_dim"`
		MaxPositions    int       `json:"max_position_embeddings"`
		Eps             float64   `json:"rms_norm_eps"`
		Windows         []int     `json:"windows"`
		NoRope          []bool    `json:"no_rope"`
		Scales          []float64 `json:"scales"`
		ScoreCaps       []float64 `json:"score_caps"`
		LogitCap        float64   `json:"logit_cap"`
		Tied            bool      `json:"tied"`
		BOS             int       `json:"bos"`
		EOS             []int32   `json:"eos"`
		InvFreq         []float32 `json:"inv_freq"`
		LocalInvFreq    []float32 `json:"local_inv_freq"`
		LongInvFreq     []float32 `json:"long_inv_freq"`
		Multipliers     []float64 // of embeddings, of what layers add, divisor of logits
		AttentionFactor float64   `json:"attention_factor"`
		Tensors         map[string][]int
		Layers          []struct { // if they differ
			HeadDim int `json:"head_dim"`
			KVHeads int `json:"kv_heads"`
			KVFrom  int `json:"kv_from"`
			Width   int
		}
		Experts *struct { // of DeepSeek's, and which layers have them
			Count, Chosen, Size, Shared, Groups int
			ChosenGroups                        int `json:"chosen_groups"`
			Scale                               float64
			Renormalize, Sigmoid, Choice        bool
			Layers                              []bool
		}
	}
}

func configGoldens(t testing.TB) []configGolden {
	data, err := os.ReadFile("testdata/configs.json")
	if err != nil {
		t.Fatal(err)
	}
	var goldens []configGolden
	if err := json.Unmarshal(data, &goldens); err != nil {
		t.Fatal(err)
	}
	return goldens
}

// windowsOf returns the windows of the layers, and which have no rotary embedding.
func windowsOf(c Config) (windows []int, noRope []bool) {
	for _, l := range c.Layers {
		windows, noRope = append(windows, l.Window), append(noRope, l.Rope == arch.NoRope)
	}
	return windows, noRope
}

func TestConfigsLikeTransformers(t *testing.T) {
	for _, g := range configGoldens(t) {
		t.Run(g.Name, func(t *testing.T) {
			c, err := ParseConfig(g.Config, nil)
			if err != nil {
				t.Fatal(err)
			}
			w := g.Want
			for i, l := range w.Layers {
				if got := c.OfLayer(i); got.HeadDim != l.HeadDim || got.NumKVHeads != l.KVHeads ||
					got.IntermediateSize != l.Width || c.Layers[i].KVFrom != l.KVFrom {
					t.Errorf("layer %d is %+v, want %+v", i, c.Layers[i], l)
				}
			}
			if c.NumKVHeads != w.KVHeads || c.OfLayer(0).HeadDim != w.HeadDim || c.MaxPositions != w.MaxPositions ||
				c.RMSNormEps != w.Eps ||
				c.TieEmbeddings != w.Tied || c.BOS != w.BOS || !slices.Equal(c.EOS, w.EOS) {
				t.Errorf("config is %+v, want %+v", c, w)
			}
			windows, noRope := windowsOf(c)
			if !slices.Equal(windows, w.Windows) {
				t.Errorf("windows are %v, want %v", windows, w.Windows)
			}
			if !slices.Equal(noRope, w.NoRope) {
				t.Errorf("layers without rope are %v, want %v", noRope, w.NoRope)
			}
			for i, l := range c.Layers {
				if math.Abs(l.Scale-w.Scales[i]) > 1e-15 || l.ScoreCap != w.ScoreCaps[i] {
					t.Errorf("layer %d is %+v, want a scale of %g and a cap of %g", i, l, w.Scales[i], w.ScoreCaps[i])
				}
			}
			for i, l := range c.Layers {
				if w.Experts == nil {
					break
				}
				want := arch.Experts{Sigmoid: w.Experts.Sigmoid, Choice: w.Experts.Choice, SumEps: l.Experts.SumEps,
					Count: w.Experts.Count, Chosen: w.Experts.Chosen, Size: w.Experts.Size, Shared: w.Experts.Shared,
					Groups: w.Experts.Groups, ChosenGroups: w.Experts.ChosenGroups, Scale: w.Experts.Scale,
					Renormalize: w.Experts.Renormalize}
				if !w.Experts.Layers[i] {
					want = arch.Experts{}
				}
				if l.Experts != want {
					t.Errorf("layer %d has experts %+v, want %+v", i, l.Experts, want)
				}
			}
			if c.LogitCap != w.LogitCap {
				t.Errorf("the cap of logits is %g, want %g", c.LogitCap, w.LogitCap)
			}
			if m := []float64{c.EmbeddingScale, c.ResidualScale, c.LogitDivisor}; w.Multipliers != nil &&
				!slices.Equal(m, w.Multipliers) {
				t.Errorf("multipliers are %g, want %g", m, w.Multipliers)
			}
			tensors := map[string][]int{}
			for spec := range c.Tensors() {
				if strings.Contains(spec.Name, ".layers.") && !strings.Contains(spec.Name, ".layers.0.") {
					continue
				}
				if spec.Fused != nil {
					tensors[spec.Fused.Name] = spec.FusedShape()
				} else if within := spec.Within; within != nil {
					tensors[within.Name] = append([]int{within.Rows}, spec.Shape[1:]...)
				} else {
					tensors[spec.Name] = spec.Shape
				}
			}
			for name, shape := range w.Tensors {
				if !slices.Equal(tensors[name], shape) {
					t.Errorf("%s has shape %v, want %v", name, tensors[name], shape)
				}
			}
			if len(tensors) != len(w.Tensors) {
				t.Errorf("tensors are %v, want %v", tensors, w.Tensors)
			}
			if w.LongInvFreq != nil {
				inv, _ := c.RopeFrequencies(arch.FullRope)
				sameFrequencies(t, inv, w.LongInvFreq)
				c.Context = c.Ropes[arch.FullRope].Scaling.OriginalMaxPositions
			}
			inv, factor := c.RopeFrequencies(arch.FullRope)
			if math.Abs(factor-w.AttentionFactor) > 1e-6 {
				t.Errorf("attention factor is %v, want %v", factor, w.AttentionFactor)
			}
			sameFrequencies(t, inv, w.InvFreq)
			if w.LocalInvFreq != nil {
				inv, _ = c.RopeFrequencies(arch.LocalRope)
				sameFrequencies(t, inv, w.LocalInvFreq)
				for i, l := range c.Layers {
					if (l.Window > 0) != (l.Rope == arch.LocalRope) {
						t.Errorf("layer %d is %+v", i, l)
					}
				}
			}
		})
	}
}

func sameFrequencies(t *testing.T, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d frequencies, want %d", len(got), len(want))
	}
	for i := range got {
		// Three last bits: torch's power function and division may round otherwise than ours.
		if math.Abs(float64(got[i]-want[i])) > 2e-7*float64(want[i]) {
			t.Errorf("frequency %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// base is a config.json that is fine; tests spoil one key of it.
func base(change map[string]any) []byte {
	c := map[string]any{"architectures": []string{"LlamaForCausalLM"}, "vocab_size": 64, "hidden_size": 32,
		"intermediate_size": 48,
		"num_hidden_layers": 2, "num_attention_heads": 4}
	for k, v := range change {
		if v == "absent" {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return data
}

func TestConfigRefusals(t *testing.T) {
	type m = map[string]any
	mistral, qwen2, smollm3 := []string{"MistralForCausalLM"}, []string{"Qwen2ForCausalLM"},
		[]string{"SmolLM3ForCausalLM"}
	gemma2 := []string{"Gemma2ForCausalLM"}
	for name, c := range map[string]struct {
		change      m
		want        string
		unsupported bool
	}{
		"other class": {m{"architectures": []string{"GPT2LMHeadModel"}}, `"GPT2LMHeadModel"`, true},
		"classifier": {m{"architectures": []string{"LlamaForQuestionAnswering"}},
			`"LlamaForQuestionAnswering"`, true},
		"no class":       {m{"architectures": "absent"}, "model_type", true},
		"activation":     {m{"hidden_act": "gelu"}, `hidden_act "gelu"`, true},
		"quantized":      {m{"quantization_config": m{"quant_method": "quip"}}, `"quip"`, true},
		"partial rotary": {m{"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5", true},
		"partial rotary, new": {m{"rope_parameters": m{"partial_rotary_factor": 0.5}}, "partial_rotary_factor 0.5",
			true},
		"dynamic rope": {m{"rope_scaling": m{"type": "dynamic", "factor": 2}}, `rope type "dynamic"`, true},
		"longrope":     {m{"rope_scaling": m{"rope_type": "longrope", "factor": 2}}, "longrope has 0 divisors", false},
		"mrope":        {m{"rope_scaling": m{"rope_type": "mrope"}}, `rope type "mrope"`, true},
		"rope by layer type": {m{"rope_parameters": m{"full_attention": m{"rope_type": "default"}}},
			"full_attention", true},
		"linear without factor": {m{"rope_scaling": m{"type": "linear"}}, "factor is missing", false},
		"factor below 1":        {m{"rope_scaling": m{"type": "linear", "factor": 0.5}}, "factor is 0.5", false},
		"llama3 without factors": {m{"rope_scaling": m{"rope_type": "llama3", "factor": 8}},
			"low_freq_factor is missing", false},
		"llama3 reversed": {
			m{"rope_scaling": m{"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1}},
			"ascending", false},
		"mistral with biases": {m{"architectures": mistral, "attention_bias": true}, "attention_bias", true},
		"mistral mlp_bias":    {m{"architectures": mistral, "mlp_bias": true}, "mlp_bias", true},
		"mistral mixed layers": {
			m{"architectures": mistral, "layer_types": []string{"full_attention", "sliding_attention"}}, "layer type",
			true},
		"llama sliding layers": {m{"layer_types": []string{"full_attention", "sliding_attention"}}, "layer type",
			true},
		"unknown layer type": {
			m{"architectures": qwen2, "layer_types": []string{"full_attention", "linear_attention"}},
			`layer type "linear_attention"`, true},
		"layer types short": {m{"architectures": qwen2, "layer_types": []string{"full_attention"}},
			"1 entry for 2 layers", false},
		"sliding without window": {
			m{"architectures": qwen2, "layer_types": []string{"full_attention", "sliding_attention"}},
			"layer 1 is of type sliding_attention", false},
		"gemma2 activation": {m{"architectures": gemma2, "hidden_activation": "gelu"}, `hidden_activation "gelu"`,
			true},
		"gemma2 bias":         {m{"architectures": gemma2, "attention_bias": true}, "attention_bias", true},
		"gemma2 both ways":    {m{"architectures": gemma2, "use_bidirectional_attention": true}, "bidirectional", true},
		"gemma2 window null":  {m{"architectures": gemma2, "sliding_window": nil}, "sliding_window null", true},
		"gemma2 scalar 0":     {m{"architectures": gemma2, "query_pre_attn_scalar": 0}, "scale of layer 0", false},
		"gemma2 negative cap": {m{"architectures": gemma2, "attn_logit_softcapping": -1}, "cap of layer 0", false},
		"olmo2 activation": {m{"architectures": []string{"Olmo2ForCausalLM"}, "hidden_act": "relu"},
			`hidden_act "relu"`, true},
		"window 0": {m{"architectures": mistral, "sliding_window": 0}, "sliding_window is 0", false},
		"no_rope_layers short": {m{"architectures": smollm3, "no_rope_layers": []int{1}}, "1 entry for 2 layers",
			false},
		"interval 0": {m{"architectures": smollm3, "no_rope_layer_interval": 0}, "no_rope_layer_interval",
			false},
		"no vocab":               {m{"vocab_size": "absent"}, "vocab_size is missing", false},
		"vocab is text":          {m{"vocab_size": "64"}, "vocab_size", false},
		"vocab is a fraction":    {m{"vocab_size": 64.5}, "64.5, not an integer", false},
		"vocab huge":             {m{"vocab_size": 1e15}, "vocab_size is", false},
		"negative layers":        {m{"num_hidden_layers": -1}, "num_hidden_layers is -1", false},
		"layers huge":            {m{"num_hidden_layers": 1 << 40}, "num_hidden_layers", false},
		"no heads":               {m{"num_attention_heads": 0}, "num_attention_heads is 0", false},
		"heads do not divide":    {m{"num_attention_heads": 5}, "not a multiple of num_attention_heads 5", false},
		"kv heads do not divide": {m{"num_key_value_heads": 3}, "not a multiple of num_key_value_heads 3", false},
		"odd head_dim":           {m{"head_dim": 7}, "head_dim is 7", false},
		"eps 0":                  {m{"rms_norm_eps": 0}, "rms_norm_eps", false},
		"theta 0":                {m{"rope_theta": 0}, "rope_theta", false},
		"eos outside":            {m{"eos_token_id": 64}, "eos_token_id 64", false},
		"eos is text":            {m{"eos_token_id": "x"}, "eos_token_id", false},
		"bos outside":            {m{"bos_token_id": 1 << 40}, "bos_token_id", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseConfig(base(c.change), nil)
			if err == nil {
				t.Fatal("the config was accepted")
			}
			var u *UnsupportedError
			if errors.As(err, &u) != c.unsupported || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error should say %q (unsupported feature: %v): %v", c.want, c.unsupported, err)
			}
		})
	}
	if _, err := ParseConfig(base(nil), nil); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "[]", "{", "null", `{"architectures":[]}`} {
		if _, err := ParseConfig([]byte(text), nil); err == nil {
			t.Errorf("config %q was accepted", text)
		}
	}
}

// What is refused of Gemma 4, by name.
func TestGemma4Refusals(t *testing.T) {
	type m = map[string]any
	for name, c := range map[string]struct {
		change m
		want   string
	}{
		"no experts":         {m{"enable_moe_block": true}, "layer 0 takes 0 of 0 experts"},
		"bias":               {m{"attention_bias": true}, "attention_bias"},
		"activation":         {m{"hidden_activation": "silu"}, `hidden_activation "silu"`},
		"tokens behind":      {m{"use_bidirectional_attention": "all"}, `use_bidirectional_attention "all"`},
		"window null":        {m{"sliding_window": nil}, "sliding_window null"},
		"another vocabulary": {m{"vocab_size_per_layer_input": 32}, "vocab_size_per_layer_input 32"},
		"all layers share":   {m{"num_kv_shared_layers": 2}, "no layer before has the type of layer 0"},
		"too many share":     {m{"num_kv_shared_layers": 3}, "3 of 2 layers share"},
		"another type alone": {m{"num_kv_shared_layers": 1}, "no layer before has the type of layer 1"},
		"size of a layer":    {m{"per_layer_config": m{"1": m{"intermediate_size": 8}}}, "intermediate_size 8"},
		"layer of a size":    {m{"per_layer_config": m{"2": m{"head_dim": 8}}}, `a layer "2"`},
		"heads differ": {m{"per_layer_config": m{"1": m{"head_dim": 8}},
			"layer_types": []string{"full_attention", "full_attention"}}, "layer 1 with heads of 8"},
		"odd heads": {m{"global_head_dim": 7}, "turns 7 numbers"},
		"no rotation": {m{"rope_parameters": m{"full_attention": m{"rope_type": "proportional",
			"partial_rotary_factor": 0}}}, "partial_rotary_factor is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			c.change["architectures"] = []string{"Gemma4ForCausalLM"}
			if c.change["vocab_size_per_layer_input"] == nil {
				c.change["vocab_size_per_layer_input"] = 64
			}
			if _, err := ParseConfig(base(c.change), nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error should say %q: %v", c.want, err)
			}
		})
	}
}

// Which layers of a mixture have experts, how many of what width, and what is refused.
func TestExpertsOfConfigs(t *testing.T) {
	parse := func(class string, change map[string]any) (Config, error) {
		fields := map[string]any{"architectures": []string{class}, "vocab_size": 64, "hidden_size": 32,
			"intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
			"bos_token_id": nil, "eos_token_id": nil}
		maps.Copy(fields, change)
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return ParseConfig(text, nil)
	}
	type m = map[string]any
	three := arch.Experts{Count: 6, Chosen: 3, Size: 20}
	for name, c := range map[string]struct {
		class  string
		change m
		want   []arch.Experts
	}{
		"mixtral, as it is where nothing is said": {"MixtralForCausalLM", m{},
			slices.Repeat([]arch.Experts{{Count: 8, Chosen: 2, Size: 48, Renormalize: true}}, 4)},
		"qwen, every second but one": {"Qwen3MoeForCausalLM", m{"num_experts": 6, "num_experts_per_tok": 3,
			"moe_intermediate_size": 20, "decoder_sparse_step": 2, "mlp_only_layers": []int{3}},
			[]arch.Experts{{}, three, {}, {}}},
		"olmoe, by the newer name": {"OlmoeForCausalLM", m{"num_local_experts": 6, "num_experts_per_tok": 3,
			"intermediate_size": 20}, slices.Repeat([]arch.Experts{three}, 4)},
		"qwen3.5": {"Qwen3_5MoeForCausalLM", m{"num_experts": 12}, slices.Repeat([]arch.Experts{{Count: 12, Chosen: 8,
			Size: 512, Renormalize: true, Shared: 512, SharedGate: true, Fused: arch.FusedHalves}}, 4)},
		"granite with a shared one": {"GraniteMoeSharedForCausalLM", m{"shared_intermediate_size": 24},
			slices.Repeat([]arch.Experts{{Count: 8, Chosen: 2, Size: 48, Renormalize: true, Shared: 24,
				Fused: arch.FusedHalves}}, 4)},
	} {
		got, err := parse(c.class, c.change)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, l := range got.Layers {
			if l.Experts != c.want[i] {
				t.Errorf("%s: layer %d has %+v, want %+v", name, i, l.Experts, c.want[i])
			}
		}
	}
	for _, c := range []struct {
		class  string
		change m
		want   string
	}{
		{"MixtralForCausalLM", m{"sliding_window": 16}, "sliding_window"},
		{"MixtralForCausalLM", m{"num_experts_per_tok": 9}, "9 of 8 experts"},
		{"Qwen3MoeForCausalLM", m{"use_sliding_window": true, "sliding_window": 16}, "sliding_window"},
		{"OlmoeForCausalLM", m{"clip_qkv": -8.0}, "clip_qkv is -8; it must be above 0, or null"},
		{"GptOssForCausalLM", m{"swiglu_limit": -1.0}, "swiglu_limit is -1; it must be above 0"},
		{"GptOssForCausalLM", m{"swiglu_alpha": 1.0}, "swiglu_alpha 1"},
		{"GraniteMoeSharedForCausalLM", m{"shared_intermediate_size": -1}, "the shared expert of layer 0 is -1 wide"},
	} {
		if _, err := parse(c.class, c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %v: %v, want %q", c.class, c.change, err, c.want)
		}
	}
	gptOSS, err := parse("GptOssForCausalLM", m{"swiglu_limit": 3.0})
	if err != nil || gptOSS.Layers[0].Activation != "clamped_swiglu 3" {
		t.Errorf("gpt-oss with another limit: %+v, %v", gptOSS.Layers, err)
	}
	olmoe, err := parse("OlmoeForCausalLM", m{"clip_qkv": 8.0})
	if err != nil || olmoe.Layers[0].QKVClip != 8 {
		t.Errorf("OLMoE with a limit: %+v, %v", olmoe.Layers, err)
	}
}

func TestEndOfSequenceIDs(t *testing.T) {
	for name, c := range map[string]struct {
		config     any
		generation string
		want       []int32
	}{
		"both, once each":        {[]int{7, 8}, `{"eos_token_id": [8, 9]}`, []int32{8, 9, 7}},
		"one number":             {7, `{"eos_token_id": 9}`, []int32{9, 7}},
		"generation only":        {"absent", `{"eos_token_id": 9}`, []int32{9}},
		"config null":            {nil, `{"eos_token_id": 9}`, []int32{9}},
		"generation silent":      {7, `{}`, []int32{7}},
		"the class's default":    {"absent", `{}`, []int32{2}},
		"generation null, empty": {nil, `{"eos_token_id": null}`, nil},
	} {
		got, err := ParseConfig(base(map[string]any{"eos_token_id": c.config}), []byte(c.generation))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !slices.Equal(got.EOS, c.want) {
			t.Errorf("%s: EOS is %v, want %v", name, got.EOS, c.want)
		}
	}
	if _, err := ParseConfig(base(nil), []byte(`{"eos_token_id": "x"}`)); err == nil ||
		!strings.Contains(err.Error(), generationFile) {
		t.Errorf("a broken generation_config.json gave %v", err)
	}
}

func TestConfigDType(t *testing.T) {
	for key, want := range map[string]dtypes.DType{"bfloat16": dtypes.BFloat16, "float16": dtypes.Float16,
		"torch.float32": dtypes.Float32, "auto": dtypes.InvalidDType} {
		for _, field := range []string{"torch_dtype", "dtype"} {
			c, err := ParseConfig(base(map[string]any{field: key}), nil)
			if err != nil || c.DType != want {
				t.Errorf("%s %q gives %s, %v", field, key, c.DType, err)
			}
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, g := range configGoldens(f) {
		f.Add([]byte(g.Config), []byte(`{"eos_token_id": [1, 2]}`))
	}
	folders, _ := filepath.Glob("../testdata/models/*/config.json")
	for _, path := range folders {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte(nil))
	}
	f.Fuzz(func(t *testing.T, config, generation []byte) {
		c, err := ParseConfig(config, generation)
		if err != nil {
			return
		}
		if len(c.Layers) != c.NumLayers {
			t.Fatal("not a record for each layer")
		}
		if c.NumParameters() <= 0 {
			t.Fatal("no parameters")
		}
		if c.HeadDim <= 1<<16 {
			inv, factor := c.RopeFrequencies(arch.FullRope)
			for i, x := range inv {
				if x != x || math.IsNaN(factor) {
					t.Fatalf("frequency %d is %v, factor %v for %s", i, x, factor, config)
				}
			}
		}
	})
}
