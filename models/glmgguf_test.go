package models

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/quire/quire/models/arch"
)

// glmGGUF is tinyGGUF as a model of GLM-4.5's kind, with 3 experts, of heads that are turned half.
func glmGGUF() ggufFile {
	g := tinyGGUF()
	mixture(g)
	for key, v := range maps.Clone(g.values) {
		if rest, ok := strings.CutPrefix(key, "llama."); ok {
			g.values["glm4moe."+rest] = v
			delete(g.values, key)
		}
	}
	g.values["general.architecture"], g.values["glm4moe.rope.dimension_count"] = "glm4moe", uint32(2)
	g.values["glm4moe.expert_gating_func"], g.values["glm4moe.expert_weights_norm"] = uint32(2), true
	g.values["glm4moe.expert_feed_forward_length"] = uint32(12)
	g.tensors["blk.0.post_attention_norm.weight"] = g.tensors["blk.0.ffn_norm.weight"]
	delete(g.tensors, "blk.0.ffn_norm.weight")
	g.tensors["blk.0.exp_probs_b.bias"] = []int{3}
	return g
}

// What GLM-4.5's files may have and lack: norms of queries and keys, biases, a shared expert, predictors.
func TestGLMOfGGUF(t *testing.T) {
	g := glmGGUF()
	c := openTest(t, g.write(t))
	if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %v, error %v", warnings, err)
	}
	l := c.Config.Layers[0]
	if l.QKNorm != arch.NoNorm || l.QKVBias || l.Experts.Shared != 0 || !l.Experts.Renormalize || !l.Experts.Choice ||
		l.Experts.Scale != 1 || c.Config.Ropes[0].Dims != 2 {
		t.Errorf("a layer is %+v", l)
	}
	g.tensors["blk.0.attn_q_norm.weight"], g.tensors["blk.0.attn_k_norm.weight"] = []int{4}, []int{4}
	g.tensors["blk.0.attn_q.bias"], g.tensors["blk.0.attn_k.bias"] = []int{8}, []int{4}
	g.tensors["blk.0.attn_v.bias"] = []int{4}
	g.values["glm4moe.expert_shared_count"], g.values["glm4moe.expert_weights_norm"] = uint32(2), false
	for _, part := range []string{"gate", "up"} {
		g.tensors["blk.0.ffn_"+part+"_shexp.weight"] = []int{24, 8}
	}
	g.tensors["blk.0.ffn_down_shexp.weight"] = []int{8, 24}
	g.values["glm4moe.nextn_predict_layers"], g.values["glm4moe.block_count"] = uint32(1), uint32(2)
	g.tensors["blk.1.nextn.eh_proj.weight"] = []int{8, 16}
	c = openTest(t, g.write(t))
	if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %v, error %v", warnings, err)
	}
	l = c.Config.Layers[0]
	if c.Config.NumLayers != 1 || l.QKNorm != arch.EachHead || !l.QKVBias || l.Experts.Shared != 24 ||
		l.Experts.Renormalize {
		t.Errorf("a layer of %d is %+v", c.Config.NumLayers, l)
	}
	delete(g.tensors, "blk.0.exp_probs_b.bias")
	if _, err := openTest(t, g.write(t)).Validate(); err == nil || !strings.Contains(err.Error(), "exp_probs_b") {
		t.Errorf("without what experts are chosen by: %v", err)
	}
	g.values["glm4moe.expert_gating_func"] = uint32(1)
	_, err := Open(g.write(t))
	if u := new(UnsupportedError); !errors.As(err, &u) || !strings.Contains(err.Error(), "expert_gating_func 1") {
		t.Errorf("with shares that are no sigmoids: %v", err)
	}
}
