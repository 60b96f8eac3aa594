"""Makes tiny quantized checkpoints and what their matrices are: quantized_goldens.py OUT

OUT/NAME/ has config.json and model.safetensors; OUT/goldens.json has for each checkpoint and matrix the SHA-256 of its
numbers in float32, row by row, little-endian.

The tensors of compressed-tensors are packed and unpacked by that package, with scales in float32. AutoAWQ's are
unpacked by its converter (AutoAWQConverter). fp8 blocks are unpacked by transformers (Fp8Dequantize) where they cut a
matrix evenly. GPTQ's and the rest are written down here from their definitions: weights scale[g_idx] * (quant - zero),
where version 1 has the zero points less one, a word at a time.
"""

import hashlib
import json
import sys
from pathlib import Path

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.entrypoints.convert.converters.autoawq import AutoAWQConverter
from compressed_tensors.quantization import QuantizationConfig
from compressed_tensors.quantization.lifecycle.forward import dequantize
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # AutoAWQ: which of eight outputs stands at each place of a word


def config(hidden, intermediate, heads, kv_heads, head_dim, dtype, quantization, **more):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32, "hidden_size": hidden,
        "intermediate_size": intermediate, "num_hidden_layers": 1, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "max_position_embeddings": 160, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": True, "torch_dtype": dtype, "bos_token_id": 1, "eos_token_id": 2,
        "hidden_act": "silu", "quantization_config": quantization, **more,
    }


def shapes(c):
    h, i, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv, at = c["num_attention_heads"] * d, c["num_key_value_heads"] * d, "model.layers.0."
    if c["model_type"] == "phi3":
        return {at + "self_attn.qkv_proj": (q + 2 * kv, h), at + "self_attn.o_proj": (h, q),
                at + "mlp.gate_up_proj": (2 * i, h), at + "mlp.down_proj": (h, i)}
    return {at + "self_attn.q_proj": (q, h), at + "self_attn.k_proj": (kv, h), at + "self_attn.v_proj": (kv, h),
            at + "self_attn.o_proj": (h, q), at + "mlp.gate_proj": (i, h), at + "mlp.up_proj": (i, h),
            at + "mlp.down_proj": (h, i)}


class Checkpoint:
    """The floats of a checkpoint, to which matrices are added as they are stored and as they are."""

    def __init__(self, out, name, c):
        self.out, self.name, self.config = out, name, c
        self.generator = torch.Generator().manual_seed(int(hashlib.sha256(name.encode()).hexdigest()[:8], 16))
        self.dtype = getattr(torch, c["torch_dtype"])
        h = c["hidden_size"]
        norms = ["model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"]
        self.tensors = {n + ".weight": (1 + 0.1 * self.randn(h)).to(self.dtype) for n in norms}
        self.tensors["model.embed_tokens.weight"] = self.randn(c["vocab_size"], h).to(self.dtype)
        self.goldens = {}

    def randn(self, *shape):
        return torch.randn(*shape, generator=self.generator)

    def randint(self, high, *shape):
        return torch.randint(0, high, shape, generator=self.generator, dtype=torch.int32)

    def scales(self, *shape):
        return (0.002 + 0.01 * torch.rand(*shape, generator=self.generator)).to(self.dtype)

    def add(self, module, parts, matrix):
        self.tensors.update({f"{module}.{k}": v.contiguous() for k, v in parts.items()})
        flat = matrix.to(torch.float32).contiguous().numpy().astype("<f4")
        self.goldens[module + ".weight"] = hashlib.sha256(flat.tobytes()).hexdigest()

    def save(self, goldens):
        folder = self.out / self.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config, indent=1) + "\n")
        save_file(self.tensors, folder / "model.safetensors", metadata={"format": "pt"})
        size = (folder / "model.safetensors").stat().st_size
        assert size <= 100_000, f"{self.name} has {size} bytes"
        goldens[self.name] = self.goldens


# compressed-tensors


def args(**more):
    return {"num_bits": 8, "type": "int", "symmetric": True, "group_size": None, "strategy": None,
            "block_structure": None, "dynamic": False, "actorder": None, "observer": "minmax", "observer_kwargs": {},
            **more}


TOKEN = args(strategy="token", dynamic=True, observer=None)


