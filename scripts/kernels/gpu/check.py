"""Runs the Triton kernels of this folder on the CPU, interpreted, against plain attention in float64: python check.py

Ragged batches with padding and shuffled pages; head dims that are no power of two; groups of 1, 3, 4 and 9 heads;
windows, soft caps, contexts in one part and in several.
"""
import os

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch

import paged_attention

LN2 = np.log(2)


def reference(q, cache, table, seqs, positions, page_size, scale, window, cap):
    tokens, heads, _ = q.shape
    group = heads // (cache.shape[2] // 2)
    out = np.zeros(q.shape)
    for t in range(tokens):
        if seqs[t] < 0:
            continue
        end = positions[t] + 1
        n = np.arange(max(end - window, 0), end)
        kv = cache[table[seqs[t], n // page_size], n % page_size]
        for h in range(heads):
            x = kv[:, 2 * (h // group)] @ q[t, h] * scale
            if cap:
                x = cap * np.tanh(x / cap)
            w = np.exp(x - x.max())
            out[t, h] = w @ kv[:, 2 * (h // group) + 1] / w.sum()
    return out


def case(rng, lengths, new, heads, kv_heads, head_dim, page_size, window, cap, m, n, d, split):
    """lengths are those of the sequences, new how many tokens of each are queries; split is the tokens of a part, 0 for
    one part."""
    rows, per_seq = len(lengths) + 1, max(-(-max(lengths) // page_size), 1)
    pages = rng.permutation(rows * per_seq + 3)
    cache = rng.standard_normal((len(pages), page_size, 2 * kv_heads, head_dim)).astype(np.float32)
    table = np.full((rows, per_seq), -1, np.int32)
    seqs, positions, used = [], [], 0
    for s, (length, count) in enumerate(zip(lengths, new)):
        k = -(-length // page_size)
        table[s, :k] = pages[used:used + k]
        used += k
        seqs += [s] * count
        positions += range(length - count, length)
    cache[pages[used:]] = np.nan  # what belongs to nobody is not used
    seqs, positions = np.array(seqs + [-1] * 3, np.int32), np.array(positions + [-1] * 3, np.int32)
    tokens, group = len(seqs), heads // kv_heads
    q = rng.standard_normal((tokens, heads, head_dim)).astype(np.float32)
    scale, window_or_all = head_dim ** -0.5, window or 1 << 30
    rows_of_group = 1 << (group - 1).bit_length()
    queries = 1 if m == 16 and all(c <= 1 for c in new) else m // rows_of_group
    splits = max(-(-per_seq * page_size // split), 1) if split else 1
    t = lambda a: torch.from_numpy(a)
    out = torch.full(q.shape, float("nan"))
    parts = torch.full((tokens, heads, splits, head_dim), float("nan"))
    maxima, totals = (torch.full((tokens, heads, splits), float("nan")) for _ in range(2))
    seqs_t, positions_t = t(seqs), t(positions)
    grid = (-(-tokens // queries), kv_heads, splits)
    paged_attention.attend[grid](t(q), t(cache), t(table), seqs_t, positions_t, parts if split else out, maxima, totals,
                                 tokens, heads, kv_heads, group, rows_of_group, queries, head_dim,
                                 page_size, per_seq, window_or_all, split or 1 << 30, splits, scale, cap or 1.0, M=m,
                                 N=n, D=d, SPLIT=bool(split), CAP=bool(cap), PRECISION="ieee")
    if split:
        paged_attention.combine[(tokens, heads)](
            parts, maxima, totals, seqs_t, positions_t, out, heads, head_dim, window_or_all, split, splits, D=d)
    want = reference(
        q.astype(np.float64), np.nan_to_num(cache).astype(np.float64), table, seqs, positions, page_size, scale,
        window_or_all, cap)
    error = np.abs(out.numpy() - want).max()
    assert error < 1e-5, error
    return error


def main():
    rng = np.random.default_rng(1)
    n = 0
    for page_size in [5, 16, 64]:
        for heads, kv_heads, head_dim, d in [(9, 3, 64, 64), (4, 4, 16, 16), (8, 2, 48, 64), (9, 1, 80, 128)]:
            for window, cap in [(0, 0), (7, 0), (100, 30), (0, 2)]:
                for split in [0, 32, 64]:
                    lengths = [1, 31, 32, 33, page_size, page_size + 1, 130]
                    case(rng, lengths, [1] * 7, heads, kv_heads, head_dim, page_size, window, cap, 16, 32, d, split)
                    n += 1
                case(
                    rng, [40, 3, 70, 1, 33], [40, 2, 19, 1, 1], heads, kv_heads, head_dim, page_size, window, cap, 64,
                    32, d, 0)
                n += 1
    print(f"{n} batches agree with plain attention within 1e-5")


if __name__ == "__main__":
    main()
