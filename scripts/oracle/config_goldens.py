#!/usr/bin/env python3
"""What transformers makes of a config.json: config_goldens.py OUT.json   (models/testdata/configs.json)

Writes a list of {"name", "config": the config.json, "want": the values the model is built with}, for every supported
class and every rope type, with keys left out, null, and in the older and newer style.
"""
import json, sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.granitemoehybrid.modeling_granitemoehybrid import GraniteMoeHybridRotaryEmbedding

BASE = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=6, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=None)
LLAMA = dict(BASE, model_type="llama", architectures=["LlamaForCausalLM"])
MISTRAL = dict(BASE, model_type="mistral", architectures=["MistralForCausalLM"])
QWEN2 = dict(BASE, model_type="qwen2", architectures=["Qwen2ForCausalLM"])
QWEN3 = dict(BASE, model_type="qwen3", architectures=["Qwen3ForCausalLM"])
SMOLLM3 = dict(BASE, model_type="smollm3", architectures=["SmolLM3ForCausalLM"])
GEMMA2 = dict(BASE, model_type="gemma2", architectures=["Gemma2ForCausalLM"])
GEMMA3 = dict(BASE, model_type="gemma3_text", architectures=["Gemma3ForCausalLM"])
GEMMA4 = dict(BASE, model_type="gemma4_text", architectures=["Gemma4ForCausalLM"], vocab_size_per_layer_input=64)
PHI3 = dict(BASE, model_type="phi3", architectures=["Phi3ForCausalLM"])
LONGROPE = dict(short_factor=[1.0, 1.1, 1.2, 1.5], long_factor=[1.5, 2.0, 4.0, 9.0])
GRANITE = dict(BASE, model_type="granite", architectures=["GraniteForCausalLM"])
GRANITE_MOE = dict(BASE, model_type="granitemoe", architectures=["GraniteMoeForCausalLM"])
GRANITE_SHARED = dict(BASE, model_type="granitemoeshared", architectures=["GraniteMoeSharedForCausalLM"])
GRANITE4 = dict(
    BASE, model_type="granitemoehybrid", architectures=["GraniteMoeHybridForCausalLM"], num_local_experts=0,
    mamba_n_heads=4)
DEEPSEEK = dict(
    BASE, num_key_value_heads=4, first_k_dense_replace=1, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=6,
    v_head_dim=12, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20)
DEEPSEEK2 = dict(DEEPSEEK, model_type="deepseek_v2", architectures=["DeepseekV2ForCausalLM"])
DEEPSEEK3 = dict(DEEPSEEK, model_type="deepseek_v3", architectures=["DeepseekV3ForCausalLM"])
OLMO3 = dict(BASE, model_type="olmo3", architectures=["Olmo3ForCausalLM"])
GLM4 = dict(BASE, model_type="glm4", architectures=["Glm4ForCausalLM"])
GLM4_MOE = dict(
    BASE, model_type="glm4_moe", architectures=["Glm4MoeForCausalLM"], n_routed_experts=6, num_experts_per_tok=2,
    moe_intermediate_size=20)
MINISTRAL = dict(BASE, model_type="ministral", architectures=["MinistralForCausalLM"])
STARCODER2 = dict(BASE, model_type="starcoder2", architectures=["Starcoder2ForCausalLM"])
LFM2 = dict(BASE, model_type="lfm2", architectures=["Lfm2ForCausalLM"])
LFM2_MOE = dict(
    BASE, model_type="lfm2_moe", architectures=["Lfm2MoeForCausalLM"], num_experts=6, num_experts_per_tok=2,
    moe_intermediate_size=20, layer_types=["conv", "full_attention"] * 3)
