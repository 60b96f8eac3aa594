"""What can be taken away from a model, so that goldens show whether they depend on it: see check_ablations of
logits_goldens.py."""

import torch
from transformers.models.ernie4_5 import modeling_ernie4_5
from transformers.models.glm4 import modeling_glm4
from transformers.models.phi3 import modeling_phi3

import family_ablations


def ablations(model, again):
    """(what is taken away, model without it) for every feature this checkpoint is there to test. again(settings) makes
    the model anew, with these values in its config."""

    def load():
        return again({})

    def changed(**settings):
        return again(settings)

    def zeroed(pattern, value):
        other = load()
        hit = False
        with torch.no_grad():
            for name, p in other.named_parameters():
                if pattern in name:
                    p.fill_(value)
                    hit = True
        assert hit, pattern
        return other

    config = model.config
    ropes = config.rope_parameters
    nested = "rope_type" not in ropes
    layers = config.num_hidden_layers
    kinds = getattr(config, "layer_types", None)
    full = ["full_attention"] * layers
    if config.model_type in ("mistral", "phi3", "starcoder2") and config.sliding_window:
        yield "sliding window", changed(sliding_window=None)
        yield "sliding window one shorter", changed(sliding_window=config.sliding_window - 1)
    elif config.model_type == "gemma4_text":  # the type of a layer says its sizes too
        yield "sliding window", changed(sliding_window=1000)
        yield "sliding window one shorter", changed(sliding_window=config.sliding_window - 1)
    elif kinds and "sliding_attention" in kinds:
        assert kinds != ["sliding_attention"] * layers, kinds
        yield "sliding window", changed(layer_types=full)
        yield "sliding in some layers only", changed(layer_types=["sliding_attention"] * layers)
    if getattr(config, "position_embedding_type", "rope") != "rope":
        yield "no rope", changed(position_embedding_type="rope")
        ropes = {}
    for kind, rope in (ropes if nested or not ropes else {"": ropes}).items():

        def turned(other):
            return changed(rope_parameters=ropes | {kind: other} if nested else other)

        if rope["rope_type"] != "default":
            yield f"rope scaling {kind}", turned(dict(rope, rope_type="default"))
        if rope["rope_type"] == "longrope":
            # The other list of divisors.
            lists = dict(short_factor=rope["long_factor"], long_factor=rope["short_factor"])
            yield "longrope divisors", turned(rope | lists)
            if config.max_position_embeddings > config.original_max_position_embeddings:
                yield "longrope attention factor", turned(rope | dict(attention_factor=1.0))
        partial = rope.get("partial_rotary_factor") or 1
        if partial < 1:
            longer = {
                k: v + [v[-1]] * (round(len(v) / partial) - len(v)) for k, v in rope.items()
                if k.endswith("_factor") and isinstance(v, list)}
            yield "partial rotation", turned(rope | longer | dict(partial_rotary_factor=1.0))
        if rope["rope_type"] == "yarn" and not rope.get("truncate", True):
            yield f"yarn not truncated {kind}", turned(rope | dict(truncate=True))
        if rope["rope_type"] == "yarn":
            yield f"yarn attention factor {kind}", turned(rope | dict(attention_factor=1.0))
        yield f"rope theta {kind}", turned(rope | dict(rope_theta=rope["rope_theta"] / 3))
    if getattr(config, "num_experts_per_tok", None):
        yield "an expert of each token", changed(num_experts_per_tok=config.num_experts_per_tok - 1)
        if hasattr(config, "norm_topk_prob") and config.model_type != "deepseek_v2":  # which takes no notice of it
            yield "shares that add up to 1", changed(norm_topk_prob=not config.norm_topk_prob)
        if getattr(config, "mlp_only_layers", None) == [1]:
            plain = load()
            plain.model.layers[1].mlp = plain.model.layers[0].mlp
            yield "layers without experts", plain
        yield "what experts add", zeroed("experts.down_proj", 0.0)
        if any("shared_" in name for name, _ in model.named_parameters()):
            names = {"granite": "output_linear", "deepseek": "shared_experts.down_proj",
                     "glm4": "shared_experts.down_proj"}
            yield "the shared expert", zeroed(
                next((n for of, n in names.items() if of in config.model_type), "shared_expert.down_proj"), 0.0)
        if any("shared_expert_gate" in name for name, _ in model.named_parameters()):
            yield "the share of the shared expert by token", zeroed("shared_expert_gate", 0.0)
    no_rope = getattr(config, "no_rope_layers", None)
    if no_rope:
        assert len(set(no_rope)) == 2, no_rope
        yield "layers without rope", changed(no_rope_layers=[1] * layers)
    if config.model_type.startswith("granite"):
        for key in ("embedding_multiplier", "residual_multiplier", "logits_scaling"):
            yield key, changed(**{key: 1.0})
        yield "attention_multiplier", changed(
            attention_multiplier=(config.hidden_size // config.num_attention_heads) ** -0.5)
    if config.model_type == "gpt_oss":
        yield from family_ablations.gpt_oss(load, changed, zeroed)
    if config.model_type == "glm4":
        was = modeling_glm4.apply_rotary_pos_emb
        modeling_glm4.apply_rotary_pos_emb = modeling_phi3.apply_rotary_pos_emb
        yield "rotation of neighbours", load()
        modeling_glm4.apply_rotary_pos_emb = was
    if config.model_type == "ernie4_5":
        was = modeling_ernie4_5.apply_rotary_pos_emb
        modeling_ernie4_5.apply_rotary_pos_emb = modeling_phi3.apply_rotary_pos_emb
        yield "rotation of neighbours", load()
        modeling_ernie4_5.apply_rotary_pos_emb = was
    if config.model_type == "starcoder2":
        yield "GELU", changed(hidden_act="silu")
    if config.model_type in ("starcoder2", "stablelm"):
        other = load()
        for module in other.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.forward = lambda x, m=module: torch.nn.functional.rms_norm(
                    x, x.shape[-1:], m.weight, m.eps) + m.bias
        yield "mean of LayerNorm", other
        yield "biases of layers' norms", zeroed("layernorm.bias", 0.0)
        yield "bias of the last norm", zeroed("model.norm.bias", 0.0)
    if config.model_type.startswith(("qwen3_5", "qwen3_next")):
        yield from family_ablations.delta_nets(config, load)
    if config.model_type == "granitemoehybrid" and "linear_attention" in kinds:
        yield from family_ablations.granite4(config, load, changed)
    if config.model_type in ("lfm2", "lfm2_moe"):
        yield from family_ablations.lfm2(config, load)
    if config.model_type == "lfm2_moe":
        yield from family_ablations.lfm2_moe(load, changed)
    if config.model_type == "glm4_moe":
        yield from family_ablations.routed(config, load, changed)
    if config.model_type.startswith("deepseek"):
        yield from family_ablations.deepseek(config, load, changed)
    if config.model_type == "gemma4_text":
        yield from family_ablations.gemma4(config, load, changed)
    gemma = config.model_type in ("gemma2", "gemma3_text") or config.model_type.startswith(("qwen3_5", "qwen3_next"))
    if config.model_type == "gemma2":
        yield "soft cap of scores", changed(attn_logit_softcapping=None)
        yield "soft cap of logits", changed(final_logit_softcapping=None)
    if gemma and "gemma" in config.model_type:
        yield "scale of scores", changed(query_pre_attn_scalar=config.head_dim)
    if "gemma" in config.model_type:
        yield "GELU", changed(hidden_activation="silu")
        unscaled = load()
        unscaled.model.embed_tokens.embed_scale.fill_(1.0)
        yield "scale of embeddings", unscaled
    present = {n for n, _ in model.named_parameters()}
    for part in (
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "c_fc", "c_proj", "q_a_proj",
        "kv_a_proj_with_mqa"):
        if any(f"{part}.bias" in n for n in present):
            # A key bias shifts all scores of a query alike but for rope, so it too must show.
            yield f"{part} bias", zeroed(f"{part}.bias", 0.0)
    for part in (
        "q_norm",
        "k_norm",
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
        "pre_feedforward_layernorm_2",
        "post_feedforward_layernorm_1",
        "post_feedforward_layernorm_2",
        "post_self_attn_layernorm",
        "post_mlp_layernorm",
        "operator_norm",
        "ffn_norm",
        "q_layernorm",
        "k_layernorm",
        "embedding_norm",
        "model.norm",
        "q_a_layernorm",
        "kv_a_layernorm",
        "per_layer_projection_norm",
        "post_per_layer_input_norm",
    ):
        if any(part in n for n in present):
            yield f"{part} weight", zeroed(f"{part}.weight", 0.0 if gemma else 1.0)
