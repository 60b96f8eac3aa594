package llama

import (
	"fmt"

	"github.com/quire/quire/models/arch"
)

var ofExperts = []arch.Decoder{
	features{experts: mixtral}.decoder(arch.Decoder{
		Class: "MixtralForCausalLM", ModelType: "mixtral", Names: mixtralNames,
		GGUF:     arch.GGUF{Architecture: "llama", Interleaved: true, Experts: true},
		Defaults: arch.Defaults{KVHeads: 8, MaxPositions: 131072, Eps: 1e-5, Theta: 1e6, BOS: 1, EOS: []int32{2}},
	}),
	features{attentionBias: true, qkNorm: arch.EachHead, experts: qwen3}.decoder(arch.Decoder{
		Class: "Qwen3MoeForCausalLM", ModelType: "qwen3_moe", GGUF: arch.GGUF{Architecture: "qwen3moe", Experts: true},
		Defaults: arch.Defaults{KVHeads: 4, MaxPositions: 32768, Theta: 1e4, BOS: -1},
	}),
	features{attentionBias: true, qkNorm: arch.AllHeads, experts: olmoe}.decoder(arch.Decoder{
		Class: "OlmoeForCausalLM", ModelType: "olmoe", GGUF: arch.GGUF{Architecture: "olmoe", Experts: true},
		Defaults: arch.Defaults{MaxPositions: 4096, Eps: 1e-5, Theta: 1e4, BOS: -1, EOS: []int32{50279}},
	}),
}

// experts has the config keys of a mixture.
type experts struct {
	count, chosen, size string // keys; newer configs may have num_local_experts in place of count
	// The defaults of transformers for absent keys.
	absentCount, absentChosen, absentSize int
	// renormalize is the key that decides whether shares are renormalized; "" if they always are.
	renormalize string
	// sharesOfAll reports whether shares in GGUF files are not renormalized.
	sharesOfAll bool
	// dense reports whether mlp_only_layers and decoder_sparse_step may give layers a single feed-forward.
	dense   bool
	clip    bool // clip_qkv may be set
	windows bool // sliding_window may be set, which is not supported: in all layers
}

var (
	mixtral = &experts{count: "num_local_experts", chosen: "num_experts_per_tok", size: "intermediate_size",
		absentCount: 8, absentChosen: 2, windows: true}
	qwen3 = &experts{count: "num_experts", chosen: "num_experts_per_tok", size: "moe_intermediate_size",
		absentCount: 128, absentChosen: 8, absentSize: 768, renormalize: "norm_topk_prob", dense: true}
	olmoe = &experts{count: "num_experts", chosen: "num_experts_per_tok", size: "intermediate_size", absentCount: 64,
		absentChosen: 8, renormalize: "norm_topk_prob", sharesOfAll: true, clip: true}
)

var mixtralNames = arch.LlamaNames.With(arch.Names{
	arch.Router:     {HF: "block_sparse_moe.gate", GGUF: "ffn_gate_inp"},
	arch.ExpertGate: {HF: "block_sparse_moe.experts.%d.w1", GGUF: "ffn_gate_exps"},
	arch.ExpertUp:   {HF: "block_sparse_moe.experts.%d.w3", GGUF: "ffn_up_exps"},
	arch.ExpertDown: {HF: "block_sparse_moe.experts.%d.w2", GGUF: "ffn_down_exps"},
})

func (e *experts) readJSON(j *arch.JSON, c *arch.Config) error {
	if e.clip && j.Has("clip_qkv") {
		limit := j.Float("clip_qkv", 0)
		if limit <= 0 {
			return fmt.Errorf("clip_qkv is %g; it must be above 0, or null", limit)
		}
		for i := range c.Layers {
			c.Layers[i].QKVClip = limit
		}
	}
	if j.Has("sliding_window") && (e.windows || j.Bool("use_sliding_window", false)) {
		return arch.Unsupported("", "sliding_window in a %s", c.Architecture)
	}
	mixture := arch.Experts{
		Count:  j.Int(e.count, j.Int("num_local_experts", e.absentCount)),
		Chosen: j.Int(e.chosen, e.absentChosen), Size: j.Int(e.size, e.absentSize),
		Renormalize: e.renormalize == "" || j.Bool(e.renormalize, false),
	}
	if e.dense {
		j.SparseExperts(c, mixture)
		return nil
	}
	for i := range c.Layers {
		c.Layers[i].Experts = mixture
	}
	return nil
}