QWEN35 = dict(BASE, model_type="qwen3_5_text", architectures=["Qwen3_5ForCausalLM"])
QWEN35_MOE = dict(BASE, model_type="qwen3_5_moe_text", architectures=["Qwen3_5MoeForCausalLM"], num_experts=12)
QWEN3_NEXT = dict(BASE, model_type="qwen3_next", architectures=["Qwen3NextForCausalLM"], num_experts=12)
STABLELM = dict(BASE, model_type="stablelm", architectures=["StableLmForCausalLM"])
ERNIE = dict(BASE, model_type="ernie4_5", architectures=["Ernie4_5ForCausalLM"])
SEED_OSS = dict(BASE, model_type="seed_oss", architectures=["SeedOssForCausalLM"])
OLMO2 = dict(BASE, model_type="olmo2", architectures=["Olmo2ForCausalLM"])
GPT_OSS = dict(BASE, model_type="gpt_oss", architectures=["GptOssForCausalLM"], num_local_experts=5)
LLAMA3 = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
BIG = dict(hidden_size=512, num_attention_heads=4, rope_theta=500000.0, max_position_embeddings=131072)


def without(config, *keys):
    return {k: v for k, v in config.items() if k not in keys}


CASES = {
    "llama": LLAMA,
    "llama, defaults": without(LLAMA, "num_key_value_heads", "max_position_embeddings", "bos_token_id", "eos_token_id"),
    "llama, kv heads null": dict(LLAMA, num_key_value_heads=None),
    "llama, own head_dim, eos list": dict(LLAMA, head_dim=24, eos_token_id=[3, 4], tie_word_embeddings=True),
    "llama, biases": dict(LLAMA, attention_bias=True, mlp_bias=True),
    "llama, sliding window ignored": dict(LLAMA, sliding_window=8),
    "llama, no bos": dict(LLAMA, bos_token_id=None, eos_token_id=None),
    "llama, rope_theta": dict(LLAMA, **BIG),
    "llama, linear, old style": dict(LLAMA, **BIG, rope_scaling={"type": "linear", "factor": 2.5}),
    "llama, llama3, old style": dict(LLAMA, **BIG, rope_scaling=LLAMA3),
    "llama, llama3, new style": dict(
        LLAMA, **without(BIG, "rope_theta"), rope_parameters=dict(LLAMA3, rope_theta=500000.0)),
    "llama, default, new style": dict(LLAMA, rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
    "llama, empty rope_scaling": dict(
        LLAMA, rope_scaling={}, rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 1e6}),
    "llama, rope_scaling wins": dict(
        LLAMA, rope_scaling={"type": "linear", "factor": 2.0},
        rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 1e6}),
    "mistral": MISTRAL,
    "mistral, defaults": without(
        dict(MISTRAL, num_attention_heads=8), "num_key_value_heads", "max_position_embeddings"),
    "mistral, window 16": dict(MISTRAL, sliding_window=16),
    "mistral, window null": dict(MISTRAL, sliding_window=None),
    "qwen2": QWEN2,
    "qwen2, window off": dict(QWEN2, sliding_window=16, max_window_layers=2),
    "qwen2, window on": dict(QWEN2, sliding_window=16, max_window_layers=2, use_sliding_window=True),
    "qwen2, layer types": dict(
        QWEN2, sliding_window=16, use_sliding_window=True, layer_types=["sliding_attention", "full_attention"] * 3),
    "qwen2, yarn": dict(
        QWEN2, **BIG, rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}),
    "qwen2, yarn, factor null": dict(
        QWEN2, **BIG, rope_scaling={"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 32768}),
    "qwen2, yarn, mscale": dict(
        QWEN2, **BIG,
        rope_scaling={
            "rope_type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.7, "beta_fast": 16, "beta_slow": 2,
            "original_max_position_embeddings": 4096}),
    "qwen2, yarn, not truncated": dict(
        QWEN2, **BIG,
        rope_scaling={
            "rope_type": "yarn", "factor": 8.0, "truncate": False, "attention_factor": 1.25,
            "original_max_position_embeddings": 4096}),
    "qwen3": QWEN3,
    "qwen3, own head_dim": dict(QWEN3, head_dim=16, attention_bias=True, tie_word_embeddings=True),
    "qwen3, window on": dict(QWEN3, sliding_window=16, max_window_layers=4, use_sliding_window=True),
    "smollm3": SMOLLM3,
    "smollm3, defaults": without(SMOLLM3, "num_key_value_heads", "max_position_embeddings"),
    "smollm3, interval 3": dict(SMOLLM3, no_rope_layer_interval=3, tie_word_embeddings=False),
    "smollm3, list": dict(SMOLLM3, no_rope_layers=[0, 1, 1, 0, 1, 1, 1, 1]),
    "smollm3, window": dict(SMOLLM3, sliding_window=16, use_sliding_window=True),
    "gemma2, defaults": without(
        GEMMA2, "num_key_value_heads", "max_position_embeddings", "bos_token_id", "eos_token_id"),
    "gemma2, no caps": dict(
        GEMMA2, attn_logit_softcapping=None, final_logit_softcapping=None, head_dim=16, query_pre_attn_scalar=24),
    "gemma2, layer types": dict(
        GEMMA2, sliding_window=16, layer_types=["full_attention", "sliding_attention"] * 3, tie_word_embeddings=False),
    "gemma3": dict(GEMMA3, head_dim=16, sliding_window=16),
    "gemma3, defaults": {k: GEMMA3[k] for k in ("model_type", "architectures", "num_hidden_layers", "hidden_size")},
    "gemma3, older style": dict(
        GEMMA3, head_dim=16, sliding_window=16, sliding_window_pattern=3, query_pre_attn_scalar=24, rope_theta=2e6,
        rope_local_base_freq=20000.0, rope_scaling={"factor": 8.0, "rope_type": "linear"}, final_logit_softcapping=20.0,
        tie_word_embeddings=False),
    "gemma3, newer style": dict(
        GEMMA3, head_dim=16, sliding_window=16, layer_types=["full_attention", "sliding_attention"] * 3,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 4.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 5e4}}),
    "gemma4": dict(
        GEMMA4, head_dim=16, global_head_dim=32, sliding_window=16, hidden_size_per_layer_input=8,
        final_logit_softcapping=30.0),
    "gemma4, defaults": {
        k: GEMMA4[k]
        for k in (
            "model_type", "architectures", "num_hidden_layers", "hidden_size", "vocab_size",
            "vocab_size_per_layer_input")},
    "gemma4, shared keys": dict(
        GEMMA4, num_kv_shared_layers=3, use_double_wide_mlp=True, hidden_size_per_layer_input=0,
        layer_types=["full_attention", "sliding_attention"] * 3),
    "gemma4, keys as values": dict(
        GEMMA4, attention_k_eq_v=True, num_global_key_value_heads=1, hidden_size_per_layer_input=0,
        layer_types=["full_attention"] * 2 + ["sliding_attention"] * 4, use_bidirectional_attention="vision",
        tie_word_embeddings=False),
    "gemma4, experts": dict(
        GEMMA4, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=24,
        hidden_size_per_layer_input=0),
    "gemma4, layers by number": dict(
        GEMMA4, head_dim=8,
        per_layer_config={
            "0": {"head_dim": 24, "num_key_value_heads": 4}, "5": {"head_dim": 24, "num_key_value_heads": 4}},
        layer_types=["full_attention"] + ["sliding_attention"] * 4 + ["full_attention"], hidden_size_per_layer_input=4,
        rope_parameters={
            "full_attention": {
                "rope_type": "proportional", "partial_rotary_factor": 0.4, "rope_theta": 5e5, "factor": 2.0},
            "sliding_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 2e4}}),
    "phi3": dict(PHI3, rope_theta=1e4, sliding_window=16),
    "phi3, defaults": without(
        dict(PHI3, vocab_size=32064), "num_key_value_heads", "max_position_embeddings", "bos_token_id", "eos_token_id"),
    "phi3, longrope, older style": dict(
        PHI3, max_position_embeddings=131072, original_max_position_embeddings=4096, rope_theta=1e4,
        rope_scaling=dict(LONGROPE, type="longrope")),
    "phi3, partial, tied": dict(PHI3, tie_word_embeddings=True, partial_rotary_factor=0.75, rope_theta=1e4),
    "phi3, longrope, newer style": dict(
        PHI3, max_position_embeddings=131072, original_max_position_embeddings=4096,
        rope_parameters=dict(LONGROPE, rope_type="longrope", rope_theta=1e5, partial_rotary_factor=1.0)),
    "granite": dict(
        GRANITE, embedding_multiplier=12.0, attention_multiplier=0.015625, residual_multiplier=0.22, logits_scaling=8.0,
        rope_theta=1e6),
    "granite, defaults": without(
        dict(GRANITE, attention_bias=True, mlp_bias=True), "num_key_value_heads", "max_position_embeddings",
        "bos_token_id", "eos_token_id"),
    "granite-moe": dict(
        GRANITE_MOE, embedding_multiplier=12.0, attention_multiplier=0.015625, residual_multiplier=0.22,
        logits_scaling=6.0, num_local_experts=5, num_experts_per_tok=3, attention_bias=True, tie_word_embeddings=True),
    "granite-moe, defaults": without(
        GRANITE_MOE, "num_key_value_heads", "max_position_embeddings", "bos_token_id", "eos_token_id"),
    "granite-moe, shared": dict(
        GRANITE_SHARED, shared_intermediate_size=24, num_local_experts=5, residual_multiplier=0.22),
    "granite-moe, none shared": without(
        GRANITE_SHARED, "num_key_value_heads", "max_position_embeddings", "bos_token_id", "eos_token_id"),
    "granite4": dict(
        GRANITE4, layer_types=["mamba", "attention", "mamba"] * 2, position_embedding_type="nope",
        attention_multiplier=0.015625, embedding_multiplier=12, residual_multiplier=0.22, logits_scaling=6,
        mamba_n_groups=2, mamba_d_state=16, mamba_d_head=16, mamba_d_conv=3, mamba_proj_bias=True,
        shared_intermediate_size=40, rope_theta=10000, rope_scaling=None, num_experts_per_tok=0),
    "granite4, newer style": dict(
        GRANITE4, layer_types=["linear_attention", "full_attention", "full_attention"] * 2,
        position_embedding_type="rope", attention_bias=True, mamba_conv_bias=False, mamba_expand=4,
        time_step_limit=[0.0, {"__float__": "Infinity"}], rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
    "granite4, layers_block_type, attention alone": dict(
        without(GRANITE4, "mamba_n_heads"), hidden_size=64, layers_block_type=["attention"] * 6,
        position_embedding_type="rope", tie_word_embeddings=True, mamba_d_head="auto"),
    "granite4, experts": dict(
        GRANITE4, layer_types=["mamba", "attention"] * 3, num_local_experts=5, num_experts_per_tok=3,
        shared_intermediate_size=24),
    "granite4, defaults": without(
        dict(GRANITE4, hidden_size=64, layer_types=["mamba", "attention"] * 3), "mamba_n_heads", "vocab_size",
        "num_key_value_heads", "max_position_embeddings", "bos_token_id", "eos_token_id"),
    "deepseek-v2": dict(
        DEEPSEEK2, q_lora_rank=24, topk_method="group_limited_greedy", n_group=3, topk_group=2,
        routed_scaling_factor=16.0, attention_bias=True, n_shared_experts=1),
    "deepseek-v2, no latents of queries, older style": dict(
        DEEPSEEK2, q_lora_rank=None, max_position_embeddings=163840, rope_theta=10000, topk_method="greedy", n_group=1,
        topk_group=1, scoring_func="softmax", moe_layer_freq=1, norm_topk_prob=False,
        rope_scaling={
            "type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707, "beta_fast": 32, "beta_slow": 1,
            "original_max_position_embeddings": 4096}),
    "deepseek-v2, defaults": dict(
        {
            k: DEEPSEEK2[k]
            for k in (
                "model_type", "architectures", "num_hidden_layers", "hidden_size", "intermediate_size",
                "num_attention_heads", "num_experts_per_tok", "first_k_dense_replace")},
        moe_intermediate_size=8),
    "deepseek-v3": dict(
        DEEPSEEK3, q_lora_rank=24, n_group=1, topk_group=1, norm_topk_prob=False, rope_interleave=False,
        attention_bias=True, n_shared_experts=3, tie_word_embeddings=True),
    "deepseek-v3, yarn": dict(
        DEEPSEEK3, q_lora_rank=None, n_group=3, topk_group=1, max_position_embeddings=163840, scoring_func="sigmoid",
        topk_method="noaux_tc",
        rope_scaling={
            "rope_type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.5, "beta_fast": 32, "beta_slow": 1,
            "original_max_position_embeddings": 4096}),
    "deepseek-v3, defaults": dict(
        {
            k: DEEPSEEK3[k]
            for k in ("model_type", "architectures", "num_hidden_layers", "hidden_size", "intermediate_size")},
        moe_intermediate_size=8, vocab_size=64, num_attention_heads=4, num_key_value_heads=4),
    "olmo3": OLMO3,
    "olmo3, older style": dict(
        OLMO3, sliding_window=16, max_position_embeddings=65536, rope_theta=5e5,
        rope_scaling={
            "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192, "attention_factor": 1.2,
            "beta_fast": 32, "beta_slow": 1}),
    "olmo3, layer types": dict(
        OLMO3, sliding_window=16, attention_bias=True, layer_types=["full_attention", "sliding_attention"] * 3),
    "glm4": dict(GLM4, head_dim=8),
    "glm4, no bias, partial": dict(GLM4, head_dim=16, attention_bias=False, partial_rotary_factor=0.25, rope_theta=1e6),
    "glm4, defaults": {
        k: dict(GLM4, vocab_size=151552)[k]
        for k in (
            "model_type", "architectures", "num_hidden_layers", "hidden_size", "intermediate_size",
            "num_attention_heads", "vocab_size")},
    "ministral": dict(MINISTRAL, head_dim=8),
    "ministral, layer types": dict(
        MINISTRAL, head_dim=16, sliding_window=16,
        layer_types=["sliding_attention", "full_attention", "full_attention"] * 2),
    "ministral, window null": dict(MINISTRAL, head_dim=8, sliding_window=None),
    "starcoder2": STARCODER2,
    "starcoder2, window, no biases": dict(
        STARCODER2, sliding_window=16, use_bias=False, norm_epsilon=1e-6, tie_word_embeddings=False),
    "starcoder2, defaults": without(
        dict(STARCODER2, vocab_size=50304), "num_key_value_heads", "max_position_embeddings", "bos_token_id",
        "eos_token_id"),
    "stablelm": dict(STABLELM, hidden_size=64),
    "stablelm, biases, older style": dict(
        STABLELM, hidden_size=64, use_qkv_bias=True, partial_rotary_factor=0.5, rope_theta=1e5, layer_norm_eps=1e-6),
    "ernie": dict(ERNIE, head_dim=16),
    "ernie, biases, older style": dict(ERNIE, head_dim=16, use_bias=True, rope_theta=1e4, tie_word_embeddings=False),
    "ernie, defaults": {
        k: dict(ERNIE, vocab_size=103424)[k]
        for k in (
            "model_type", "architectures", "num_hidden_layers", "hidden_size", "intermediate_size",
            "num_attention_heads", "vocab_size")},
    "seed-oss": dict(SEED_OSS, head_dim=16),
    "seed-oss, other biases": dict(
        SEED_OSS, head_dim=16, attention_bias=False, attention_out_bias=True, mlp_bias=True, rope_theta=1e7),
    "seed-oss, defaults": {
        k: dict(SEED_OSS, vocab_size=155136, num_attention_heads=8)[k]
        for k in (
            "model_type", "architectures", "num_hidden_layers", "hidden_size", "intermediate_size",
            "num_attention_heads", "vocab_size")},
    "glm4-moe": dict(
        GLM4_MOE, head_dim=24, attention_bias=True, use_qk_norm=True, n_group=3, topk_group=2, first_k_dense_replace=3,
        routed_scaling_factor=2.5, norm_topk_prob=False, n_shared_experts=2, max_position_embeddings=202752,
        partial_rotary_factor=0.5, rope_theta=1e6, rope_scaling=None),
    "glm4-moe, defaults": dict(
        {
            k: GLM4_MOE[k]
            for k in ("model_type", "architectures", "num_hidden_layers", "hidden_size", "intermediate_size")},
        moe_intermediate_size=8, vocab_size=64, num_attention_heads=8),
    "lfm2-moe": dict(
        LFM2_MOE, routed_scaling_factor=1.5, norm_topk_prob=False, use_expert_bias=False, num_dense_layers=1,
        tie_embedding=False, norm_eps=1e-6, rope_theta=2e6, conv_L_cache=4),
    "lfm2-moe, defaults": without(
        dict(LFM2_MOE, hidden_size=64, num_attention_heads=8), "vocab_size", "num_key_value_heads",
        "max_position_embeddings", "bos_token_id", "eos_token_id", "num_experts_per_tok"),
    "lfm2": dict(LFM2, layer_types=["full_attention", "conv", "conv"] * 2, block_multiple_of=8),
    "lfm2, older style": dict(
        LFM2, full_attn_idxs=[2, 5], block_ff_dim=100, block_ffn_dim_multiplier=1.5, block_multiple_of=16,
        conv_L_cache=4, norm_eps=1e-6, rope_theta=1e5, tie_embedding=False),
    "lfm2, widths as they are": dict(LFM2, full_attn_idxs=[1], block_auto_adjust_ff_dim=False),
    "lfm2, defaults": without(
        dict(LFM2, hidden_size=64, num_attention_heads=8, intermediate_size=96), "vocab_size", "num_key_value_heads",
        "max_position_embeddings", "bos_token_id", "eos_token_id"),
    "qwen35": dict(
        QWEN35, head_dim=16, linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=8,
        linear_value_head_dim=12, linear_conv_kernel_dim=3, layer_types=["linear_attention", "full_attention"] * 3,
        rope_parameters={
            "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1],
            "mrope_interleaved": True}),
    "qwen35, interval": dict(QWEN35, full_attention_interval=3, tie_word_embeddings=True, rope_theta=1e6),
    "qwen35, layer 0 attends": dict(QWEN35, layer_types=["full_attention", "linear_attention"] * 3, head_dim=8),
    "qwen35, defaults": without(
        QWEN35, "vocab_size", "num_key_value_heads", "max_position_embeddings", "bos_token_id", "eos_token_id"),
    "qwen35-moe": dict(
        without(QWEN35_MOE, "intermediate_size"), head_dim=16, linear_num_key_heads=2, linear_num_value_heads=6,
        linear_key_head_dim=8, linear_value_head_dim=12, moe_intermediate_size=20, shared_expert_intermediate_size=24,
        layer_types=["linear_attention", "full_attention"] * 3),
    "qwen35-moe, defaults": without(
        QWEN35_MOE, "num_key_value_heads", "max_position_embeddings", "bos_token_id", "eos_token_id"),
    "qwen3-next": dict(
        QWEN3_NEXT, head_dim=16, linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=8,
        linear_value_head_dim=12, moe_intermediate_size=20, shared_expert_intermediate_size=24, rope_theta=1e7,
        partial_rotary_factor=0.5, decoder_sparse_step=2, tie_word_embeddings=True),
    "qwen3-next, defaults": without(
        QWEN3_NEXT, "num_key_value_heads", "max_position_embeddings", "bos_token_id", "eos_token_id"),
    "olmo2, defaults": without(
        dict(OLMO2, vocab_size=50304), "num_key_value_heads", "max_position_embeddings", "bos_token_id",
        "eos_token_id"),
    "gpt-oss, defaults": without(
        dict(GPT_OSS, num_hidden_layers=3), "num_key_value_heads", "max_position_embeddings", "bos_token_id",
        "eos_token_id")
    | {"num_attention_heads": 8},
    "gpt-oss, as published": dict(
        GPT_OSS, head_dim=8, sliding_window=16, num_experts_per_tok=3, experts_per_token=3, swiglu_limit=7.0,
        rope_theta=150000, initial_context_length=4096,
        rope_scaling={
            "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
            "rope_type": "yarn", "truncate": False}),
    "gpt-oss, layer types, theta alone, no biases": dict(
        GPT_OSS, head_dim=8, attention_bias=False, rope_theta=1e5,
        layer_types=["full_attention", "full_attention", "sliding_attention"] * 2),
    "olmo2, biases, theta": dict(OLMO2, attention_bias=True, rope_theta=500000.0, tie_word_embeddings=True),
}


def stored(name, kind):
    """What checkpoints call a tensor of a model."""
    if kind.startswith("granitemoe"):
        for module, own in {
            "experts.gate_up_proj": "input_linear.weight", "experts.down_proj": "output_linear.weight",
            "router.weight": "router.layer.weight"}.items():
            name = name.replace(f"block_sparse_moe.{module}", f"block_sparse_moe.{own}")
    return name.replace("embedding_norm", "norm")


def special(x):
    """Infinity, as transformers writes it."""
    return float(x["__float__"]) if "__float__" in x else x


def resolve(config):
    parsed = AutoConfig.for_model(
        config["model_type"], **without(json.loads(json.dumps(config), object_hook=special), "model_type"))
    parsed.allow_global_per_layer_attribute_access = True  # of gemma4
    model = AutoModelForCausalLM.from_config(parsed, attn_implementation="eager")
    # Layers without attention have the scale of those with it, which nothing reads, and no rope.
    attentions = [getattr(layer, "self_attn", None) for layer in model.model.layers]
    other = next(a for a in attentions if a is not None)
    attends = [a is not None and getattr(model.model, "rotary_emb", a) is not None for a in attentions]
    attentions = [a or other for a in attentions]
    windows = []
    for a in attentions:
        window = getattr(a, "sliding_window", None)
        if config["model_type"] in ("mistral", "phi3", "starcoder2"):
            window = parsed.sliding_window
        windows.append(window or 0)
    rotary = getattr(model.model, "rotary_emb", None) or getattr(model.model, "pos_emb", None)
    rotary = rotary or GraniteMoeHybridRotaryEmbedding(parsed)
    full, local = (getattr(rotary, f"{kind}_inv_freq", None) for kind in ("full_attention", "sliding_attention"))
    local = {} if local is None else {"local_inv_freq": local.to(torch.float32).tolist()}
    more = {}
    if parsed.model_type.startswith("granite"):
        more["multipliers"] = [parsed.embedding_multiplier, parsed.residual_multiplier, parsed.logits_scaling]
    if parsed.model_type == "gemma4_text":
        kinds, modes = parsed.layer_types, parsed.kv_sharing_modes
        owners = {kind: i for i, (kind, mode) in enumerate(zip(kinds, modes)) if mode == "store"}
        more["layers"] = [dict(head_dim=a.head_dim, kv_heads=parsed.num_attention_heads // a.num_key_value_groups,
                               kv_from=owners[kinds[i]] if modes[i] == "reuse" else i,
                               width=model.model.layers[i].mlp.intermediate_size)
                          for i, a in enumerate(attentions)]
    kv_heads, head_dim = parsed.num_key_value_heads, getattr(attentions[0], "head_dim", None)
    if parsed.model_type.startswith("deepseek"):  # what a token keeps is for all heads
        kv_heads, head_dim = 1, parsed.kv_lora_rank + parsed.qk_rope_head_dim
        grouped = parsed.model_type == "deepseek_v3" or parsed.topk_method == "group_limited_greedy"
        more["experts"] = dict(
            count=parsed.n_routed_experts, chosen=parsed.num_experts_per_tok, size=parsed.moe_intermediate_size,
            shared=parsed.n_shared_experts * parsed.moe_intermediate_size, scale=parsed.routed_scaling_factor,
            renormalize=parsed.norm_topk_prob, groups=parsed.n_group if grouped else 0,
            chosen_groups=parsed.topk_group if grouped else 0,
            sigmoid=parsed.model_type == "deepseek_v3", choice=parsed.model_type == "deepseek_v3",
            layers=[hasattr(layer.mlp, "experts") for layer in model.model.layers])
    if parsed.model_type == "glm4_moe":
        more["experts"] = dict(
            count=parsed.n_routed_experts, chosen=parsed.num_experts_per_tok, size=parsed.moe_intermediate_size,
            shared=parsed.n_shared_experts * parsed.moe_intermediate_size, scale=parsed.routed_scaling_factor,
            renormalize=parsed.norm_topk_prob, groups=parsed.n_group, chosen_groups=parsed.topk_group,
            sigmoid=True, choice=True,
            layers=[hasattr(layer.mlp, "experts") for layer in model.model.layers])
    if parsed.model_type == "lfm2_moe":
        more["experts"] = dict(
            count=parsed.num_experts, chosen=parsed.num_experts_per_tok, size=parsed.moe_intermediate_size, shared=0,
            scale=parsed.routed_scaling_factor, renormalize=parsed.norm_topk_prob, groups=0, chosen_groups=0,
            sigmoid=True, choice=parsed.use_expert_bias,
            layers=[hasattr(layer.feed_forward, "experts") for layer in model.model.layers])
    if getattr(rotary, "rope_type", None) == "longrope":
        more["long_inv_freq"] = ROPE_INIT_FUNCTIONS["longrope"](
            parsed, seq_len=parsed.original_max_position_embeddings + 1)[0].tolist()
    eos = parsed.eos_token_id
    return {
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "max_position_embeddings": parsed.max_position_embeddings,
        "rms_norm_eps": next(
            getattr(parsed, key) for key in ("norm_eps", "norm_epsilon", "layer_norm_eps", "rms_norm_eps")
            if hasattr(parsed, key)),
        "windows": windows,
        "no_rope": [not (attends[i] and getattr(a, "use_rope", 1)) for i, a in enumerate(attentions)],
        "scales": [a.scaling for a in attentions],
        "score_caps": [config["model_type"] == "gemma2" and a.attn_logit_softcapping or 0 for a in attentions],
        "logit_cap": getattr(parsed, "final_logit_softcapping", None) or 0,
        "tied": bool(parsed.tie_word_embeddings),
        "bos": -1 if parsed.bos_token_id is None else parsed.bos_token_id,
        "eos": [] if eos is None else eos if isinstance(eos, list) else [eos],
        "inv_freq": (rotary.inv_freq if full is None else full).to(torch.float32).tolist(), **local,
        "attention_factor": float(
            rotary.attention_scaling if full is None else rotary.full_attention_attention_scaling),
        **more,
        "tensors": {stored(name, parsed.model_type): [n for n in x.shape if n != 1 or x.dim() < 3] for name,
                    x in model.state_dict().items()
                    if (".layers." not in name or ".layers.0." in name)
                    and not (parsed.tie_word_embeddings and name == "lm_head.weight")},
    }


def main():
    cases = []
    for name, config in CASES.items():
        print(name)
        cases.append(json.dumps({"name": name, "config": config, "want": resolve(config)}))
    Path(sys.argv[1]).write_text("[\n" + ",\n".join(cases) + "\n]\n")


main()
