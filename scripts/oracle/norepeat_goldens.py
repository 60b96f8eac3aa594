"""Goldens of package sampling: which tokens transformers' NoRepeatNGramLogitsProcessor forbids.

Usage: norepeat_goldens.py OUTPUT.json

Each case has the size, the tokens of a row of few kinds, and the forbidden tokens in order.
"""

import json
import sys

import numpy as np
import torch
from transformers.generation.logits_process import NoRepeatNGramLogitsProcessor

VOCABULARY, LONGEST = 32, 60


def main():
    generator = np.random.default_rng(20261129)
    cases = []
    for _ in range(600):
        size = int(generator.choice([1, 2, 3, 4, 5, 8, 60, 61, 100]))
        kinds = int(generator.integers(1, VOCABULARY // 4))
        tokens = generator.integers(0, kinds, generator.integers(1, LONGEST + 1)).tolist()
        scores = NoRepeatNGramLogitsProcessor(size)(torch.tensor([tokens]), torch.zeros((1, VOCABULARY)))
        cases.append(dict(size=size, tokens=tokens, barred=torch.nonzero(scores[0] == -np.inf)[:, 0].tolist()))
    with open(sys.argv[1], "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
