"""Writes testdata/goldens/paged_attention_update.json.gz: what the kernel for head_dim 64 computes and stores,
interpreted on a CPU.

As goldens.py, whose `values` are the inputs: queries 1, keys 4, values 5, cache 2, sinks 6. Of the results every 8th
number is kept; of the cache, which holds copies alone, the digest of what it holds in the end, as float32. Tokens of
padding and heads that only fill a register are not compared.
"""
import base64
import gzip
import hashlib
import json
import pathlib

import jax.numpy as jnp
import numpy as np

import tpu_inference_rpa as rpa
from goldens import values
from interpret import interpreted

OUT = pathlib.Path(__file__).resolve().parents[2] / "testdata" / "goldens" / "paged_attention_update.json.gz"
KEEP = 8
TOLERANCE = {"float32": 1e-5, "bfloat16": 3e-2}
BASE = {"heads": 4, "kv_heads": 2, "head_dim": 64, "page_size": 16, "pages": 41, "per_seq": 8, "slots": 6, "tokens": 48,
        "dtype": "float32",
        "scale": 0.125, "window": 0, "soft_cap": 0.0, "queries": 8, "kv_blocks": 2, "alone": False}
CASES = {
    "one token": {"seqs": [[1, 1]]},
    "page edges": {"seqs": [[15, 1], [16, 1], [17, 1], [31, 1], [32, 1], [33, 1]], "alone": True, "tokens": 6},
    "prefill over page edges": {"seqs": [[15, 15], [16, 16], [17, 17]]},
    "mixed": {"seqs": [[64, 20], [1, 1], [33, 1], [24, 24], [90, 1]]},
    "chunks behind a context": {"seqs": [[128, 7], [65, 9], [48, 16]], "queries": 32, "kv_blocks": 4},
    "empty slots": {"seqs": [[20, 3], [40, 1]]},
    "window": {"seqs": [[64, 20], [1, 1], [33, 1], [24, 24], [90, 1]], "window": 16},
    "soft cap": {"seqs": [[64, 20], [33, 1]], "soft_cap": 2.0},
    "large pages": {"seqs": [[150, 30], [64, 1], [65, 1]], "page_size": 64, "per_seq": 4, "kv_blocks": 1},
    "bfloat16": {"seqs": [[64, 20], [1, 1], [33, 1], [24, 24], [90, 1]], "dtype": "bfloat16"},
    "bfloat16 as SmolLM2": {"seqs": [[15, 15], [33, 1]], "dtype": "bfloat16", "heads": 9, "kv_heads": 3},
    "bfloat16 decode as Qwen2.5": {
        "seqs": [[15, 1], [16, 1], [17, 1], [31, 1], [100, 1], [128, 1]], "dtype": "bfloat16", "heads": 14, "tokens": 6,
        "alone": True},
    "sinks": {"seqs": [[64, 20], [1, 1], [33, 1], [24, 24], [90, 1]], "sinks": True},
    "bfloat16 sinks and window as gpt-oss": {
        "seqs": [[64, 20], [1, 1], [33, 1], [24, 24], [90, 1]], "dtype": "bfloat16", "heads": 16, "sinks": True,
        "window": 16},
    "bfloat16 decode with sinks": {
        "seqs": [[15, 1], [16, 1], [17, 1], [31, 1], [100, 1], [128, 1]], "dtype": "bfloat16", "heads": 16, "tokens": 6,
        "alone": True, "sinks": True},
}


def run(name, case):
    c = {**BASE, **case}
    config = {**c, "kv_dtype": c["dtype"]}
    kv_heads, head_dim, width = c["kv_heads"], c["head_dim"], rpa.cache_dims(config)
    q = values((c["tokens"], c["heads"], head_dim), 1) * 4
    k, v = (values((c["tokens"], kv_heads, head_dim), seed) for seed in (4, 5))
    cache = np.zeros((c["pages"], c["page_size"], width[0] * width[1], width[2]), np.float32)
    cache[:, :, :kv_heads] = values((c["pages"], c["page_size"], kv_heads, width[2]), 2)
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
    alone = n if c["alone"] else 0
    sinks = [jnp.asarray(values((c["heads"],), 6) * 4)] if c.get("sinks") else []
    args = lambda: (*(jnp.asarray(x, c["dtype"]) for x in (q, k, v)),
                    jnp.asarray(cache.reshape(cache.shape[:2] + tuple(width)), c["dtype"]),
                    lens, table.reshape(-1), cu, np.array([alone, alone, n], np.int32), *sinks)
    with interpreted(out_of_bounds_reads="raise"):
        out, updated = rpa.attend(config, c["queries"], c["kv_blocks"])(*args())
    options = {"sm_scale": c["scale"], "sliding_window": c["window"] or None, "soft_cap": c["soft_cap"] or None}
    want, stored = rpa.kernel().ref_ragged_paged_attention_hd64(*args(), **options)
    out, want = (np.asarray(x)[:total].astype(np.float32) for x in (out, want))
    if not np.abs(out - want).max() <= TOLERANCE[c["dtype"]]:
        raise SystemExit(f"{name}: kernel and reference differ by {np.abs(out - want).max()}")
    def kept(x):
        return np.ascontiguousarray(np.asarray(x).astype(np.float32).reshape(cache.shape)[:, :, :kv_heads])
    updated, stored = kept(updated), kept(stored)
    if updated.tobytes() != stored.tobytes():
        raise SystemExit(f"{name}: kernel and reference store different caches")
    print(f"{name}: {total} tokens, largest difference from the reference {np.abs(out - want).max():.2g}", flush=True)
    c["page_table"] = table.tolist()
    del c["queries"], c["kv_blocks"]
    return {"name": name, **c, "want": base64.b64encode(np.ascontiguousarray(out[:, :, ::KEEP]).tobytes()).decode(),
            "cache": hashlib.sha256(updated.tobytes()).hexdigest()}


if __name__ == "__main__":
    cases = [run(name, case) for name, case in CASES.items()]
    text = json.dumps({"keep": KEEP, "cases": cases}, separators=(",", ":"), sort_keys=True)
    OUT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(OUT, OUT.stat().st_size, "bytes")