def group(targets, weights, inputs=None):
    return {"targets": targets, "weights": weights, "input_activations": inputs, "output_activations": None}


def compressed(format, groups, ignore=("lm_head",), **more):
    return {"quant_method": "compressed-tensors", "format": format, "quantization_status": "compressed",
            "config_groups": {f"group_{i}": g for i, g in enumerate(groups)}, "ignore": list(ignore),
            "global_compression_ratio": None, "kv_cache_scheme": None, **more}


def make_compressed(p, module, shape, scheme):
    """Quantizes a random matrix by a scheme, as compressed-tensors packs it."""
    w, (out, into) = scheme.weights, shape
    rows, columns = {"tensor": (out, into), "channel": (1, into), "group": (1, w.group_size),
                     "block": w.block_structure}[w.strategy]
    high, wide = -(-out // rows), -(-into // columns)
    scale = p.scales(high, wide)
    if w.strategy == "tensor":
        scale = scale.reshape(1)
    levels = 2 ** w.num_bits
    zero = None if w.symmetric else (p.randint(levels, *scale.shape) - levels // 2).to(torch.int8)
    state = {"weight_scale": scale}
    g_idx = None
    if zero is not None:
        state["weight_zero_point"] = zero
    if w.actorder == "group":
        g_idx = (torch.randperm(into, generator=p.generator) // w.group_size).to(torch.int32)
        state["weight_g_idx"] = g_idx
    if w.type == "float":
        quants = (p.randn(out, into) * 60).to(torch.float8_e4m3fn)
    else:
        quants = (p.randint(levels, out, into) - levels // 2).to(torch.int8)
    # the numbers are given, so that all values occur: packing quantizes them again, to the same
    wide_scale = scale.to(torch.float32)
    numbers = dequantize(quants, wide_scale, zero, args=w, dtype=torch.float32, g_idx=g_idx)
    if w.type == "float" or w.num_bits == 8 and scheme.input_activations is not None:
        state["weight"] = quants
        stored = state
        scheme_format = "naive-quantized"
    else:
        from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

        stored = dict(state, weight_packed=pack_to_int32(quants, w.num_bits), weight_shape=torch.tensor(shape))
        if zero is not None:
            stored["weight_zero_point"] = pack_to_int32(zero, w.num_bits, packed_dim=0).contiguous()
        scheme_format = "pack-quantized"
    wide_state = dict(stored, weight_scale=wide_scale)
    if scheme_format == "pack-quantized":
        wide_state["weight_shape"] = torch.Size(shape)
    got = BaseCompressor.get_value_from_registry(scheme_format).decompress(wide_state, scheme)["weight"]
    assert torch.equal(got, numbers), module
    return stored, numbers


def make_compressed_checkpoint(out, goldens, name, c, extra=None):
    p = Checkpoint(out, name, c)
    q = QuantizationConfig.model_validate(c["quantization_config"])
    import re

    def matches(module, patterns):
        return any(re.match(t[3:], module) if t.startswith("re:") else t in (module, "Linear") for t in patterns)

    for module, shape in shapes(c).items():
        schemes = [s for s in q.config_groups.values() if matches(module, s.targets)]
        named = [s for s in schemes if s.targets != ["Linear"]]
        if matches(module, q.ignore):
            w = (0.1 * p.randn(*shape)).to(p.dtype)
            p.add(module, {"weight": w}, w)
            continue
        p.add(module, *make_compressed(p, module, shape, (named or schemes)[0]))
    if extra:
        extra(p)
    p.save(goldens)


# words of 32 bits


def words(x, bits, dim, order=None):
    """Packs numbers below 2**bits along a dimension, the first in the lowest bits."""
    each = 32 // bits
    x = x.transpose(dim, -1).to(torch.int64)
    x = x.reshape(*x.shape[:-1], -1, each)
    if order:
        x = x[..., order]
    packed = (x << (torch.arange(each) * bits)).sum(-1)
    packed = torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)
    return packed.transpose(dim, -1).contiguous()


def make_gptq(p, shape, bits, size, act_order=False, v2=False, sym=False, index=True):
    (out, into), levels = shape, 2**bits
    size = into if size == -1 else size
    groups = -(-into // size)
    q, scale = p.randint(levels, out, into), p.scales(groups, out)
    zero = torch.full((groups, out), levels // 2) if sym else p.randint(levels, groups, out)
    g_idx = torch.arange(into) // size
    if act_order:
        g_idx = g_idx[torch.randperm(into, generator=p.generator)]
    qzeros = words(zero, bits, 1)
    if not v2:  # GPTQModel's convert_gptq_v2_to_v1_format
        qzeros = qzeros - (0x11111111 if bits == 4 else 0x01010101)
    parts = {"qweight": words(q.T, bits, 0), "qzeros": qzeros, "scales": scale}
    if index:
        parts["g_idx"] = g_idx.to(torch.int32)
    matrix = scale.to(torch.float32)[g_idx] * (q.T - zero[g_idx]).to(torch.float32)
    return parts, matrix.T


def make_awq(p, shape, size):
    out, into = shape
    groups = into // size
    q, zero, scale = p.randint(16, out, into), p.randint(16, groups, out), p.scales(groups, out)
    parts = {"qweight": words(q.T, 4, 1, AWQ_ORDER), "qzeros": words(zero, 4, 1, AWQ_ORDER), "scales": scale}
    c = AutoAWQConverter.__new__(AutoAWQConverter)
    c.bits, c.zero_point = 4, True
    weight, s, z = c._convert_gemm_module(parts["qweight"], scale.to(torch.float32), parts["qzeros"])
    matrix = s.repeat_interleave(size, 1) * (weight.to(torch.float32) - z.to(torch.float32).repeat_interleave(size, 1))
    assert torch.equal(matrix, (scale.to(torch.float32)[torch.arange(into) // size] *
                                (q.T - zero[torch.arange(into) // size])).T)
    return parts, matrix


def make_fp8(p, shape, block, dtype=torch.float32):
    (out, into), q = shape, (p.randn(*shape) * 60).to(torch.float8_e4m3fn)
    rows, columns = block or shape
    scale = 0.001 + 0.01 * torch.rand(-(-out // rows), -(-into // columns), generator=p.generator)
    if dtype == torch.float8_e8m0fnu:
        scale = scale.to(dtype)
    wide = scale.to(torch.float32).repeat_interleave(rows, 0)[:out].repeat_interleave(columns, 1)[:, :into]
    matrix = q.to(torch.float32) * wide
    if out % rows == 0 and into % columns == 0:
        assert torch.equal(matrix, Fp8Dequantize(None)._dequantize_one(q, scale, torch.float32))
    return {"weight": q, "weight_scale_inv": scale if block else scale.reshape(())}, matrix


def main(out):
    goldens = {}
    small = dict(hidden=128, intermediate=128, heads=2, kv_heads=1, head_dim=32)
    plain = dict(hidden=128, intermediate=256, heads=2, kv_heads=1, head_dim=64)
    attention, mlp = ["re:.*[qkvo]_proj$"], ["re:.*mlp.*_proj$"]
    int4 = dict(num_bits=4, strategy="group")

    make_compressed_checkpoint(out, goldens, "ct-w8a8", config(
        **small, dtype="bfloat16",
        quantization=compressed("int-quantized", [group(["Linear"], args(strategy="channel"), TOKEN)])))
    make_compressed_checkpoint(out, goldens, "ct-w8a8-asym", config(
        **small, dtype="float16", quantization=compressed(
            "int-quantized", [group(attention, args(strategy="tensor", symmetric=False), TOKEN),
                              group(["Linear"], args(strategy="channel", symmetric=False), TOKEN)],
            ignore=["lm_head", "re:.*k_proj$"])))
    make_compressed_checkpoint(out, goldens, "ct-w4a16", config(
        **plain, dtype="bfloat16", quantization=compressed(
            "pack-quantized", [group(["Linear"], args(**int4, group_size=128))])))
    make_compressed_checkpoint(out, goldens, "ct-w4a16-asym", config(
        **dict(plain, intermediate=192), dtype="float16", quantization=compressed(
            "pack-quantized", [group(["Linear"], args(**int4, group_size=64, symmetric=False))],
            ignore=["lm_head", "model.layers.0.self_attn.v_proj"])))
    make_compressed_checkpoint(out, goldens, "ct-w4a16-order", config(
        **dict(plain, intermediate=192), dtype="float16", quantization=compressed(
            "pack-quantized", [group(["Linear"], args(**int4, group_size=32, actorder="group"))])))
    make_compressed_checkpoint(out, goldens, "ct-mixed", config(
        **small, dtype="bfloat16", quantization=compressed(
            "mixed-precision", [group(attention, args(num_bits=4, strategy="channel")),
                                group(mlp, args(type="float", strategy="channel"),
                                      args(type="float", strategy="token", dynamic=True))])))

    def cache(p):
        p.tensors["model.layers.0.self_attn.k_scale"] = torch.tensor([0.5])
        p.tensors["model.layers.0.self_attn.v_scale"] = torch.tensor([0.25])
        for module in shapes(p.config):
            p.tensors[module + ".input_scale"] = torch.tensor([0.125])

    fp8 = args(type="float", strategy="tensor")
    make_compressed_checkpoint(out, goldens, "ct-fp8-tensor", config(
        **small, dtype="bfloat16", quantization=compressed(
            "float-quantized", [group(["Linear"], fp8, fp8)], kv_cache_scheme=fp8)), cache)
    make_compressed_checkpoint(out, goldens, "ct-fp8-block", config(
        **small, dtype="bfloat16", quantization=compressed(
            "float-quantized", [group(["Linear"], args(type="float", strategy="block", block_structure=[64, 32]),
                                      args(type="float", strategy="group", group_size=128, dynamic=True))])))

    def each(name, c, make):
        p = Checkpoint(out, name, c)
        for module, shape in shapes(c).items():
            p.add(module, *make(p, shape))
        p.save(goldens)

    each("awq", config(**dict(plain, intermediate=192), dtype="float16", quantization={
        "quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm",
        "modules_to_not_convert": None}), lambda p, s: make_awq(p, s, 64))
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True, "damp_percent": 0.1,
            "true_sequential": True, "static_groups": False, "model_name_or_path": None,
            "model_file_base_name": "model"}
    each("gptq", config(**plain, dtype="float16", quantization=gptq), lambda p, s: make_gptq(p, s, 4, 128, sym=True))
    each("gptq-asym",
         config(**dict(plain, intermediate=192), dtype="float16", quantization=dict(gptq, sym=False, group_size=32)),
         lambda p, s: make_gptq(p, s, 4, 32, index=False))
    each("gptq-order", config(**plain, dtype="float16", quantization=dict(gptq, desc_act=True, sym=False)),
         lambda p, s: make_gptq(p, s, 4, 64 if s[1] < 128 else 128, act_order=True))
    each("gptq-v2", config(**plain, dtype="bfloat16", quantization=dict(
        gptq, checkpoint_format="gptq_v2", sym=False, group_size=-1)), lambda p, s: make_gptq(p, s, 4, -1, v2=True))
    each("gptq-int8", config(**small, dtype="float16", quantization=dict(gptq, bits=8, sym=False, group_size=64)),
         lambda p, s: make_gptq(p, s, 8, 64))
    phi = dict(model_type="phi3", architectures=["Phi3ForCausalLM"], pad_token_id=0,
               original_max_position_embeddings=160)
    each("gptq-phi3", config(**plain, dtype="float16", quantization=dict(gptq, sym=False), **phi),
         lambda p, s: make_gptq(p, s, 4, 128))
    deepseek = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]}
    each("fp8-block", config(**dict(small, intermediate=160), dtype="bfloat16", quantization=deepseek),
         lambda p, s: make_fp8(p, s, (128, 128)))
    each("fp8-ue8m0", config(**small, dtype="bfloat16", quantization=dict(deepseek, scale_fmt="ue8m0")),
         lambda p, s: make_fp8(p, s, (128, 128), torch.float8_e8m0fnu))
    each("fp8-tensor", config(**small, dtype="bfloat16", quantization=dict(deepseek, weight_block_size=None)),
         lambda p, s: make_fp8(p, s, None))
    (out / "goldens.json").write_text(json.dumps(goldens, indent=1, sort_keys=True) + "\n")


main(Path(sys.argv[1]))
