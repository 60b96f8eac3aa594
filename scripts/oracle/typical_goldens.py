"""Golden of package sampling: which tokens transformers' warpers keep with typical_p, for 10,000 rows.

Usage: typical_goldens.py OUTPUT.txt

A row is made of its number alone, here and in the test, so that the file has only what is kept: a line a row, a bit a
token. The warpers are those of transformers' generate, in its order: temperature, top-k, top-p, min-p, typical. Every
fourth row has many equal logits. A row with equal logits has no top-p, which would drop some of the equal ones.
"""

import sys

import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

ROWS, SIZE, MASK = 10_000, 40, 2**64 - 1


def splitmix(state):
    state = (state + 0x9E3779B97F4A7C15) & MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return state, z ^ (z >> 31)


def row(i):
    state, logits, coarse = i, [], i % 4 == 0
    for _ in range(SIZE):
        state, x = splitmix(state)
        n = sum(x >> shift & 0xFFFF for shift in (0, 16, 32, 48)) - 131070
        logits.append((n >> 12) / 4 if coarse else (n >> 4) / 1024)
    return logits, dict(
        temperature=[0.5, 1, 1.7][i % 3],
        typical=[0.02, 0.1, 0.2, 0.5, 0.7, 0.9, 0.95, 0.995][i // 3 % 8],
        top_k=[0, 10, 25][i // 24 % 3],
        top_p=[1, 0.9, 0.6][i // 72 % 3] if len(set(logits)) == SIZE else 1,
        min_p=[0, 0.05][i // 216 % 2],
    )


def kept(i):
    logits, s = row(i)
    warpers = LogitsProcessorList([TemperatureLogitsWarper(float(s["temperature"]))])
    if s["top_k"]:
        warpers.append(TopKLogitsWarper(s["top_k"]))
    if s["top_p"] < 1:
        warpers.append(TopPLogitsWarper(s["top_p"]))
    if s["min_p"]:
        warpers.append(MinPLogitsWarper(s["min_p"]))
    warpers.append(TypicalLogitsWarper(mass=s["typical"]))
    scores = warpers(None, torch.tensor([logits], dtype=torch.float32))[0]
    return sum(1 << t for t in range(SIZE) if scores[t] > -torch.inf)


def main():
    with open(sys.argv[1], "w") as f:
        for i in range(ROWS):
            f.write(f"{kept(i):010x}\n")


if __name__ == "__main__":
    main()
