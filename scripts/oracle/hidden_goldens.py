"""Compute transformers' hidden states of tiny checkpoints, in float32: hidden_goldens.py MODELS GOLDENS

Writes GOLDENS/hidden.json.gz: {name: {"layers", "prompt", "tokens", "at", "states"}} with a prompt and greedy tokens of
logits_goldens.py. The states are of the positions whose logits give the tokens with the numbers in "at": by token, then
by hidden state as transformers numbers them, from the embeddings to the normalized output of the last layer."""

import gzip
import json
import sys
from pathlib import Path

import torch
from logits_goldens import f32, load

# Multipliers, norms before, after and of sums, windows, embeddings for each layer, states, latents, mixtures.
FAMILIES = [
    "deepseek-v3",
    "gemma3",
    "gemma4",
    "glm4",
    "gpt-oss",
    "granite",
    "granite4",
    "lfm2",
    "llama32-tied",
    "mixtral",
    "olmo2",
    "qwen3",
    "qwen3-next",
    "stablelm",
]
AT = [0, 1, 40]


def main(models, goldens):
    out = {}
    for name in FAMILIES:
        model = load(Path(models) / name)
        with gzip.open(Path(goldens) / f"{name}.json.gz") as f:
            cases = json.load(f)["cases"]
        case = cases[len(cases) // 2]
        prompt, tokens = case["prompt"], case["tokens"][: AT[-1] + 1]
        with torch.no_grad():
            states = model(
                input_ids=torch.tensor([prompt + tokens]), use_cache=False, output_hidden_states=True
            ).hidden_states
        states = torch.stack(states)[:, 0].transpose(0, 1)  # [positions, layers + 1, hidden]
        wanted = states[[len(prompt) - 1 + i for i in AT]]
        out[name] = dict(
            layers=states.shape[1],
            prompt=prompt,
            tokens=tokens,
            at=AT,
            states=[f32(x) for x in wanted.flatten().tolist()],
        )
        print(name, *wanted.shape)
    with open(Path(goldens) / "hidden.json.gz", "wb") as f, gzip.GzipFile("", "wb", fileobj=f, mtime=0) as z:
        z.write((json.dumps(out) + "\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
