"""The tiny checkpoints of models with layers that keep a state in place of keys and values: see tiny_families.py."""

# Two value heads for each key head; half of each head of attention is rotated.
QWEN35 = dict(
    num_key_value_heads=2,
    num_hidden_layers=4,
    head_dim=16,
    layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"],
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=8,
    linear_value_head_dim=12,
    linear_conv_kernel_dim=4,
    rms_norm_eps=1e-6,
    rope_parameters=dict(rope_type="default", rope_theta=100.0, partial_rotary_factor=0.5),
)

# name -> (model_type, seed, settings over COMMON)
STATES = {
    "qwen35": ("qwen3_5_text", 41, QWEN35),
    "qwen35-moe": (
        "qwen3_5_moe_text",
        42,
        QWEN35
        | dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20, shared_expert_intermediate_size=24),
    ),
    # All inputs of a delta net are in two matrices, by key heads. One layer has no experts.
    "qwen3-next": (
        "qwen3_next",
        44,
        QWEN35
        | dict(
            num_experts=5,
            num_experts_per_tok=2,
            moe_intermediate_size=20,
            shared_expert_intermediate_size=28,
            norm_topk_prob=True,
            mlp_only_layers=[1],
        ),
    ),
    # Two groups of two heads; bounds of steps, which transformers ignores with a cache (see logits_goldens.py).
    "granite4": (
        "granitemoehybrid",
        42,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=4,
            layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"],
            num_local_experts=0,
            num_experts_per_tok=0,
            shared_intermediate_size=48,
            mamba_n_heads=4,
            mamba_n_groups=2,
            mamba_d_state=8,
            mamba_d_conv=4,
            mamba_proj_bias=True,
            time_step_limit=(0.4, 1.2),
            tie_word_embeddings=True,
            embedding_multiplier=6.0,
            attention_multiplier=0.25,
            residual_multiplier=0.4,
            logits_scaling=0.25,
        ),
    ),
    "granite4-moe": (
        "granitemoehybrid",
        44,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=3,
            layer_types=["linear_attention", "full_attention", "linear_attention"],
            intermediate_size=20,
            shared_intermediate_size=24,
            num_local_experts=6,
            num_experts_per_tok=3,
            mamba_n_heads=8,
            mamba_d_state=16,
            tie_word_embeddings=True,
            embedding_multiplier=6.0,
            attention_multiplier=0.25,
            residual_multiplier=0.4,
            logits_scaling=0.25,
        ),
    ),
    "granite4-dense": (
        "granitemoehybrid",
        43,
        dict(
            num_key_value_heads=2,
            layer_types=["full_attention"] * 2,
            num_local_experts=0,
            num_experts_per_tok=0,
            shared_intermediate_size=40,
            mamba_n_heads=4,
            attention_bias=True,
            position_embedding_type="rope",
            embedding_multiplier=6.0,
            attention_multiplier=0.25,
            residual_multiplier=0.4,
            logits_scaling=0.25,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    # The width of the feed-forward is 48 after it is reduced: 2/3 of 60, rounded up to a multiple of 16.
    "lfm2": (
        "lfm2",
        40,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=5,
            layer_types=["conv", "conv", "full_attention", "conv", "full_attention"],
            intermediate_size=60,
            block_multiple_of=16,
            tie_word_embeddings=True,
            norm_eps=1e-5,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    # Experts after the first layer, chosen by sigmoids and a number for each.
    "lfm2-moe": (
        "lfm2_moe",
        41,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=4,
            layer_types=["conv", "full_attention", "conv", "full_attention"],
            intermediate_size=48,
            moe_intermediate_size=20,
            num_dense_layers=1,
            num_experts=6,
            num_experts_per_tok=3,
            routed_scaling_factor=1.7,
            tie_word_embeddings=True,
            norm_eps=1e-5,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
}
