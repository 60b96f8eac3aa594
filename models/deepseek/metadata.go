package deepseek

import (
	"slices"

	"github.com/quire/quire/models/arch"
)

// ofGGUF describes the files of all versions, which expert_gating_func distinguishes.
var ofGGUF = arch.GGUF{Architecture: "deepseek2", Experts: true, Keys: slices.Concat(arch.RouterKeys, []string{
	"attention.kv_lora_rank", "attention.q_lora_rank", "attention.key_length_mla", "attention.value_length_mla",
	"rope.scaling.yarn_log_multiplier", "nextn_predict_layers"})}

// yarnLogScale divides rope.scaling.yarn_log_multiplier, which is mscale_all_dim times this.
const yarnLogScale = 0.1

// readMetadata reads a GGUF file. Files from before April 2025 have the sizes of heads as key_length and
// value_length, which are the sizes of latents since.
func readMetadata(m *arch.Metadata, c *arch.Config) error {
	if err := m.WithoutPredictors(c); err != nil {
		return err
	}
	sigmoids, err := m.Sigmoids(false) // files of V2 that are older than V3 do not have the key
	if err != nil {
		return err
	}
	if !sigmoids {
		c.Architecture, c.ModelType = classV2, modelTypeV2
	}
	if m.Bool("expert_weights_norm", false) && !sigmoids {
		return arch.Unsupported("", "expert_weights_norm in a %s", c.Architecture)
	}
	latent := arch.Latent{Rank: m.Int("attention.kv_lora_rank", 0), QueryRank: m.Int("attention.q_lora_rank", 0),
		RopeDim: m.Int("rope.dimension_count", 0), Interleaved: true, Eps: latentEps,
		ValueDim: m.Int("attention.value_length_mla", m.Int("attention.value_length", 0))}
	latent.KeyDim = m.Int("attention.key_length_mla", m.Int("attention.key_length", 0)) - latent.RopeDim
	if s := c.Ropes[arch.FullRope].Scaling; s != nil {
		s.ScaleAllDims = m.Float("rope.scaling.yarn_log_multiplier", 0) / yarnLogScale
		if s.ScaleAllDims != 0 { // mscale, which has no key, is the same: cosines are not scaled
			s.AttentionFactor = 1
		}
	}
	setLayers(c, latent, m.HasTensor("blk.0.attn_kv_a_mqa.bias"))
	if m.Int("expert_count", 0) == 0 {
		return nil
	}
	e := arch.Experts{Sigmoid: sigmoids, Choice: sigmoids}
	if sigmoids {
		e.SumEps, e.Groups, e.ChosenGroups = arch.ChosenSumEps, 1, 1
	}
	if err := m.RoutedExperts(c, e); err != nil {
		return err
	}
	for i, l := range c.Layers {
		if l.Experts.Choice && !sigmoids {
			return arch.Unsupported("only with expert_gating_func 2 it is", "blk.%d.exp_probs_b of a %s", i,
				c.Architecture)
		}
	}
	return nil
}
