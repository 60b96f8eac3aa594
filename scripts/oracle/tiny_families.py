"""The configs of the tiny checkpoints that make_tiny_models.py writes, as (class of the config, seed, values) by name:
of dense models that attend in all layers here, and those of tiny_mixtures.py and tiny_states.py."""

from tiny_mixtures import MIXTURES
from tiny_states import STATES

# 160 positions: the longest golden prompt (128) and 32 new tokens fill the model exactly.
COMMON = dict(
    vocab_size=256,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=160,
    rms_norm_eps=1e-5,
    tie_word_embeddings=False,
    bos_token_id=1,
    eos_token_id=None,
    pad_token_id=None,
)

LLAMA3_ROPE = dict(
    rope_type="llama3",
    rope_theta=500000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)

LLAMA3 = dict(
    num_key_value_heads=1,
    num_hidden_layers=3,
    rms_norm_eps=1e-5,
    rope_parameters=dict(rope_type="default", rope_theta=500000.0),
)

GEMMA3 = dict(
    num_key_value_heads=2,
    num_hidden_layers=4,
    head_dim=16,
    query_pre_attn_scalar=24,
    sliding_window=16,
    layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
    tie_word_embeddings=True,
    rms_norm_eps=1e-6,
    rope_parameters=dict(
        sliding_attention=dict(rope_type="default", rope_theta=100.0),
        full_attention=dict(rope_type="linear", rope_theta=10000.0, factor=2.5),
    ),
)
# Layers 4 and 5 attend to the keys and values of layers 2 and 3, and have a feed-forward twice as wide.
GEMMA4 = dict(
    num_key_value_heads=2,
    num_hidden_layers=6,
    head_dim=8,
    global_head_dim=16,
    sliding_window=16,
    layer_types=["sliding_attention", "full_attention"] * 3,
    num_kv_shared_layers=2,
    use_double_wide_mlp=True,
    hidden_size_per_layer_input=8,
    vocab_size_per_layer_input=256,
    final_logit_softcapping=4.0,
    tie_word_embeddings=True,
    rms_norm_eps=1e-6,
    rope_parameters=dict(
        sliding_attention=dict(rope_type="default", rope_theta=100.0),
        full_attention=dict(rope_type="proportional", rope_theta=10000.0, partial_rotary_factor=0.5),
    ),
)
TINY_VISION = {
    "gemma3": dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, image_size=28),
    "gemma4": dict(
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=8,
        position_embedding_size=8,
    ),
}

