package models

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// What is refused of DeepSeek V2 and V3, by name.
func TestDeepSeekRefusals(t *testing.T) {
	type m = map[string]any
	for name, c := range map[string]struct {
		class       string
		change      m
		want        string
		unsupported bool
	}{
		"activation":     {"3", m{"hidden_act": "gelu"}, `hidden_act "gelu"`, true},
		"fewer KV heads": {"3", m{"num_key_value_heads": 2}, "num_key_value_heads 2", true},
		"biases":         {"3", m{"attention_bias": true, "q_lora_rank": nil}, "without q_lora_rank", true},
		"mlp_bias":       {"2", m{"mlp_bias": true}, "mlp_bias", true},
		"some layers":    {"3", m{"moe_layer_freq": 2}, "moe_layer_freq 2", true},
		"choice of V2":   {"2", m{"topk_method": "noaux_tc"}, `topk_method "noaux_tc"`, true},
		"choice of V3":   {"3", m{"topk_method": "greedy"}, `topk_method "greedy"`, true},
		"shares of V2":   {"2", m{"scoring_func": "sigmoid"}, `scoring_func "sigmoid"`, true},
		"shares of V3":   {"3", m{"scoring_func": "softmax"}, `scoring_func "softmax"`, true},
		"norm of V2":     {"2", m{"norm_topk_prob": true}, "norm_topk_prob", true},
		"no choice":      {"2", m{"num_experts_per_tok": "absent"}, "takes 0 of 64 experts", false},
		"uneven groups":  {"3", m{"n_group": 5}, "of 5 groups", false},
		"few in groups":  {"3", m{"n_group": 64, "topk_group": 1}, "takes 8 of 256 experts from 1 of 64 groups", false},
		"odd rotation":   {"3", m{"qk_rope_head_dim": 7}, "7 numbers of a head", false},
		"no latents":     {"3", m{"kv_lora_rank": 0}, "latents of 0", false},
		"rope":           {"3", m{"rope_parameters": 5}, "rope_parameters", false},
	} {
		t.Run(name, func(t *testing.T) {
			c.change["architectures"] = []string{"DeepseekV" + c.class + "ForCausalLM"}
			c.change["first_k_dense_replace"] = 1
			if _, ok := c.change["num_experts_per_tok"]; !ok {
				c.change["num_experts_per_tok"] = 8
			}
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
}

// scaleOfGGUF rounds what shares are multiplied by to what the format holds.
func scaleOfGGUF(c *Config) {
	for i := range c.Layers {
		e := &c.Layers[i].Experts
		e.Scale = float64(float32(e.Scale))
	}
}

// yarnOfDeepSeek is what GGUF files of DeepSeek's hold of yarn: no mscale, which is mscale_all_dim in published models.
func yarnOfDeepSeek(c *Config) {
	scaleOfGGUF(c)
	s := *c.Ropes[0].Scaling
	s.AttentionFactor, s.ScaleAllDims = 1, float64(float32(0.1*s.ScaleAllDims))/0.1
	c.Ropes = []Rope{{Theta: c.Ropes[0].Theta, Dims: c.Ropes[0].Dims, Scaling: &s}}
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Scale = s.ScoreScale() / math.Sqrt(float64(l.Latent.KeyDim+l.Latent.RopeDim))
	}
}
