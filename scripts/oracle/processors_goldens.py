"""Goldens of package sampling: what penalties and filters make of random logits.

Usage: processors_goldens.py OUTPUT.json

Penalties are those of transformers' RepetitionPenaltyLogitsProcessor and of vLLM's apply_penalties: where vllm is
installed, it must agree. typical_p is transformers' TypicalLogitsWarper. top_n_sigma and XTC are the formulas of
llama.cpp's llama-sampler.cpp, in float64. Logits are multiples of 2^-10, so that float32 rounding makes no ties.
"""

import json
import sys

import numpy as np
import torch
from transformers.generation.logits_process import (
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TypicalLogitsWarper,
)

try:
    from vllm.model_executor.layers.utils import apply_penalties
except ImportError:
    apply_penalties = None

SIZE = 40


def random_logits(generator):
    return np.round(generator.normal(0, 2.5, SIZE) * 1024) / 1024


def short(values):
    return [float(f"{v:.8g}") for v in values]


def penalized(logits, prompt, drawn, repetition, frequency, presence):
    scores = torch.tensor(logits, dtype=torch.float32)[None]
    ids = torch.tensor([prompt + drawn])
    out = RepetitionPenaltyLogitsProcessor(penalty=repetition)(ids, scores.clone())[0].numpy().astype(np.float64)
    counts = np.bincount(drawn, minlength=SIZE)
    out = out - np.float64(frequency) * counts - np.float64(presence) * (counts > 0)
    if apply_penalties is not None:
        column = lambda x: torch.tensor([x], dtype=torch.float32)
        theirs = apply_penalties(
            scores.clone(), torch.tensor([prompt]), torch.tensor([drawn + [SIZE]]), column(presence),
            column(frequency), column(repetition),
        )[0].numpy()
        assert np.allclose(theirs, out, atol=1e-4), (theirs, out)
    return out


def top_n_sigma(logits, n):
    finite = logits[logits > -np.inf]
    return logits >= finite.max() - n * finite.std()


def typical(logits, temperature, mass):
    scores = torch.tensor(logits, dtype=torch.float32)[None]
    scores = TemperatureLogitsWarper(temperature)(None, scores)
    return (TypicalLogitsWarper(mass=mass)(None, scores)[0] > -np.inf).numpy()


def xtc(logits, temperature, threshold):
    p = np.exp((logits - logits.max()) / temperature)
    p /= p.sum()
    top = p >= threshold
    if top.sum() < 2:
        return np.ones(SIZE, bool)
    return p <= p[top].min()


def main():
    generator = np.random.default_rng(20261122)
    pick = lambda values: float(generator.choice(values))
    penalties, filters = [], []
    for _ in range(60):
        logits = random_logits(generator)
        prompt = generator.integers(0, SIZE, generator.integers(1, 12)).tolist()
        drawn = generator.integers(0, SIZE, generator.integers(1, 30)).tolist()
        settings = [pick([1, 1.1, 1.5, 0.8]), pick([0, 0.5, 2, -1]), pick([0, 0.3, 1.5, -2])]
        penalties.append(dict(logits=logits.tolist(), prompt=prompt, drawn=drawn, settings=settings,
                              after=short(penalized(logits, prompt, drawn, *settings))))
    for k in range(90):
        logits = random_logits(generator)
        temperature = pick([0.5, 1, 1.7])
        case = dict(logits=logits.tolist(), temperature=temperature)
        if k % 3 == 0:
            case["top_n_sigma"] = pick([0.5, 1, 1.5, 3])
            kept = top_n_sigma(logits, case["top_n_sigma"])
        elif k % 3 == 1:
            case["typical_p"] = pick([0.05, 0.3, 0.7, 0.95])
            kept = typical(logits, temperature, case["typical_p"])
        else:
            case["xtc_threshold"] = pick([0.01, 0.05, 0.1, 0.3])
            kept = xtc(logits, temperature, case["xtc_threshold"])
        case["kept"] = np.nonzero(kept)[0].tolist()
        filters.append(case)
    with open(sys.argv[1], "w") as f:
        lines = lambda cases: "[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]"
        f.write('{"penalties": %s,\n"filters": %s}\n' % (lines(penalties), lines(filters)))


if __name__ == "__main__":
    main()