# name -> (model_type, seed, settings over COMMON)
FAMILIES = MIXTURES | STATES | {
    "llama2": ("llama", 1, dict(num_key_value_heads=4, rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    "llama3": ("llama", 2, LLAMA3 | dict(eos_token_id=48)),
    "llama3-bf16": ("llama", 2, LLAMA3),
    "llama3-sharded": ("llama", 2, LLAMA3),
    "llama31": ("llama", 3, dict(num_key_value_heads=2, rope_parameters=LLAMA3_ROPE)),
    "llama32-tied": (
        "llama",
        4,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=3,
            tie_word_embeddings=True,
            rope_parameters=LLAMA3_ROPE | dict(factor=32.0),
        ),
    ),
    "llama-linear": (
        "llama",
        5,
        dict(num_key_value_heads=2, rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.5)),
    ),
    "llama-yarn": (
        "llama",
        6,
        dict(
            num_key_value_heads=2,
            head_dim=16,
            rope_parameters=dict(
                rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=40
            ),
        ),
    ),
    "llama-bias": (
        "llama",
        7,
        dict(
            num_key_value_heads=2,
            attention_bias=True,
            mlp_bias=True,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    "mistral": (
        "mistral",
        8,
        dict(
            num_key_value_heads=2,
            head_dim=16,
            sliding_window=16,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    # sliding_window is present and switched off here, as in the published Qwen2.5 checkpoints.
    "qwen2": (
        "qwen2",
        9,
        dict(
            num_key_value_heads=2,
            rms_norm_eps=1e-6,
            use_sliding_window=False,
            sliding_window=16,
            max_window_layers=1,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
        ),
    ),
    "qwen2-sliding": (
        "qwen2",
        10,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=3,
            rms_norm_eps=1e-6,
            use_sliding_window=True,
            sliding_window=16,
            max_window_layers=1,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
        ),
    ),
    "qwen3": (
        "qwen3",
        11,
        dict(
            num_key_value_heads=2,
            head_dim=16,
            rms_norm_eps=1e-6,
            rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
        ),
    ),
    # The shape of SmolLM2-135M in small: 9 heads over 3 KV heads, tied.
    "smollm2-like": (
        "llama",
        12,
        dict(
            hidden_size=72,
            num_attention_heads=9,
            num_key_value_heads=3,
            tie_word_embeddings=True,
            rope_parameters=dict(rope_type="default", rope_theta=100000.0),
        ),
    ),
    "smollm3": (
        "smollm3",
        13,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=4,
            tie_word_embeddings=True,
            no_rope_layer_interval=2,
            rms_norm_eps=1e-6,
            rope_parameters=dict(rope_type="default", rope_theta=2000000.0),
        ),
    ),
    # Soft caps far below the published 50 and 30, so that they show in a model this small.
    "gemma2": (
        "gemma2",
        14,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=3,
            head_dim=16,
            query_pre_attn_scalar=24,
            sliding_window=16,
            attn_logit_softcapping=3.0,
            final_logit_softcapping=4.0,
            tie_word_embeddings=True,
            rms_norm_eps=1e-6,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    "olmo2": (
        "olmo2",
        15,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=3,
            rms_norm_eps=1e-6,
            rope_parameters=dict(rope_type="default", rope_theta=500000.0),
        ),
    ),
    # The rope of the layers without a window is scaled, as in Gemma 3 4B and larger.
    "gemma3": ("gemma3_text", 16, GEMMA3),
    # The same inside a config that also has pictures.
    "gemma3-vision": ("gemma3", 16, GEMMA3),
    "gemma4": ("gemma4_text", 50, GEMMA4),
    "gemma4-vision": ("gemma4", 60, GEMMA4 | dict(pad_token_id=0)),
    # Like the larger ones: values are keys before their norm, and layers without a window have fewer KV heads.
    "gemma4-large": (
        "gemma4_text",
        53,
        GEMMA4
        | dict(
            num_hidden_layers=4,
            layer_types=["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
            num_global_key_value_heads=1,
            attention_k_eq_v=True,
            num_kv_shared_layers=0,
            use_double_wide_mlp=False,
            hidden_size_per_layer_input=0,
            final_logit_softcapping=None,
        ),
    ),
    # A mixture alongside each feed-forward.
    "gemma4-moe": (
        "gemma4_text",
        61,
        GEMMA4
        | dict(
            num_hidden_layers=3,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            num_global_key_value_heads=1,
            attention_k_eq_v=True,
            num_kv_shared_layers=0,
            use_double_wide_mlp=False,
            hidden_size_per_layer_input=0,
            enable_moe_block=True,
            num_experts=6,
            top_k_experts=3,
            moe_intermediate_size=20,
        ),
    ),
    # Two lists of divisors, the short ones of which apply: the model has as many positions as before the extension.
    "phi3": (
        "phi3",
        17,
        dict(
            num_key_value_heads=2,
            sliding_window=16,
            original_max_position_embeddings=160,
            rope_parameters=dict(
                rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.3, 1.8],
                long_factor=[1.5, 2.0, 4.0, 9.0]
            ),
        ),
    ),
    # And here the long ones, for prompts longer than 32.
    "phi4-mini": (
        "phi3",
        18,
        dict(
            hidden_size=64,
            num_key_value_heads=2,
            num_hidden_layers=2,
            tie_word_embeddings=True,
            original_max_position_embeddings=32,
            rope_parameters=dict(
                rope_type="longrope",
                rope_theta=10000.0,
                partial_rotary_factor=0.75,
                short_factor=[1.0, 1.1, 1.2, 1.3, 1.5, 1.8],
                long_factor=[1.2, 1.5, 2.0, 4.0, 9.0, 20.0],
            ),
        ),
    ),
    "granite": (
        "granite",
        19,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=3,
            tie_word_embeddings=True,
            embedding_multiplier=6.0,
            attention_multiplier=0.25,
            residual_multiplier=0.4,
            logits_scaling=0.25,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    "olmo3": (
        "olmo3",
        20,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=4,
            sliding_window=16,
            rms_norm_eps=1e-6,
            rope_parameters=dict(
                sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                full_attention=dict(
                    rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=40
                ),
            ),
        ),
    ),
    "glm4": (
        "glm4",
        21,
        dict(
            num_key_value_heads=2,
            head_dim=16,
            eos_token_id=[48, 50],
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5),
        ),
    ),
    "ministral": (
        "ministral",
        22,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=3,
            head_dim=16,
            sliding_window=16,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    "starcoder2": (
        "starcoder2",
        23,
        dict(
            num_key_value_heads=2,
            num_hidden_layers=3,
            sliding_window=16,
            norm_epsilon=1e-5,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
    "stablelm": (
        "stablelm",
        24,
        dict(
            hidden_size=64,
            num_key_value_heads=2,
            use_qkv_bias=True,
            layer_norm_eps=1e-5,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25),
        ),
    ),
    "ernie": (
        "ernie4_5",
        25,
        dict(
            num_key_value_heads=2,
            head_dim=16,
            use_bias=True,
            tie_word_embeddings=True,
            rope_parameters=dict(rope_type="default", rope_theta=500000.0),
        ),
    ),
    "seed-oss": (
        "seed_oss",
        26,
        dict(
            num_key_value_heads=2,
            head_dim=16,
            rms_norm_eps=1e-6,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        ),
    ),
}

# As in Llama 3 Instruct, generation_config.json names more end-of-sequence ids than config.json does.
GENERATION_EOS = {"llama3": [48, 50]}
BF16 = {"llama3-bf16"}
# name -> the family whose config is its text_config
NESTED = {"gemma3-vision": "gemma3", "gemma4-vision": "gemma4"}
# The experts of a layer are in two tensors, as they are published; transformers writes some for each.
FUSED = {"qwen35-moe"}
SHARDED = {"llama3-sharded": 3}
CLASSIC = {"llama2", "llama32-tied", "llama-linear", "qwen2"}
