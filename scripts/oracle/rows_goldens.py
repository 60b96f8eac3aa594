"""Golden of package sampling: what transformers' logits processors leave of 10,000 random rows.

Usage: rows_goldens.py OUTPUT.txt

A row is 64 logits with a prompt, generated tokens, and settings, all made by SplitMix64 from the row's number, which
ops/sampling/rows_test.go does too. Processors apply in the order of package sampling's documentation: bias, allowed
tokens, bad words, min tokens, penalties, temperature, top-k, top-p, min-p, typical-p. The frequency and presence
penalties, which transformers lacks, are OpenAI's formula.

A line of the file is a row: the tokens that are kept, as 16 hexadecimal digits; the logarithm of the sum of
exp(score) over them; and the sum of (token + 1) * score over them, where scores are logits after all processors. Rows
at temperature 0 keep one token, and have the scores before temperature. A line "near" is a row of which rounding may
keep other tokens.
"""

import sys

import numpy as np
import torch
from transformers.generation.logits_process import (
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    NoBadWordsLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

SIZE, ROWS, END = 64, 10000, 63
NEAR = 1e-5


class Random:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return (z ^ z >> 31) % n

    def pick(self, *values):
        return values[self.below(len(values))]

    def tokens(self, most):
        return [self.below(SIZE) for _ in range(self.below(most + 1))]


def random_row(number):
    r = Random(number)
    row = dict(logits=[(sum(r.below(4096) for _ in range(4)) - 8190) / 1024 for _ in range(SIZE)])
    row["prompt"], row["drawn"] = [r.below(SIZE)] + r.tokens(10), r.tokens(20)
    row["temperature"] = r.pick(0.0, 0.5, 0.8, 1.0, 1.5)
    row["top_k"] = r.pick(0, 0, 1, 5, 20, 64)
    row["top_p"] = r.pick(1.0, 1.0, 0.9, 0.5, 0.1)
    row["min_p"] = r.pick(0.0, 0.0, 0.02, 0.2)
    row["typical_p"] = r.pick(1.0, 1.0, 0.95, 0.5, 0.1)
    row["repetition"] = r.pick(1.0, 1.0, 1.1, 1.5, 0.75)
    row["frequency"] = r.pick(0.0, 0.0, 0.5, -0.25, 2.0)
    row["presence"] = r.pick(0.0, 0.0, 1.5, -2.0)
    row["bias"] = {t: r.pick(-100.0, -2.5, 1.25, 5.0) for t in r.tokens(4)}
    row["bad"] = r.tokens(3) if r.below(3) == 0 else []
    row["allowed"] = sorted({r.below(SIZE - 1) for _ in range(8)} | set(range(56, 64))) if r.below(4) == 0 else []
    row["min_tokens"] = r.pick(0, 0, 8, 30)
    return row


def apply_processors(row, scores):
    """Changes logits by all that comes before temperature."""
    ids = torch.tensor([row["prompt"] + row["drawn"]])
    if row["bias"]:
        scores = SequenceBiasLogitsProcessor({(t,): b for t, b in row["bias"].items()})(ids, scores)
    if row["allowed"]:
        scores = PrefixConstrainedLogitsProcessor(lambda _, __: row["allowed"], 1)(ids, scores)
    if row["bad"]:
        scores = NoBadWordsLogitsProcessor([[t] for t in set(row["bad"])])(ids, scores)
    if row["min_tokens"]:
        scores = MinNewTokensLengthLogitsProcessor(len(row["prompt"]), row["min_tokens"], END)(ids, scores)
    if row["repetition"] != 1:
        scores = RepetitionPenaltyLogitsProcessor(row["repetition"])(ids, scores)
    counts = torch.bincount(torch.tensor(row["drawn"], dtype=torch.long), minlength=SIZE)[None]
    return scores - row["frequency"] * counts - row["presence"] * (counts > 0)


def warp(warper, scores, share=None):
    """Applies a filter, and says whether rounding may choose otherwise. share is a share of the probability that it
    keeps."""
    after = warper(None, scores)
    kept, dropped = scores[after > -np.inf].double(), scores[(after == -np.inf) & (scores > -np.inf)].double()
    near = len(dropped) > 0 and float(kept.min() - dropped.max()) < NEAR
    if share is not None:
        cumulative = scores[0].double().softmax(-1).sort(descending=True).values.cumsum(-1)
        near = near or bool(((cumulative - share).abs() < NEAR).any())
    return after, near


def warp_typical(mass, scores):
    after = TypicalLogitsWarper(mass)(None, scores)
    logs = scores[0].double().log_softmax(-1)
    p = logs.exp()
    far = torch.where(p > 0, (-logs - -(p * logs).nansum()).abs(), torch.inf)
    far, order = far.sort()
    cumulative = p[order].cumsum(-1)
    near = bool(((cumulative - mass).abs() < NEAR).any())
    is_kept = (after[0][order] > -np.inf).tolist()
    kept = sum(is_kept)
    gap = float(far[kept] - far[kept - 1]) if kept < SIZE else np.inf
    return after, near or gap < NEAR or is_kept != [k < kept for k in range(SIZE)]


def filtered(row, scores):
    near = []
    scores = TemperatureLogitsWarper(row["temperature"])(None, scores)
    if 0 < row["top_k"] < SIZE:
        scores, n = warp(TopKLogitsWarper(row["top_k"]), scores)
        near.append(n)
    if row["top_p"] < 1:
        scores, n = warp(TopPLogitsWarper(row["top_p"]), scores, row["top_p"])
        near.append(n)
    if row["min_p"] > 0:
        relative = (scores - scores.max()).double().exp()
        near.append(bool(((relative - row["min_p"]).abs() < NEAR).any()))
        scores, n = warp(MinPLogitsWarper(row["min_p"]), scores)
        near.append(n)
    if row["typical_p"] < 1:
        scores, n = warp_typical(row["typical_p"], scores)
        near.append(n)
    return scores, any(near)


def line(number):
    row = random_row(number)
    scores = apply_processors(row, torch.tensor([row["logits"]], dtype=torch.float32))
    if row["temperature"] == 0:
        best = scores[0].sort(descending=True).values
        near = float(best[0] - best[1]) < NEAR
        scores = torch.where(scores == best[0], scores, -torch.inf)
    else:
        scores, near = filtered(row, scores)
    if near:
        return "near"
    scores = scores[0].double()
    kept = [t for t in range(SIZE) if scores[t] > -np.inf]
    mask = sum(1 << t for t in kept)
    return f"{mask:016x} {scores[kept].logsumexp(-1):.7g} {sum((t + 1) * float(scores[t]) for t in kept):.8g}"


def main():
    with open(sys.argv[1], "w") as f:
        for number in range(ROWS):
            f.write(line(number) + "\n")


if __name__ == "__main__":
    main()
