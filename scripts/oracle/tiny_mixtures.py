"""The tiny checkpoints of models with experts whose layers all attend: see tiny_families.py."""

# Latent attention: heads of 8 + 8 for scores and of 12 for values, made from latents of 16. Experts after the first
# layer.
DEEPSEEK = dict(
    num_key_value_heads=4,
    num_hidden_layers=3,
    kv_lora_rank=16,
    qk_nope_head_dim=8,
    qk_rope_head_dim=8,
    v_head_dim=12,
    n_routed_experts=9,
    num_experts_per_tok=3,
    moe_intermediate_size=20,
    n_shared_experts=2,
    first_k_dense_replace=1,
    rms_norm_eps=1e-6,
)
DEEPSEEK_ROPE = dict(
    rope_type="yarn",
    rope_theta=10000.0,
    factor=4.0,
    mscale=0.5,
    mscale_all_dim=1.2,
    original_max_position_embeddings=40,
)

# name -> (model_type, seed, settings over COMMON)
MIXTURES = {
    "qwen3-moe": (
        "qwen3_moe",
        30,
        dict(
            num_hidden_layers=3,
            num_key_value_heads=2,
            head_dim=16,
            num_experts=6,
            num_experts_per_tok=3,
            moe_intermediate_size=20,
            norm_topk_prob=True,
            mlp_only_layers=[1],
            rms_norm_eps=1e-6,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
        ),
    ),
    "mixtral": (
        "mixtral",
        31,
        dict(
            num_key_value_heads=2,
            num_local_experts=5,
            num_experts_per_tok=2,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
        ),
    ),
    "olmoe": (
        "olmoe",
        32,
        dict(
            num_key_value_heads=4,
            num_experts=6,
            num_experts_per_tok=3,
            norm_topk_prob=False,
            intermediate_size=20,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    # Sizes of whole blocks of MXFP4: the experts' weights are such numbers (see gguf_goldens.py).
    "gpt-oss": (
        "gpt_oss",
        33,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=3,
            head_dim=16,
            intermediate_size=32,
            sliding_window=16,
            num_local_experts=6,
            num_experts_per_tok=3,
            eos_token_id=[48, 50],
            rope_parameters=dict(
                rope_type="yarn", rope_theta=150000.0, factor=4.0, original_max_position_embeddings=40, truncate=False
            ),
        ),
    ),
    "granite-moe": (
        "granitemoe",
        34,
        dict(
            num_key_value_heads=2,
            intermediate_size=20,
            num_local_experts=6,
            num_experts_per_tok=3,
            tie_word_embeddings=True,
            embedding_multiplier=6.0,
            attention_multiplier=0.25,
            residual_multiplier=0.4,
            logits_scaling=0.25,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    "granite-moe-shared": (
        "granitemoeshared",
        35,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=3,
            intermediate_size=20,
            shared_intermediate_size=24,
            num_local_experts=5,
            num_experts_per_tok=2,
            tie_word_embeddings=True,
            embedding_multiplier=6.0,
            attention_multiplier=0.25,
            residual_multiplier=0.4,
            logits_scaling=0.25,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    # Experts in two of three groups.
    "deepseek-v2": (
        "deepseek_v2",
        70,
        DEEPSEEK
        | dict(
            q_lora_rank=20,
            attention_bias=True,
            topk_method="group_limited_greedy",
            n_group=3,
            topk_group=2,
            routed_scaling_factor=2.2,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    # No latents of queries, no groups; yarn whose factors of scores and of cosines differ.
    "deepseek-v2-lite": (
        "deepseek_v2",
        71,
        DEEPSEEK
        | dict(q_lora_rank=None, topk_method="greedy", routed_scaling_factor=1.5, rope_parameters=DEEPSEEK_ROPE),
    ),
    "deepseek-v3": (
        "deepseek_v3",
        72,
        DEEPSEEK
        | dict(
            q_lora_rank=20,
            n_group=3,
            topk_group=2,
            routed_scaling_factor=1.8,
            norm_topk_prob=True,
            rope_parameters=DEEPSEEK_ROPE | dict(mscale=1.3, mscale_all_dim=0.6),
        ),
    ),
    # Heads half of which is rotated, experts in two of three groups.
    "glm4-moe": (
        "glm4_moe",
        73,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=3,
            head_dim=16,
            attention_bias=True,
            use_qk_norm=True,
            n_routed_experts=9,
            num_experts_per_tok=3,
            moe_intermediate_size=20,
            n_shared_experts=1,
            first_k_dense_replace=1,
            n_group=3,
            topk_group=2,
            routed_scaling_factor=1.8,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5),
        ),
    ),
}
