"""Goldens of package sampling: what Hugging Face's logits warpers leave of random logits.

Usage: sampling_goldens.py OUTPUT.json

Each case has the logits, the settings, the probabilities after the warpers in the order temperature, top-k, top-p,
min-p, and the raw log-softmax. Logits are multiples of 2^-10, so that float32 rounding makes no ties.
"""

import json
import sys

import numpy as np
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

SETTINGS = [
    dict(temperature=1.0),
    dict(temperature=0.5),
    dict(temperature=2.0),
    dict(temperature=1.0, top_k=1),
    dict(temperature=1.0, top_k=7),
    dict(temperature=1.0, top_k=500),
    dict(temperature=1.0, top_p=0.9),
    dict(temperature=0.7, top_p=0.3),
    dict(temperature=1.0, top_p=1e-6),
    dict(temperature=1.0, min_p=0.1),
    dict(temperature=1.5, min_p=1.0),
    dict(temperature=0.8, top_k=12, top_p=0.85),
    dict(temperature=1.2, top_k=30, top_p=0.95, min_p=0.04),
]


def main():
    generator = np.random.default_rng(20261121)
    cases = []
    for settings in SETTINGS:
        logits = np.round(generator.normal(0, 2.5, 96) * 1024) / 1024
        scores = torch.tensor(logits, dtype=torch.float32)[None]
        warpers = LogitsProcessorList([TemperatureLogitsWarper(settings["temperature"])])
        if "top_k" in settings:
            warpers.append(TopKLogitsWarper(settings["top_k"]))
        if "top_p" in settings:
            warpers.append(TopPLogitsWarper(settings["top_p"]))
        if "min_p" in settings:
            warpers.append(MinPLogitsWarper(settings["min_p"]))
        warped = warpers(torch.zeros((1, 1), dtype=torch.long), scores.clone())
        cases.append(
            dict(
                settings=settings,
                logits=logits.tolist(),
                probs=[float(f"{p:.9g}") for p in torch.softmax(warped.double(), -1)[0]],
                logprobs=[float(f"{p:.9g}") for p in torch.log_softmax(scores.double(), -1)[0]],
            )
        )
    with open(sys.argv[1], "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
