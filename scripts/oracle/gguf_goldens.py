#!/usr/bin/env python3
"""Golden files for package models and its GGUF and safetensors readers.

    gguf_goldens.py TESTDATA_MODELS SMOLLM2.gguf OUT
    gguf_goldens.py testdata/models ~/.cache/quire/models/SmolLM2-135M-Instruct.Q4_1.gguf models/testdata

Writes, all with other people's writers and decoders (packages gguf, safetensors, torch, transformers):
  types.gguf            for each block type T: tensor T of random blocks and T.expected (F32) as gguf.quants decodes it;
                        metadata of every value type
  ../gguf/grids.bin     the tables of the IQ types, as the gguf package has them
  dtypes.safetensors    f32, bf16, f16 tensors of awkward values and X.to.Y (stored as integers) as torch converts them
  NAME.gguf             tiny checkpoints of TESTDATA_MODELS in F16, converted as llama.cpp's convert_hf_to_gguf does
  gpt-oss-mxfp4/        the tiny gpt-oss with its experts as they are published, in MXFP4
  split/                one of them in several files, the first of which has only metadata
  smollm2.json          SHA-256 and first values of every tensor of SMOLLM2.gguf as transformers loads it (float32)
"""
import hashlib, json, math, sys
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import quants
from gguf.quants import dequantize
from safetensors.torch import load_file, save_file

from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from make_tiny_models import mxfp4

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K",
         "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS", "MXFP4",
         "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"]
# Byte offsets of the float16 fields in a block: random bytes there would be NaNs and infinities.
HALF_FIELDS = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2],
               "Q6_K": [208],
               "Q2_K": [80, 82], "Q3_K": [108], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
               "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": []}


