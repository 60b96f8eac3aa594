"""Compute which experts transformers' routers choose for the tiny mixtures, in float32:
experts_goldens.py MODELS GOLDENS

Writes GOLDENS/experts.json.gz: {name: {"layers", "chosen", "cases": [{"prompt", "tokens", "experts"}]}} with prompts
and greedy tokens of logits_goldens.py. The experts are of the positions whose logits give the tokens: by token, by
layer with experts, ascending."""

import gzip
import json
import sys
from pathlib import Path

import torch
from logits_goldens import SAME, load

CASES = 3


def experts_of(model, ids):
    """The experts of each position, [positions][layers][chosen], of one pass without a cache."""
    seen = []

    def note(module, args, output):
        whole = [x for x in output if torch.is_tensor(x) and not x.is_floating_point()]
        assert len(whole) == 1, type(module)
        seen.append(whole[0].reshape(len(ids), -1).sort(-1).values)

    hooks = [m.register_forward_hook(note) for m in model.modules() if type(m).__name__.lower().endswith("router")]
    with torch.no_grad():
        model(input_ids=torch.tensor([ids]), use_cache=False)
    for hook in hooks:
        hook.remove()
    return torch.stack(seen, 1).tolist() if seen else None


def main(models, goldens):
    out = {}
    for folder in sorted(Path(models).iterdir()):
        golden = Path(goldens) / f"{folder.name}.json.gz"
        if folder.name in SAME or not golden.exists():
            continue
        model = load(folder)
        cases = []
        with gzip.open(golden) as f:
            chosen = json.load(f)["cases"]
        for case in chosen[:: max(1, len(chosen) // CASES)][:CASES]:
            prompt, tokens = case["prompt"], case["tokens"]
            experts = experts_of(model, prompt + tokens)
            if experts is None:
                break
            experts = experts[len(prompt) - 1 : -1]
            cases.append(dict(prompt=prompt, tokens=tokens, experts=sum(sum(experts, []), [])))
            layers, k = len(experts[0]), len(experts[0][0])
        if cases:
            out[folder.name] = dict(layers=layers, chosen=k, cases=cases)
            print(folder.name, layers, k)
    with open(Path(goldens) / "experts.json.gz", "wb") as f, gzip.GzipFile("", "wb", fileobj=f, mtime=0) as z:
        z.write((json.dumps(out) + "\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
