"""Makes LoRA adapters of the tiny checkpoints with PEFT, and what transformers and PEFT generate with them in float32:
adapter_goldens.py MODELS ADAPTERS GOLDEN

A trained adapter is random numbers as far as arithmetic is concerned, and large enough to change most tokens."""

import gzip
import json
import shutil
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

NEW = 64
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# name -> (checkpoint, seed, settings of the adapter, dtype of the file)
ADAPTERS = {
    "llama3": ("llama3", 1, dict(r=4, lora_alpha=8, target_modules=ALL), torch.float32),
    "llama3-stable": (
        "llama3",
        2,
        dict(r=8, lora_alpha=4, use_rslora=True, target_modules=["q_proj", "v_proj"]),
        torch.bfloat16,
    ),
    "llama3-wide": ("llama3", 3, dict(r=16, lora_alpha=16, target_modules="all-linear"), torch.float16),
    "qwen2": (
        "qwen2",
        4,
        dict(
            r=4,
            lora_alpha=8,
            target_modules=r".*\.(q_proj|k_proj|o_proj|down_proj)",
            rank_pattern={r"layers\.0\.self_attn\.q_proj": 6, "down_proj": 3},
            alpha_pattern={"o_proj": 2},
        ),
        torch.float32,
    ),
    "qwen3": ("qwen3", 5, dict(r=5, lora_alpha=5, target_modules=ALL, layers_to_transform=[1]), torch.float32),
    "phi3": (
        "phi3",
        6,
        dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]),
        torch.float32,
    ),
    "gemma3": ("gemma3", 7, dict(r=4, lora_alpha=8, target_modules=ALL), torch.float32),
    "glm4": (
        "glm4",
        8,
        dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "gate_up_proj"]),
        torch.float32,
    ),
    "ernie": ("ernie", 9, dict(r=4, lora_alpha=8, target_modules=ALL), torch.float32),
    "starcoder2": (
        "starcoder2",
        10,
        dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "c_fc", "c_proj"]),
        torch.float32,
    ),
    "qwen3-moe": (
        "qwen3-moe",
        11,
        dict(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]),
        torch.float32,
    ),
    "llama3-dora": ("llama3", 12, dict(r=4, lora_alpha=8, use_dora=True, target_modules=ALL), torch.float32),
    "phi3-dora": (
        "phi3",
        13,
        dict(r=4, lora_alpha=8, use_dora=True, target_modules=["qkv_proj", "down_proj"]),
        torch.bfloat16,
    ),
    "llama3-head": (
        "llama3",
        14,
        dict(r=4, lora_alpha=8, target_modules=["q_proj", "embed_tokens", "lm_head"]),
        torch.float32,
    ),
    "gemma3-head": (
        "gemma3",
        15,
        dict(r=4, lora_alpha=8, target_modules=["q_proj", "embed_tokens", "lm_head"]),
        torch.float32,
    ),
    "llama32-tied": (
        "llama32-tied",
        16,
        dict(r=4, lora_alpha=8, target_modules=["q_proj", "embed_tokens"], ensure_weight_tying=True),
        torch.bfloat16,
    ),
}


def generate(model, prompt):
    """Greedy tokens and their log-probabilities."""
    tokens, logprobs = [], []
    ids = torch.tensor([prompt])
    cache = None
    for _ in range(NEW):
        out = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        scores = torch.log_softmax(out.logits[0, -1].double(), -1)
        token = int(scores.argmax())
        tokens.append(token)
        logprobs.append(float(scores[token]))
        ids = torch.tensor([[token]])
    return tokens, logprobs


def main(models, adapters, golden):
    torch.set_grad_enabled(False)
    cases = []
    for name, (checkpoint, seed, settings, dtype) in ADAPTERS.items():
        torch.manual_seed(seed)
        base = AutoModelForCausalLM.from_pretrained(Path(models) / checkpoint, dtype=torch.float32)
        base.eval()
        prompts = [torch.randint(3, 256, (n,)).tolist() for n in (5, 33, 90)]
        plain = [generate(base, p)[0] for p in prompts]
        model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **settings))
        model.eval()
        for key, weight in model.named_parameters():
            if "lora_" in key:
                if "magnitude" in key:  # lengths of rows
                    weight.mul_(torch.empty_like(weight).uniform_(0.5, 1.5))
                else:
                    torch.nn.init.normal_(weight, std=0.3)
                weight.copy_(weight.to(dtype).float())
        out = Path(adapters) / name
        shutil.rmtree(out, ignore_errors=True)
        rows = []
        for prompt, without in zip(prompts, plain):
            tokens, logprobs = generate(model, prompt)
            assert tokens != without, (name, "the adapter changes nothing")
            rows.append(dict(prompt=prompt, tokens=tokens, logprobs=logprobs))
        for key, weight in model.named_parameters():
            if "lora_" in key:
                weight.data = weight.data.to(dtype)
        model.save_pretrained(out)
        (out / "README.md").unlink(missing_ok=True)
        config = json.loads((out / "adapter_config.json").read_text())
        config["base_model_name_or_path"] = checkpoint
        if isinstance(config["target_modules"], list):
            config["target_modules"].sort()
        (out / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        cases.append(dict(adapter=name, model=checkpoint, rows=rows))
    with open(golden, "wb") as f, gzip.GzipFile("", "wb", fileobj=f, mtime=0) as z:
        z.write((json.dumps(cases) + "\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
