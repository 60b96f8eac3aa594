"""Write tiny random checkpoints of every model family Quire runs, as Hugging Face folders.

    python make_tiny_models.py ../../testdata/models

Each folder is what transformers itself saves (config.json, generation_config.json, safetensors), except that the
models named in CLASSIC get the config.json style of transformers 4: rope_theta and rope_scaling at the top level,
no layer_types. Weights depend only on the seed in tiny_families.py, so a second run writes the same bytes.

Every weight, bias and norm is random and far from its usual initial value, so that leaving any of them out changes
the logits; logits_goldens.py checks that it does.
"""

import json
import math
import shutil
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForCausalLM

from tiny_families import BF16, CLASSIC, COMMON, FAMILIES, FUSED, GENERATION_EOS, NESTED, SHARDED, TINY_VISION

FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def mxfp4(x):
    """(x rounded to what MXFP4 has, nibbles, exponents): along the last axis, 32 numbers by one power of two. No zero
    is negative: GGUF files have none."""
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    exponents = blocks.abs().amax(-1, keepdim=True).log2().floor() - 2
    nibbles = (blocks.abs() / exponents.exp2()).unsqueeze(-1).sub(FP4).abs().argmin(-1)
    negative = (blocks < 0) & (nibbles > 0)
    rounded = torch.where(negative, -1, 1) * FP4[nibbles] * exponents.exp2()
    nibbles = nibbles + 8 * negative
    return rounded.reshape(x.shape), nibbles.to(torch.uint8), (exponents.squeeze(-1) + 127).to(torch.uint8)


def randomize(model, seed):
    """Give every parameter a random value of a size that keeps logits varied and f32 rounding small."""
    gen = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, b in model.named_buffers():
            if name.endswith("layer_scalar"):
                b.copy_(0.8 + 0.4 * torch.rand(1, generator=gen))
            elif name.endswith(("e_score_correction_bias", "expert_bias")):
                b.copy_(0.3 * torch.randn(b.shape, generator=gen))
        for name, p in sorted(
            model.named_parameters(), key=lambda np: np[0].replace("model.language_model.", "model.")):
            noise = torch.randn(p.shape, generator=gen, dtype=torch.float32)
            if "norm" in name and not (name.endswith("bias") and model.config.model_type == "starcoder2"):
                # Spread widely, with a few negative weights. Gemma adds 1 itself.
                zero = model.config.model_type.startswith((
                    "gemma2", "gemma3", "qwen3_5", "qwen3_next")) and "linear_attn.norm" not in name
                p.copy_((not zero) + 0.5 * noise)
            elif name.endswith(("A_log", "dt_bias")):
                p.copy_(0.7 * noise - (1.5 if name.endswith("A_log") else 0))
            elif name.endswith(("sinks", "mamba.D")):
                p.copy_(noise + 1)
            elif model.config.model_type == "gpt_oss" and name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                # Gates and ups beyond the limit of 7, and results no larger than other models'.
                gain = 4.0 if "gate_up" in name else 0.2
                p.copy_(mxfp4((gain / math.sqrt(p.shape[1]) * noise).transpose(1, 2))[0].transpose(1, 2))
            elif name.endswith("bias"):
                # If every layer and norm had them, the model would generate the same for every prompt.
                p.copy_((0.15 if model.config.model_type == "starcoder2" or ".mamba." in name else 0.5) * noise)
            elif name.endswith(("router.scale", "per_expert_scale")):
                p.copy_(1 + 0.5 * noise)
            elif name.endswith("router.proj.weight") and model.config.model_type.startswith("gemma4"):
                p.copy_(1.2 * noise)  # the model divides by the square root of the width
            elif "embed_tokens" in name:
                # Small against what the layers add: tied logits would otherwise favour the token just read.
                scale = 0.15 / getattr(model.config, "embedding_multiplier", 1)
                p.copy_((scale if model.config.get_text_config().tie_word_embeddings else 0.5) * noise)
            elif "lm_head" in name:
                p.copy_(1.5 / math.sqrt(p.shape[1]) * noise)
            else:
                # Larger for q and k: attention then picks few positions, and their places matter.
                gain = 1.6 if "q_proj" in name or "k_proj" in name else 1.2
                p.copy_(gain / math.sqrt(p.shape[1]) * noise)


def classic(cfg):
    """The same configuration in the keys that transformers 4 wrote."""
    rope = dict(cfg.pop("rope_parameters"))
    cfg["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    if kind == "default":
        cfg["rope_scaling"] = None
    elif kind == "linear":
        # The oldest spelling of all.
        cfg["rope_scaling"] = {"type": kind} | rope
    else:
        cfg["rope_scaling"] = {"rope_type": kind} | rope
    cfg.pop("layer_types", None)
    cfg["torch_dtype"] = cfg.pop("dtype")
    cfg["transformers_version"] = "4.46.0"
    if cfg["model_type"] == "qwen2":
        # transformers 5 writes null when the window is off; the published files keep the number.
        cfg["sliding_window"] = 16
    return dict(sorted(cfg.items()))


def fuse(path):
    """The file with one tensor of the gates and ups of all experts, and one of their downs."""
    tensors = load_file(path)
    for down in [name for name in tensors if name.endswith("experts.0.down_proj.weight")]:
        of = down.removesuffix("0.down_proj.weight")
        count = sum(name.startswith(of) and name.endswith("down_proj.weight") for name in tensors)
        gate, up, downs = (
            [tensors.pop(f"{of}{n}.{part}_proj.weight") for n in range(count)] for part in ("gate", "up", "down"))
        tensors[f"{of}gate_up_proj"] = torch.cat([torch.stack(gate), torch.stack(up)], 1)
        tensors[f"{of}down_proj"] = torch.stack(downs)
    save_file(tensors, path, metadata={"format": "pt"})


def write(root, name):
    kind, seed, settings = FAMILIES[name]
    settings = COMMON | settings
    if name in NESTED:
        text = dict(settings, model_type=FAMILIES[NESTED[name]][0])
        settings = dict(
            text_config=text, vision_config=TINY_VISION[kind], tie_word_embeddings=settings["tie_word_embeddings"])
    config = CONFIG_MAPPING[kind](**settings)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    randomize(model, seed)
    if name in BF16:
        model = model.to(torch.bfloat16)
    model.generation_config.eos_token_id = GENERATION_EOS.get(name, config.get_text_config().eos_token_id)
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    if name in SHARDED:
        size = sum(p.numel() * p.element_size() for p in model.parameters())
        model.save_pretrained(folder, max_shard_size=int(size / SHARDED[name] * 1.15))
        shards = len(list(folder.glob("model-*.safetensors")))
        assert shards == SHARDED[name], f"{name}: {shards} shards"
    else:
        model.save_pretrained(folder)
    if name in FUSED:
        fuse(folder / "model.safetensors")
    if name in CLASSIC:
        path = folder / "config.json"
        path.write_text(json.dumps(classic(json.loads(path.read_text())), indent=2) + "\n")
        # Both spellings must mean the same to transformers.
        read = AutoConfig.from_pretrained(folder)
        assert settings["rope_parameters"].items() <= read.rope_parameters.items(), read.rope_parameters
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name:16s} {size / 1e3:7.1f} kB")
    return size


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    root = Path(sys.argv[1])
    total = sum(write(root, name) for name in sys.argv[2:] or FAMILIES)
    print(f"{'together':16s} {total / 1e3:7.1f} kB")


if __name__ == "__main__":
    main()
