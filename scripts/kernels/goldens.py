"""Writes testdata/goldens/ragged_paged_attention.json.gz: what the kernel of the payloads computes, interpreted on
a CPU.

Inputs are not stored but made by `values`, which the Go test knows too. Of the results every 16th number of each head
is kept. A case has the shapes, and its sequences as [length, new tokens]; their pages are drawn from a permutation of
all.
"""
import base64
import gzip
import json
import pathlib

import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ragged_paged_attention, ref_ragged_paged_attention

from interpret import interpreted

OUT = pathlib.Path(__file__).resolve().parents[2] / "testdata" / "goldens" / "ragged_paged_attention.json.gz"
KEEP = 16
TOLERANCE = {"float32": 2e-6, "bfloat16": 2e-2}


def values(shape, seed):
    """Numbers k/128 from -1 to 1, which bfloat16 holds exactly, by a hash of their place."""
    x = np.arange(np.prod(shape), dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed * 40503 + 12345)
    x ^= x >> np.uint32(16)
    x *= np.uint32(2246822519)
    x ^= x >> np.uint32(13)
    x *= np.uint32(3266489917)
    return ((x >> np.uint32(24)).astype(np.float32) / 128 - 1).reshape(shape)


BASE = {"heads": 4, "kv_heads": 2, "head_dim": 128, "page_size": 16, "pages": 41, "per_seq": 8, "slots": 6,
        "tokens": 48, "dtype": "float32",
        "scale": 0.125, "window": 0, "soft_cap": 0.0, "queries": 8, "kv_blocks": 2}
CASES = {
    "one token": {"seqs": [[1, 1]]},
    "page edges": {"seqs": [[15, 1], [16, 1], [17, 1], [31, 1], [32, 1], [33, 1]]},
    "prefill over page edges": {"seqs": [[15, 15], [16, 16], [17, 17]]},
    "prefill in blocks": {"seqs": [[100, 45]], "queries": 32},
    "mixed": {"seqs": [[64, 20], [1, 1], [33, 1], [24, 24], [90, 1]]},
    "chunks behind a context": {"seqs": [[128, 7], [65, 9], [48, 16]], "queries": 32, "kv_blocks": 4},
    "empty slots": {"seqs": [[20, 3], [40, 1]]},
    "window": {"seqs": [[64, 20], [1, 1], [33, 1], [24, 24], [90, 1]], "window": 16},
    "window of one": {"seqs": [[40, 12], [9, 1]], "window": 1},
    "wide window": {"seqs": [[100, 30], [128, 1]], "window": 40, "queries": 32},
    "soft cap": {"seqs": [[64, 20], [33, 1]], "soft_cap": 2.0},
    "one KV head": {"seqs": [[50, 20], [33, 1]], "heads": 5, "kv_heads": 1},
    "as many KV heads as heads": {"seqs": [[50, 20], [33, 1]], "heads": 4, "kv_heads": 4},
    "large pages": {"seqs": [[150, 30], [64, 1], [65, 1]], "page_size": 64, "per_seq": 4, "kv_blocks": 1},
    "bfloat16": {"seqs": [[64, 20], [1, 1], [33, 1], [24, 24], [90, 1]], "dtype": "bfloat16"},
    "bfloat16 decode": {
        "seqs": [[15, 1], [16, 1], [17, 1], [31, 1], [100, 1], [128, 1]], "dtype": "bfloat16", "heads": 8, "tokens": 6},
}


def run(name, case):
    c = {**BASE, **case}
    q = values((c["tokens"], c["heads"], c["head_dim"]), 1) * 4
    cache = values((c["pages"], c["page_size"], 2 * c["kv_heads"], c["head_dim"]), 2)
    free = list(np.argsort(values((c["pages"],), 3), kind="stable"))
    table = np.zeros((c["slots"], c["per_seq"]), np.int32)
    lens, cu = np.zeros(c["slots"], np.int32), np.zeros(c["slots"] + 1, np.int32)
    for i, (length, fresh) in enumerate(c["seqs"]):
        for j in range(-(-length // c["page_size"])):
            table[i, j] = free.pop(0)
        lens[i], cu[i + 1] = length, cu[i] + fresh
    n, total = len(c["seqs"]), int(cu[len(c["seqs"])])
    cu[n + 1:] = total
    assert total <= c["tokens"]
    args = (jnp.asarray(q, c["dtype"]), jnp.asarray(cache, c["dtype"]), lens, table, cu, np.array([n], np.int32))
    options = {"sm_scale": c["scale"], "sliding_window": c["window"] or None, "soft_cap": c["soft_cap"] or None}
    with interpreted(out_of_bounds_reads="raise"):
        out = np.asarray(ragged_paged_attention(
            *args, **options, num_kv_pages_per_block=c["kv_blocks"],
            num_queries_per_block=c["queries"]))[:total].astype(np.float32)
    want = np.asarray(ref_ragged_paged_attention(*args, **options)).astype(np.float32)
    if not np.abs(out - want).max() <= TOLERANCE[c["dtype"]]:
        raise SystemExit(f"{name}: kernel and reference differ by {np.abs(out - want).max()}")
    print(f"{name}: {total} tokens, largest difference from the reference {np.abs(out - want).max():.2g}")
    c["page_table"] = table.tolist()
    del c["queries"], c["kv_blocks"]
    return {"name": name, **c, "want": base64.b64encode(np.ascontiguousarray(out[:, :, ::KEEP]).tobytes()).decode()}


if __name__ == "__main__":
    cases = [run(name, case) for name, case in CASES.items()]
    text = json.dumps({"keep": KEEP, "cases": cases}, separators=(",", ":"), sort_keys=True)
    OUT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(OUT, OUT.stat().st_size, "bytes")