def random_blocks(rng, name, rows, row):
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    if name == "F32":
        return rng.standard_normal((rows, row)).astype(np.float32).view(np.uint8)
    if name == "F16":
        scale = np.exp2(rng.integers(-24, 10, (rows, row)))
        return (rng.standard_normal((rows, row)) * scale).astype(np.float16).view(np.uint8)
    if name == "BF16":
        x = rng.standard_normal((rows, row)).astype(np.float32)
        return (x.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    data = rng.integers(0, 256, (rows * row // block, size), dtype=np.uint8)
    for at in HALF_FIELDS[name]:
        scale = (rng.standard_normal(len(data)) * np.exp2(rng.integers(-20, 4, len(data)))).astype(np.float16)
        data[:, at:at + 2] = scale[:, None].view(np.uint8)
    if name == "IQ1_M":  # its float16 is in the high bits of four numbers
        data[:, -1] &= 0xBF
    return data.reshape(rows, row // block * size)


def write_grids(path):
    tables = [quants.IQ2_XXS, quants.IQ2_XS, quants.IQ2_S, quants.IQ3_XXS, quants.IQ3_S, quants.IQ1_S]
    path.write_bytes(b"".join(bytes.fromhex(table.grid_hex.decode()) for table in tables))


def write_types(path):
    rng = np.random.default_rng(20260711)
    w = gguf.GGUFWriter(path, "test")
    w.add_uint8("v.u8", 250), w.add_int8("v.i8", -6), w.add_uint16("v.u16", 65000), w.add_int16("v.i16", -30000)
    w.add_uint32("v.u32", 4_000_000_000), w.add_int32("v.i32", -2_000_000_000), w.add_float32("v.f32", 0.1)
    w.add_bool("v.bool", True), w.add_string("v.string", "naïve ☕"), w.add_uint64("v.u64", 2**63)
    w.add_int64("v.i64", -2**62), w.add_float64("v.f64", 0.1)
    w.add_array("v.strings", ["a", "", "ß"]), w.add_array("v.ints", [1, -2, 3]), w.add_array("v.floats", [0.5, -1.5])
    for name in TYPES:
        data = random_blocks(rng, name, 1, 512)
        kind = gguf.GGMLQuantizationType[name]
        expected = data.view(np.float16).astype(np.float32) if name == "F16" else dequantize(data, kind)
        if name == "F32":
            expected = data.view(np.float32)
        w.add_tensor(name, data, raw_dtype=kind)
        w.add_tensor(name + ".expected", np.ascontiguousarray(expected, dtype=np.float32))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def write_dtypes(path):
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2**32, 1000, dtype=np.uint64).astype(np.uint32)
    special = np.array([0, 0x80000000, 0x7f800000, 0xff800000, 0x7f7fffff, 1, 0x007fffff, 0x00800000], np.uint32)
    halfway = (np.arange(0x3f80, 0x3f90, dtype=np.uint32) << 16) | 0x8000  # ties of bfloat16
    near_half = np.float32([
        65504, 65519.99, 65520, 65536, 2**-14, 2**-24, 2**-25, 1.5 * 2**-25, 2**-26, 3 * 2**-25, 1 + 2**-11,
        1 + 3 * 2**-11])
    subnormal = (rng.standard_normal(500) * np.exp2(rng.integers(-30, -12, 500))).astype(np.float32)
    f32 = np.concatenate([
        bits.view(np.float32), special.view(np.float32), halfway.view(np.float32), near_half, -near_half, subnormal])
    # NaN payloads are not guaranteed; the Go test checks that NaN stays NaN
    f32 = torch.from_numpy(f32[~np.isnan(f32)].copy())
    sources = {
        "f32": f32,
        "bf16": torch.arange(0, 2**16, 29, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16),
        "f16": torch.arange(0, 2**16, 23, dtype=torch.int32).to(torch.uint16).view(torch.float16),
    }
    kinds = {
        "f32": (torch.float32, torch.int32), "bf16": (torch.bfloat16, torch.int16), "f16": (torch.float16, torch.int16)}
    out = {}
    for a, x in sources.items():
        x = x[~x.isnan()]
        out[a] = x
        for b, (dtype, raw) in kinds.items():
            out[f"{a}.to.{b}"] = x.to(dtype).view(raw).clone()
    save_file(out, path)


def permute(w, heads):
    """LlamaModel.permute of convert_hf_to_gguf: the halves of each head's rows, interleaved."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


WIDE = ("A_log", ".conv.conv.weight", ".linear_attn.conv1d.weight", ".shared_expert_gate.weight")  # F32 in every file
QWEN = ("qwen3next", "qwen35")


def convert(folder, path, arch, extra=None, **split):
    config = json.loads((folder / "config.json").read_text())
    rope = config.get("rope_parameters") or {}
    rope = rope.get("full_attention", rope)
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    partial = rope.get("partial_rotary_factor") or 1
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    theta = rope.get("rope_theta") or config.get("rope_theta")
    if extra == "llama3":
        theta = 500000.0  # as in every Llama 3.1: the longest wavelengths exceed 8192
    w = gguf.GGUFWriter(path, arch, **split)
    w.add_block_count(config["num_hidden_layers"]), w.add_context_length(config["max_position_embeddings"])
    width = config["intermediate_size"]
    if config.get("block_auto_adjust_ff_dim"):
        width = int(config["block_ffn_dim_multiplier"] * int(2 * width / 3))
        width = -(-width // config["block_multiple_of"]) * config["block_multiple_of"]
    if arch == "gemma4":  # of each layer
        sizes = [config["per_layer_config"].get(str(i), {}) for i in range(config["num_hidden_layers"])]
        w.add_key_length_swa(head_dim), w.add_value_length_swa(head_dim), w.add_rope_dimension_count_swa(head_dim)
        head_dim = max(of.get("head_dim", 0) for of in sizes)
        if any("num_key_value_heads" in of for of in sizes):
            kv = [of.get("num_key_value_heads", kv) for of in sizes]
        if config["use_double_wide_mlp"]:
            sharing = config["num_kv_shared_layers"]
            width = [width] * (len(sizes) - sharing) + [2 * width] * sharing
        turned = int(head_dim * partial / 2)
        w.add_tensor("rope_freqs.weight", np.array([1] * turned + [1e30] * (head_dim // 2 - turned), np.float32))
    w.add_embedding_length(config["hidden_size"]), w.add_feed_forward_length(width)
    if arch in ("granitehybrid", "lfm2"):
        kv = [kv * (kind == "full_attention") for kind in config["layer_types"]]
    w.add_head_count(heads), w.add_head_count_kv(kv), w.add_rope_freq_base(theta)
    if arch in ("starcoder2", "stablelm"):
        w.add_layer_norm_eps(config.get("norm_epsilon") or config["layer_norm_eps"])
    else:
        w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    w.add_vocab_size(config["vocab_size"])
    if arch == "lfm2":
        w.add_shortconv_l_cache(config["conv_L_cache"])
    else:
        w.add_key_length(head_dim), w.add_value_length(head_dim)
    if arch == "gemma2":
        w.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        w.add_final_logit_softcapping(config["final_logit_softcapping"])
        w.add_sliding_window(config["sliding_window"])
    if arch == "gemma4":
        w.add_rope_dimension_count(head_dim), w.add_final_logit_softcapping(config["final_logit_softcapping"] or 0)
        w.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"] or 0)
        w.add_shared_kv_layers(config["num_kv_shared_layers"])
    if arch in ("gemma3", "gemma4"):
        w.add_sliding_window(config["sliding_window"])
        w.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
        w.add_rope_freq_base_swa(config["rope_parameters"]["sliding_attention"]["rope_theta"])
    elif arch not in ("gemma2", "lfm2"):
        w.add_rope_dimension_count(int(head_dim * partial))
    if arch == "phi3":
        original = config["original_max_position_embeddings"]
        scale = config["max_position_embeddings"] / original
        w.add_rope_scaling_orig_ctx_len(original), w.add_sliding_window(config["sliding_window"] or 0)
        w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0)
        for kind in ("long", "short"):
            w.add_tensor(f"rope_factors_{kind}.weight", np.array(rope[f"{kind}_factor"], np.float32))
    if arch == "granitehybrid":
        w.add_ssm_conv_kernel(config["mamba_d_conv"]), w.add_ssm_state_size(config["mamba_d_state"])
        w.add_ssm_group_count(config["mamba_n_groups"]), w.add_ssm_time_step_rank(config["mamba_n_heads"])
        w.add_ssm_inner_size(config["mamba_expand"] * config["hidden_size"])
        w.add_rope_scaling_finetuned(False), w.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    if arch.startswith(QWEN):
        w.add_ssm_conv_kernel(config["linear_conv_kernel_dim"]), w.add_ssm_state_size(config["linear_key_head_dim"])
        w.add_ssm_group_count(config["linear_num_key_heads"])
        w.add_ssm_time_step_rank(config["linear_num_value_heads"])
        w.add_ssm_inner_size(config["linear_value_head_dim"] * config["linear_num_value_heads"])
        w.add_array(f"{arch}.attention.recurrent_layers", [t == "linear_attention" for t in config["layer_types"]])
        w.add_full_attention_interval(4)
        if arch != "qwen3next":
            w.add_rope_dimension_sections([11, 11, 10, 0])
        if config.get("shared_expert_intermediate_size"):
            w.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if arch.startswith("granite"):
        w.add_attention_scale(config["attention_multiplier"]), w.add_embedding_scale(config["embedding_multiplier"])
        w.add_residual_scale(config["residual_multiplier"]), w.add_logit_scale(config["logits_scaling"])
    if arch == "gpt-oss":
        w.add_sliding_window(config["sliding_window"]), w.add_expert_feed_forward_length(config["intermediate_size"])
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN), w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        w.add_tokenizer_model("none")
        w.add_token_list([f"<{i}>" for i in range(config["vocab_size"] - 1)] + ["<|call|>"])
    if config.get("shared_intermediate_size"):
        w.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    if experts := config.get("num_local_experts") or config.get("num_experts"):
        w.add_expert_count(experts), w.add_expert_used_count(config["num_experts_per_tok"])
    if config.get("moe_intermediate_size"):
        w.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if arch == "stablelm":
        w.add_parallel_residual(config["use_parallel_residual"])
    if arch == "olmo2" and config.get("sliding_window"):
        w.add_sliding_window(config["sliding_window"])
        w.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN), w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope.get("rope_type") == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR), w.add_rope_scaling_factor(rope["factor"])
    w.add_bos_token_id(1), w.add_eos_token_id(2), w.add_eot_token_id(5)
    if extra == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN), w.add_rope_scaling_factor(4.0)
        w.add_rope_scaling_orig_ctx_len(40)
    if extra == "llama3":
        factors = []
        for i in range(0, head_dim, 2):
            wavelen = 2 * math.pi * theta ** (i / head_dim)
            smooth = (8192 / wavelen - 1) / 3
            factors.append(1 if wavelen < 8192 / 4 else 8 if wavelen > 8192 else 1 / ((1 - smooth) / 8 + smooth))
        w.add_tensor("rope_freqs.weight", np.array(factors, np.float32))
    names = gguf.get_tensor_name_map(
        next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == arch), config["num_hidden_layers"])
    tensors = {name: x.numpy() for name, x in load_file(folder / "model.safetensors").items()}
    if arch == "gpt-oss":
        tensors = dict(oss_tensors(tensors))
    if arch.startswith(QWEN):
        tensors = dict(qwen_tensors(tensors, config, arch))
    if arch == "granitemoe":
        tensors = dict(granite_tensors(tensors))
    if arch == "granitehybrid":
        tensors = dict(hybrid_tensors(dict(granite_tensors(tensors)) if experts else tensors, config["mamba_n_groups"]))
    for name in [name for name in tensors if ".experts.0." in name]:  # one tensor of all experts
        every = [tensors.pop(name.replace(".experts.0.", f".experts.{n}.")) for n in range(experts)]
        tensors[name.replace(".experts.0.", ".experts.")] = np.stack(every)
    # a layer of qwen3moe without experts
    others = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, x in tensors.items():
        turned = arch in ("llama", "smollm3", "granite", "granitemoe", "granitehybrid")
        if turned and (".q_proj." in name or ".k_proj." in name):
            x = permute(x, heads if ".q_proj." in name else config["num_key_value_heads"])
        if arch in ("gemma2", "gemma3") and name.endswith("norm.weight"):
            x = x + 1
        if arch == "gpt-oss" and x.ndim == 3:
            w.add_tensor(names.get_name(name, (".weight",)), ggml_mxfp4(x), raw_dtype=gguf.GGMLQuantizationType.MXFP4)
            continue
        if name.endswith("layer_scalar"):
            name += ".weight"
        stored = names.get_name(name, (".weight", ".bias")) or others.get_name(name, (".weight", ".bias"))
        if ".conv." in name:
            x = x.squeeze()
        wide = arch.startswith(("gemma", "lfm2", *QWEN)) and x.ndim == 1 or name.endswith(WIDE)
        wide = wide or arch.startswith(QWEN) and name.endswith(".mlp.gate.weight")
        w.add_tensor(stored, np.ascontiguousarray(x if wide else x.astype(np.float16)))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def granite_tensors(tensors):
    """GraniteMoeModel.modify_tensors of convert_hf_to_gguf."""
    for name, x in tensors.items():
        if name.endswith("input_linear.weight"):
            of = name.removesuffix("input_linear.weight")
            shared = "shared_mlp" in name
            for part, half in zip(("gate", "up"), np.split(x, 2, axis=-2)):
                yield (
                    f"{of.replace('shared_mlp', 'mlp.shared_expert')}{part}_proj.weight" if shared
                    else f"{of}experts.{part}.weight"), half
        elif name.endswith("output_linear.weight"):
            yield name.replace("block_sparse_moe.output_linear", "block_sparse_moe.experts.down"), x
        else:
            yield name, x


def hybrid_tensors(tensors, groups):
    """modify_tensors of GraniteHybridModel and Mamba2Model."""
    down = "shared_mlp.output_linear" if any(".experts." in name for name in tensors) else "mlp.down_proj"
    for name, x in tensors.items():
        if name.endswith("input_linear.weight"):
            for part, rows in zip(("gate", "up"), np.split(x, 2)):
                yield name.replace("shared_mlp.input_linear", f"mlp.{part}_proj"), rows
        elif name.endswith(("A_log", "mamba.D")):
            yield name, (-np.exp(x) if name.endswith("A_log") else x)[:, None]
        elif name.endswith("dt_bias"):
            yield name.replace("dt_bias", "dt_proj.bias"), x
        elif name.endswith("mamba.norm.weight"):
            yield name, x.reshape(groups, -1)
        else:
            yield name.replace("shared_mlp.output_linear", down), x.squeeze()


def qwen_tensors(tensors, config, arch):
    """modify_tensors of Qwen2MoeModel, Qwen3NextModel and _LinearAttentionVReorderBase."""
    keys, heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    dims = config["linear_key_head_dim"], config["linear_value_head_dim"]

    def tiled(x, dim=1):
        """Rows of value heads: the first head of each key head, then the second ones."""
        if arch == "qwen3next":
            return x
        return x.reshape(keys, heads // keys, dim, -1).swapaxes(0, 1).reshape(x.shape)

    for name, x in tensors.items():
        first = 2 * keys * dims[0]  # of values, after queries and keys
        if name.endswith("in_proj_qkvz.weight"):
            of = [dims[0], dims[0], heads // keys * dims[1], heads // keys * dims[1]]
            q, k, v, z = np.split(x.reshape(keys, sum(of), -1), np.cumsum(of)[:-1], axis=1)
            yield name.replace("qkvz", "qkv"), np.concatenate([part.reshape(-1, x.shape[1]) for part in (q, k, v)])
            yield name.replace("qkvz", "z"), z.reshape(-1, x.shape[1])
        elif name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
            x = x.reshape(x.shape[0], -1)
            yield name, np.concatenate([x[:first], tiled(x[first:], dims[1])])
        elif name.endswith("in_proj_z.weight"):
            yield name, tiled(x, dims[1])
        elif name.endswith(("in_proj_a.weight", "in_proj_b.weight")):
            yield name, tiled(x)
        elif name.endswith("A_log"):
            yield name, tiled(-torch.exp(torch.from_numpy(x)).numpy())
        elif name.endswith("dt_bias"):
            yield name.replace("dt_bias", "dt_proj.bias"), tiled(x)
        elif name.endswith("linear_attn.out_proj.weight"):
            yield name, np.ascontiguousarray(tiled(np.ascontiguousarray(x.T), dims[1]).T)
        elif name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
            yield name, x + 1
        elif name.endswith("experts.gate_up_proj"):
            for part, half in zip(("gate", "up"), np.split(x, 2, axis=1)):
                yield name.replace("gate_up_proj", part + "_proj.weight"), half
        else:
            yield name + ".weight" * name.endswith("experts.down_proj"), x


def oss_tensors(tensors):
    """GptOssModel.modify_tensors of convert_hf_to_gguf."""
    for name, x in tensors.items():
        if name.endswith("sinks"):
            yield name + ".weight", x
        elif "experts." in name:
            name, part = name.rsplit(".", 1)
            kind = "bias" if part.endswith("_bias") else "weight"
            x = x if kind == "bias" else x.swapaxes(1, 2)
            if part.startswith("gate_up"):
                yield f"{name}.gate_proj.{kind}", x[:, ::2]
                yield f"{name}.up_proj.{kind}", x[:, 1::2]
            else:
                yield f"{name}.down_proj.{kind}", x
        else:
            yield name, x


def ggml_mxfp4(x):
    """Blocks of ggml: an exponent, and nibbles; the high ones are the block's second half."""
    rounded, nibbles, exponents = mxfp4(torch.from_numpy(np.ascontiguousarray(x)))
    assert np.array_equal(rounded.numpy(), x)
    n = nibbles.numpy()
    blocks = np.concatenate([exponents.numpy()[..., None], n[..., :16] | n[..., 16:] << 4], -1)
    return np.ascontiguousarray(blocks.reshape(*x.shape[:2], -1))


def write_mxfp4(folder, out):
    """The checkpoint as it would be published, which transformers must read as the same numbers."""
    tensors = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    stored = {}
    for name, x in tensors.items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            rounded, nibbles, exponents = mxfp4(x.transpose(1, 2).contiguous())
            assert torch.equal(rounded, x.transpose(1, 2))
            stored[name + "_blocks"], stored[name + "_scales"] = nibbles[..., ::2] | nibbles[..., 1::2] << 4, exponents
            assert torch.equal(convert_moe_packed_tensors(stored[name + "_blocks"], exponents, dtype=torch.float32), x)
        else:
            stored[name] = x
    out.mkdir(exist_ok=True)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(stored, out / "model.safetensors", metadata={"format": "pt"})


def write_smollm2(path, out):
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    tensors = {}
    for name, x in model.state_dict().items():
        if name == "lm_head.weight":  # tied
            continue
        x = x.contiguous().numpy()
        first = [float(v) for v in x.ravel()[:4]] if ".layers." not in name or ".0." in name or ".29." in name else []
        tensors[name] = {"shape": list(x.shape), "sha256": hashlib.sha256(x.tobytes()).hexdigest(), "first": first}
    out.write_text(json.dumps(tensors, separators=(",", ":"), sort_keys=True).replace('},"', '},\n"') + "\n")


def main():
    tiny, smollm2, out = map(Path, sys.argv[1:])
    out.mkdir(exist_ok=True)
    write_types(out / "types.gguf")
    write_grids(out / ".." / "gguf" / "grids.bin")
    write_dtypes(out / "dtypes.safetensors")
    convert(tiny / "llama-bias", out / "llama-bias.gguf", "llama", "llama3")
    convert(tiny / "qwen2", out / "qwen2.gguf", "qwen2", "yarn")
    convert(tiny / "qwen3", out / "qwen3.gguf", "qwen3")
    convert(tiny / "smollm3", out / "smollm3.gguf", "smollm3")
    convert(tiny / "gemma2", out / "gemma2.gguf", "gemma2")
    convert(tiny / "gemma3", out / "gemma3.gguf", "gemma3")
    for name in ("gemma4", "gemma4-large"):
        convert(tiny / name, out / f"{name}.gguf", "gemma4")
    for name in ("phi3", "phi4-mini", "granite", "glm4", "starcoder2", "stablelm"):
        convert(tiny / name, out / f"{name}.gguf", "phi3" if name == "phi4-mini" else name)
    convert(tiny / "ernie", out / "ernie.gguf", "ernie4_5")
    convert(tiny / "seed-oss", out / "seed-oss.gguf", "seed_oss")
    convert(tiny / "olmo3", out / "olmo3.gguf", "olmo2")
    convert(tiny / "olmo2", out / "olmo2.gguf", "olmo2")
    for name in ("lfm2", "qwen3-next", "qwen35", "qwen35-moe"):
        convert(tiny / name, out / f"{name}.gguf", name.replace("-", ""))
    for name in ("granite4", "granite4-moe"):
        convert(tiny / name, out / f"{name}.gguf", "granitehybrid")
    for name, arch in {
        "granite-moe-shared": "granitemoe", "mixtral": "llama", "qwen3-moe": "qwen3moe", "olmoe": "olmoe"}.items():
        convert(tiny / name, out / f"{name}.gguf", arch)
    convert(tiny / "gpt-oss", out / "gpt-oss.gguf", "gpt-oss")
    write_mxfp4(tiny / "gpt-oss", out / "gpt-oss-mxfp4")
    (out / "split").mkdir(exist_ok=True)
    convert(tiny / "qwen3", out / "split" / "qwen3.gguf", "qwen3", split_max_tensors=20, small_first_shard=True)
    write_smollm2(smollm2, out / "smollm2.json")


main()
