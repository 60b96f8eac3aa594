#!/usr/bin/env python3
"""Trains a LoRA adapter of rank 16 on public text, and compares what it generates with PEFT:
trained.py MODEL ADAPTER [--steps 40]

MODEL is a folder or a GGUF file, ADAPTER a folder. If ADAPTER is not there, it is trained: on the reference that comes
with Python (pydoc_data.topics). Then 64 greedy tokens of each of a few prompts in float32, with Quire and with
transformers and PEFT. Exits with 1 if they differ at a token that no near tie explains, or if the adapter changes
nothing. Needs torch, transformers, peft, gguf for GGUF files, and the module quire."""

import argparse
import pydoc_data.topics
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

import quire

PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RANK, LENGTH, BATCH, NEW = 16, 192, 4, 64
# Steps whose two best logits are nearer than this are not required of an engine that adds in a different order.
MIN_GAP = 2e-3
PROMPTS = [
    "The for statement",
    'The "lambda" expression',
    "Once upon a time",
    "An object's type determines",
    "def add(a, b):",
    "In a class definition, the",
]


def load(model):
    """A model and its tokenizer, in float32."""
    path = Path(model)
    gguf = dict(gguf_file=path.name) if path.suffix == ".gguf" else {}
    folder = path.parent if gguf else path
    tokenizer = AutoTokenizer.from_pretrained(folder, **gguf)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **gguf).eval(), tokenizer


def batches(tokenizer, held_out):
    """Pieces of the text [n, LENGTH]: one in ten is held out."""
    text = "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    ids = torch.tensor(tokenizer(text)["input_ids"])
    pieces = ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH)
    return pieces[9::10] if held_out else pieces[torch.arange(len(pieces)) % 10 != 9]


def train(model, tokenizer, folder, steps):
    torch.manual_seed(1)
    config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=PROJECTIONS, task_type="CAUSAL_LM")
    model = get_peft_model(model, config)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=4e-4)
    pieces, other = batches(tokenizer, False), batches(tokenizer, True)[:16]

    def loss_of(ids):
        return model(input_ids=ids, labels=ids, use_cache=False).loss

    def held_out():
        with torch.no_grad():
            return loss_of(other).item()

    print(f"step 0: loss {held_out():.3f} of text that is held out", flush=True)
    order = torch.randperm(len(pieces))
    for step in range(steps):
        ids = pieces[order[torch.arange(step * BATCH, (step + 1) * BATCH) % len(order)]]
        loss = loss_of(ids)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
    print(f"step {steps}: loss {held_out():.3f} of text that is held out")
    model.save_pretrained(folder)


def expected(model, prompt):
    """Greedy tokens, and how far the second best logit is at each."""
    with torch.no_grad():
        out = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=NEW,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            output_scores=True,
            return_dict_in_generate=True,
        )
    best = torch.stack(out.scores)[:, 0].topk(2, -1).values
    return out.sequences[0, len(prompt) :].tolist(), (best[:, 0] - best[:, 1]).tolist()


def compare(name, adapter):
    """How many tokens are compared, and the prompts whose tokens differ."""
    model, tokenizer = load(name)
    prompts = [tokenizer(text)["input_ids"] for text in PROMPTS]
    rows = [dict(id=str(i), prompt_token_ids=p, adapter="trained") for i, p in enumerate(prompts)]
    rows += [dict(id=f"base {i}", prompt_token_ids=p) for i, p in enumerate(prompts)]  # alongside
    got = {
        row["id"]: row["token_ids"]
        for row in quire.generate(
            rows,
            model=name,
            adapter=[f"trained={adapter}"],
            temperature=0,
            max_tokens=NEW,
            ignore_eos=True,
            dtype="f32",
            weights="f32",
            max_model_len=256,
            max_seqs=16,
            progress=False,
        ).to_pylist()
    }
    tuned = PeftModel.from_pretrained(model, adapter).eval()
    same, wrong, changed = 0, [], 0
    for i, prompt in enumerate(prompts):
        tokens, gaps = expected(tuned, prompt)
        changed += got[str(i)] != got[f"base {i}"]
        at = next((k for k in range(NEW) if tokens[k] != got[str(i)][k]), NEW)
        same += at
        if at < NEW and gaps[at] >= MIN_GAP:
            wrong.append(f"{PROMPTS[i]!r}: token {at} is {got[str(i)][at]}, and PEFT's {tokens[at]}, by {gaps[at]:.4f}")
    if not changed:
        wrong.append("the adapter changes no token")
    return same, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("adapter")
    parser.add_argument("--steps", type=int, default=40)
    o = parser.parse_args()
    if not Path(o.adapter).exists():
        train(*load(o.model), o.adapter, o.steps)
    same, wrong = compare(o.model, o.adapter)
    print(f"{same} of {NEW * len(PROMPTS)} tokens are PEFT's", *wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
