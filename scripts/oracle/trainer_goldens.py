"""Log-probabilities of sampled tokens after random prompts, in float32, by the reference for trainers
(scripts/rl/logprobs.py): trainer_goldens.py MODELS GOLDENS"""

import gzip
import json
import sys
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parents[1] / "rl"), str(Path(__file__).parents[2] / "python")]
from logprobs import load, token_logits, token_logprobs  # noqa: E402

MODELS = ["qwen2", "mistral", "phi3", "gemma3", "qwen3"]


NEW = 40


def sample(model, prompt):
    tokens = []
    for _ in range(NEW):
        last = token_logits(model, prompt, tokens + [0])[-1]
        tokens.append(int(torch.multinomial(last.softmax(-1), 1)))
    return tokens


def main(models, goldens):
    torch.set_grad_enabled(False)
    torch.manual_seed(63)
    cases = []
    for name in MODELS:
        model = load(Path(models) / name)
        for length in (1, 20, 70):
            prompt = torch.randint(6, 256, (length,)).tolist()
            tokens = sample(model, prompt)
            logprobs = token_logprobs(model, prompt, tokens).tolist()
            cases.append(dict(model=name, prompt=prompt, tokens=tokens, logprobs=logprobs))
    with open(Path(goldens) / "trainer.json.gz", "wb") as f, gzip.GzipFile("", "wb", fileobj=f, mtime=0) as z:
        z.write((json.dumps(cases) + "\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
