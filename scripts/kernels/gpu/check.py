"""Runs the Triton kernels of this folder on the CPU, interpreted, against plain attention in float64: python check.py

Ragged batches with padding and shuffled pages; head dims that are no power of two; groups of 1, 3, 4 and 9 heads;
windows, soft caps, attention sinks, contexts in one part and in several; a head dim of 512; latents.
"""
import os

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch

import paged_attention

LN2 = np.log(2)


def reference(q, cache, table, seqs, positions, sinks, page_size, scale, window, cap):
    tokens, heads, _ = q.shape
    each = min(cache.shape[2], 2)  # vectors of a token in a KV head: values are the keys where there is one
    group = heads // (cache.shape[2] // each)
    out = np.zeros(q.shape)
    for t in range(tokens):
        if seqs[t] < 0:
            continue
        end = positions[t] + 1
        n = np.arange(max(end - window, 0), end)
        kv = cache[table[seqs[t], n // page_size], n % page_size]
        for h in range(heads):
            x = kv[:, each * (h // group)] @ q[t, h] * scale
            if cap:
                x = cap * np.tanh(x / cap)
            top = x.max() if sinks is None else max(x.max(), sinks[h])
            w = np.exp(x - top)
            total = w.sum() + (0 if sinks is None else np.exp(sinks[h] - top))
            out[t, h] = w @ kv[:, each * (h // group) + each - 1] / total
    return out


def case(rng, lengths, new, heads, kv_heads, head_dim, page_size, window, cap, m, n, d, split, sink=False, rest=0):
    """lengths are those of the sequences, new how many tokens of each are queries; split is the tokens of a part, 0 for
    one part. With rest keys are values, and kv_heads is how many programs have the query heads of a token."""
    rows, per_seq = len(lengths) + 1, max(-(-max(lengths) // page_size), 1)
    pages = rng.permutation(rows * per_seq + 3)
    cache = rng.standard_normal((len(pages), page_size, 1 if rest else 2 * kv_heads, head_dim)).astype(np.float32)
    table = np.full((rows, per_seq), -1, np.int32)
    seqs, positions, used = [], [], 0
    for s, (length, count) in enumerate(zip(lengths, new)):
        k = -(-length // page_size)
        table[s, :k] = pages[used:used + k]
        used += k
        seqs += [s] * count
        positions += range(length - count, length)
    cache[pages[used:]] = np.nan  # pages that belong to no sequence must not be used
    seqs, positions = np.array(seqs + [-1] * 3, np.int32), np.array(positions + [-1] * 3, np.int32)
    tokens, group = len(seqs), heads // kv_heads
    q = rng.standard_normal((tokens, heads, head_dim)).astype(np.float32)
    scale, window_or_all = head_dim ** -0.5, window or 1 << 30
    rows_of_group = 1 << (group - 1).bit_length()
    queries = 1 if m == 16 and all(c <= 1 for c in new) else m // rows_of_group
    sinks = (3 * rng.standard_normal(heads)).astype(np.float32) if sink else None
    splits = max(-(-per_seq * page_size // split), 1) if split else 1
    t = lambda a: torch.from_numpy(a)
    out = torch.full(q.shape, float("nan"))
    parts = torch.full((tokens, heads, splits, head_dim), float("nan"))
    maxima, totals = (torch.full((tokens, heads, splits), float("nan")) for _ in range(2))
    seqs_t, positions_t = t(seqs), t(positions)
    sinks_t = t(sinks) if sink else None
    grid = (-(-tokens // queries), kv_heads, splits)
    paged_attention.attend[grid](t(q), t(cache), t(table), seqs_t, positions_t, None if split else sinks_t,
                                 parts if split else out, maxima, totals,
                                 tokens, heads, kv_heads, group, rows_of_group, queries, head_dim,
                                 page_size, per_seq, window_or_all, split or 1 << 30, splits, scale, cap or 1.0, M=m,
                                 N=n, D=d, SPLIT=bool(split), CAP=bool(cap), PRECISION="ieee", REST=rest)
    if split:
        paged_attention.combine[(tokens, heads)](
            parts, maxima, totals, seqs_t, positions_t, sinks_t, out, heads, head_dim, window_or_all, split, splits,
            D=1024 if rest else d)
    want = reference(
        q.astype(np.float64), np.nan_to_num(cache).astype(np.float64), table, seqs, positions, sinks, page_size, scale,
        window_or_all, cap)
    error = np.abs(out.numpy() - want).max()
    assert error < 1e-5, error
    return error


def batches(rng, sizes, d, n, m, sink, rest=0):
    """Drawn tokens with the context in one part and in several, and prompts."""
    page_size = sizes[3]
    for split in [0, 32, 64]:
        lengths = [1, 31, 32, 33, page_size, page_size + 1, 130]
        case(rng, lengths, [1] * 7, *sizes, 16, n, d, split, sink, rest)
    case(rng, [40, 3, 70, 1, 33], [40, 2, 19, 1, 1], *sizes, m, n, d, 0, sink, rest)
    return 4


def main():
    rng = np.random.default_rng(1)
    n = 0
    for page_size in [5, 16, 64]:
        for heads, kv_heads, head_dim, d in [(9, 3, 64, 64), (4, 4, 16, 16), (8, 2, 48, 64), (9, 1, 80, 128)]:
            for window, cap, sink in [
                    (0, 0, False), (7, 0, False), (100, 30, False), (0, 2, False), (0, 0, True), (7, 0, True)]:
                sizes = heads, kv_heads, head_dim, page_size, window, cap
                n += batches(rng, sizes, d, 32, 64, sink)
    for head_dim, window, sink in [(512, 0, False), (512, 100, False), (400, 0, True)]:
        n += batches(rng, (8, 1, head_dim, 16, window, 0), 512, 16, 32, sink)
    for heads, head_dim, window in [(8, 576, 0), (3, 550, 100)]:
        n += batches(rng, (heads, 2 if heads % 2 == 0 else 1, head_dim, 16, window, 0), 512, 16, 32, False, 64)
    print(f"{n} batches agree with plain attention within 1e-5")


if __name__ == "__main__":
    main()
