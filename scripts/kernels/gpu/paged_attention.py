"""Ragged paged attention for GPUs: the composites ragged_paged_attention and latent_attention of package attention, in
Triton.

Scores are kept times log2(e), for exponentials of base 2. An attention sink is one more score of a head, whose value is
zeros. The head's sums begin with it: in attend where the context is one part, in combine where there are several.

With REST values are their keys (latents): a token has one vector of up to D + REST numbers for all heads. `kv` then
counts blocks of `group` query heads.
"""
import triton
import triton.language as tl

LOWEST = tl.constexpr(-1e30)
FAR = tl.constexpr(2**30)
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def attend(q, cache, table, seqs, positions, sinks, out, maxima, totals,
           tokens, heads, kv_heads, group, group_rows, queries, head_dim, page_size, pages_per_seq, window, chunk,
           splits, scale, soft_cap,
           M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, SPLIT: tl.constexpr, CAP: tl.constexpr,
           PRECISION: tl.constexpr, REST: tl.constexpr):
    """One program: `queries` tokens, one KV head and one part of the context."""
    kv = tl.program_id(1)
    split = tl.program_id(2)
    rows = tl.arange(0, M)
    token = tl.program_id(0) * queries + rows // group_rows
    member = rows % group_rows
    inside = (rows // group_rows < queries) & (member < group) & (token < tokens)
    seq = tl.load(seqs + token, mask=inside, other=-1)
    pos = tl.load(positions + token, mask=inside, other=-1)
    end = tl.where(seq >= 0, pos + 1, 0)
    start = tl.maximum(end - window, 0)
    d = tl.arange(0, D)
    wide = d < head_dim
    head = token * heads + kv * group + member
    queried = tl.load(q + head[:, None] * head_dim + d[None, :], mask=inside[:, None] & wide[None, :], other=0.0)
    if sinks is not None:
        top = tl.load(sinks + kv * group + member, mask=inside, other=0.0) * LOG2E
        total = tl.full([M], 1.0, tl.float32)
    else:
        top = tl.full([M], LOWEST, tl.float32)
        total = tl.zeros([M], tl.float32)
    acc = tl.zeros([M, D], tl.float32)
    if REST:
        d_rest = D + tl.arange(0, REST)
        wide_rest = d_rest < head_dim
        queried_rest = tl.load(
            q + head[:, None] * head_dim + d_rest[None, :], mask=inside[:, None] & wide_rest[None, :], other=0.0)
        acc_rest = tl.zeros([M, REST], tl.float32)
    first = tl.min(tl.where(seq >= 0, seq, FAR), 0)
    last = tl.max(seq, 0)
    for s in range(first, last + 1):
        mine = seq == s
        hi = tl.minimum(tl.max(tl.where(mine, end, 0), 0), (split + 1) * chunk)
        lo = tl.maximum(tl.min(tl.where(mine, start, FAR), 0), split * chunk) // N * N
        for block in range(lo, hi, N):
            n = block + tl.arange(0, N)
            there = n < hi
            page = tl.load(table + s * pages_per_seq + n // page_size, mask=there, other=0)
            if REST:
                place = tl.maximum(page, 0).to(tl.int64) * page_size + n % page_size
            else:
                place = (tl.maximum(page, 0).to(tl.int64) * page_size + n % page_size) * (2 * kv_heads) + 2 * kv
            at = place * head_dim
            here = cache + at[:, None] + d[None, :]
            inside_kv = there[:, None] & wide[None, :]
            keys = tl.load(here, mask=inside_kv, other=0.0)
            x = tl.dot(queried, tl.trans(keys), input_precision=PRECISION)
            if REST:
                keys_rest = tl.load(
                    cache + at[:, None] + d_rest[None, :], mask=there[:, None] & wide_rest[None, :], other=0.0)
                x = tl.dot(queried_rest, tl.trans(keys_rest), x, input_precision=PRECISION)
            x = x * scale
            if CAP:
                x = soft_cap * (1 - 2 / (tl.exp2(x * (2 * LOG2E / soft_cap)) + 1))
            x = x * LOG2E
            seen = mine[:, None] & (n[None, :] < end[:, None]) & (n[None, :] >= start[:, None])
            x = tl.where(seen, x, LOWEST)
            higher = tl.maximum(top, tl.max(x, 1))
            weights = tl.where(seen, tl.exp2(x - higher[:, None]), 0.0)
            keep = tl.exp2(top - higher)
            total = total * keep + tl.sum(weights, 1)
            if REST:
                values = keys
                acc_rest = tl.dot(
                    weights.to(values.dtype), keys_rest, acc_rest * keep[:, None], input_precision=PRECISION)
            else:
                values = tl.load(here + head_dim, mask=inside_kv, other=0.0)
            acc = tl.dot(weights.to(values.dtype), values, acc * keep[:, None], input_precision=PRECISION)
            top = higher
    if SPLIT:
        if split * chunk < tl.max(end, 0):
            part = head * splits + split
            tl.store(
                out + part[:, None].to(tl.int64) * head_dim + d[None, :], acc, mask=inside[:, None] & wide[None, :])
            if REST:
                tl.store(
                    out + part[:, None].to(tl.int64) * head_dim + d_rest[None, :], acc_rest,
                    mask=inside[:, None] & wide_rest[None, :])
            tl.store(maxima + part, top, mask=inside)
            tl.store(totals + part, total, mask=inside)
    else:
        if REST:
            result_rest = acc_rest / tl.where(total > 0, total, 1.0)[:, None]
            tl.store(
                out + head[:, None] * head_dim + d_rest[None, :], result_rest.to(out.dtype.element_ty),
                mask=inside[:, None] & wide_rest[None, :])
        result = acc / tl.where(total > 0, total, 1.0)[:, None]
        tl.store(
            out + head[:, None] * head_dim + d[None, :], result.to(out.dtype.element_ty),
            mask=inside[:, None] & wide[None, :])


@triton.jit
def combine(parts, maxima, totals, seqs, positions, sinks, out, heads, head_dim, window, chunk, splits,
            D: tl.constexpr):
    """One program: one head of one token; the parts of its context in their order."""
    token = tl.program_id(0)
    head = token * heads + tl.program_id(1)
    seq = tl.load(seqs + token)
    end = tl.where(seq >= 0, tl.load(positions + token) + 1, 0)
    start = tl.maximum(end - window, 0)
    d = tl.arange(0, D)
    if sinks is not None:
        top = tl.load(sinks + tl.program_id(1)) * LOG2E
        total = 1.0
    else:
        top = LOWEST + 0.0
        total = 0.0
    acc = tl.zeros([D], tl.float32)
    for split in range(start // chunk, (end + chunk - 1) // chunk):
        part = head * splits + split
        m = tl.load(maxima + part)
        higher = tl.maximum(top, m)
        keep = tl.exp2(top - higher)
        weight = tl.exp2(m - higher)
        total = total * keep + tl.load(totals + part) * weight
        acc = acc * keep + tl.load(parts + part.to(tl.int64) * head_dim + d, mask=d < head_dim, other=0.0) * weight
        top = higher
    result = acc / tl.where(total > 0, total, 1.0)
    tl.store(out + head * head_dim + d, result.to(out.dtype.element_ty), mask=d < head_dim)
