// Package models opens model checkpoints: it turns a reference (a Hugging Face folder, a GGUF file, a hub name, or a
// bare config for dummy weights) into a Config and named weights, read one at a time in the dtype asked for.
//
// Supported are decoders of the Llama family: LlamaForCausalLM (Llama 2, 3, 3.1, 3.2, SmolLM, SmolLM2),
// MistralForCausalLM, Qwen2ForCausalLM (Qwen2, Qwen2.5), Qwen3ForCausalLM and SmolLM3ForCausalLM. Whatever a config
// asks for that is not supported exactly is refused by name with an *UnsupportedError, never approximated.
//
// Weights have Hugging Face names and layout whatever the file: linear weights are [out, in], rotary halves are not
// interleaved. Files are untrusted input: a damaged one gives an error, not a panic.
package models

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
)

// Config describes a decoder. All per-layer slices have NumLayers entries.
type Config struct {
	Architecture string // Hugging Face class name, e.g. "LlamaForCausalLM"
	ModelType    string // Hugging Face model_type, e.g. "llama"

	VocabSize, HiddenSize, IntermediateSize  int
	NumLayers, NumHeads, NumKVHeads, HeadDim int
	MaxPositions                             int // longest context the model was made for, tokens

	RMSNormEps  float64
	RopeTheta   float64
	RopeScaling *RopeScaling // nil: frequencies used as they are
	NoRope      []bool       // layers without rotary embedding (SmolLM3)

	QKVBias, OBias, MLPBias bool
	QKNorm                  bool  // RMSNorm over each head of q and k before the rotary embedding (Qwen3)
	SlidingWindow           []int // tokens a layer attends to, itself included; 0 = all
	TieEmbeddings           bool  // lm_head is the embedding matrix

	BOS   int          // -1: none
	EOS   []int32      // any of them ends a completion
	DType dtypes.DType // of the checkpoint's weights as the config or file declares it; InvalidDType when it does not
}

// RopeScaling holds the parameters of a rotary embedding for longer contexts, under the names and formulas of
// transformers' modeling_rope_utils. Config.RopeFrequencies computes with them.
type RopeScaling struct {
	Type   string  // "linear", "llama3" or "yarn"
	Factor float64 // >= 1

	LowFreqFactor, HighFreqFactor float64 // llama3

	BetaFast, BetaSlow float64 // yarn
	Truncate           bool    // yarn: correction range cut to whole dimensions
	AttentionFactor    float64 // yarn: cos and sin are multiplied by it; 1 for the other types

	OriginalMaxPositions int // llama3, yarn: context length before the extension, tokens
}

// UnsupportedError says which feature of a model is not supported. The file it was found in is in the wrapping error.
type UnsupportedError struct {
	Feature string // e.g. `architecture "GPT2LMHeadModel"`
	Remedy  string // what is supported instead
}

func (e *UnsupportedError) Error() string {
	if e.Remedy == "" {
		return e.Feature + " is not supported"
	}
	return fmt.Sprintf("%s is not supported; %s", e.Feature, e.Remedy)
}

func unsupported(remedy, format string, args ...any) error {
	return &UnsupportedError{Feature: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Limits that no model of the family comes near; they keep products of sizes in range and stop absurd configs early.
const (
	maxLayers    = 4096
	maxDimension = 1 << 22
	maxContext   = 1 << 30
)

// checkCounts validates the sizes that are divided by and allocated from before the rest is known.
func (c *Config) checkCounts() error {
	switch {
	case c.NumLayers < 1 || c.NumLayers > maxLayers:
		return fmt.Errorf("num_hidden_layers is %d; it must be between 1 and %d", c.NumLayers, maxLayers)
	case c.NumHeads < 1:
		return fmt.Errorf("num_attention_heads is %d; it must be at least 1", c.NumHeads)
	}
	return nil
}

// check validates what both config formats must satisfy.
func (c *Config) check() error {
	if err := c.checkCounts(); err != nil {
		return err
	}
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"vocab_size", c.VocabSize, maxDimension}, {"hidden_size", c.HiddenSize, maxDimension},
		{"intermediate_size", c.IntermediateSize, maxDimension}, {"num_attention_heads", c.NumHeads, maxDimension},
		{"num_key_value_heads", c.NumKVHeads, maxDimension},
		{"head_dim", c.HeadDim, maxDimension}, {"max_position_embeddings", c.MaxPositions, maxContext},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("%s is %d; it must be between 1 and %d", f.name, f.value, f.max)
		}
	}
	switch {
	case c.NumHeads%c.NumKVHeads != 0:
		return fmt.Errorf("num_attention_heads %d is not a multiple of num_key_value_heads %d", c.NumHeads,
			c.NumKVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("head_dim is %d; the rotary embedding needs an even one", c.HeadDim)
	case c.NumHeads*c.HeadDim > maxDimension:
		return fmt.Errorf("%d heads of %d make rows of %d, more than %d", c.NumHeads, c.HeadDim, c.NumHeads*c.HeadDim,
			maxDimension)
	case !(c.RMSNormEps > 0 && c.RMSNormEps < 1):
		return fmt.Errorf("rms_norm_eps is %g; it must be between 0 and 1", c.RMSNormEps)
	case !(c.RopeTheta > 1 && c.RopeTheta < 1e30):
		return fmt.Errorf("rope_theta is %g; it must be above 1", c.RopeTheta)
	case c.BOS < -1 || c.BOS >= c.VocabSize:
		return fmt.Errorf("bos_token_id %d is outside the vocabulary of %d", c.BOS, c.VocabSize)
	}
	for _, id := range c.EOS {
		if id < 0 || int(id) >= c.VocabSize {
			return fmt.Errorf("eos_token_id %d is outside the vocabulary of %d", id, c.VocabSize)
		}
	}
	for i, w := range c.SlidingWindow {
		if w < 0 {
			return fmt.Errorf("the sliding window of layer %d is %d", i, w)
		}
	}
	return c.RopeScaling.check()
}

func (s *RopeScaling) check() error {
	if s == nil {
		return nil
	}
	switch {
	case !(s.Factor >= 1 && s.Factor <= 1e6):
		return fmt.Errorf("the rope scaling factor is %g; it must be at least 1", s.Factor)
	case s.Type != "linear" && (s.OriginalMaxPositions < 1 || s.OriginalMaxPositions > maxContext):
		return fmt.Errorf("original_max_position_embeddings is %d", s.OriginalMaxPositions)
	case s.Type == "llama3" && !(s.LowFreqFactor > 0 && s.HighFreqFactor > s.LowFreqFactor):
		return fmt.Errorf("low_freq_factor %g and high_freq_factor %g must be positive and ascending", s.LowFreqFactor,
			s.HighFreqFactor)
	case s.Type == "yarn" && !(s.BetaSlow > 0 && s.BetaFast > 0 && s.AttentionFactor > 0 && s.AttentionFactor < 1e6):
		return fmt.Errorf("beta_fast %g, beta_slow %g and attention_factor %g must be positive", s.BetaFast, s.BetaSlow,
			s.AttentionFactor)
	}
	return nil
}
