"""Writes testdata/goldens/paged_attention_update.json.gz: what the kernels of the payloads compute and store,
interpreted on a CPU.

Inputs are not stored but made by `values`, which the Go test knows too: queries 1, keys 4, values 5, cache 2, sinks 6.
A case has the shapes, and its sequences as [length, new tokens]; their pages are drawn from a permutation of all. Of
the results every 8th number is kept; of the cache, which holds copies alone, the digest of what it holds in the end, as
float32. Tokens of padding and heads that only fill a register are not compared. The cases have the shapes of the tests
that come with the kernels, with shorter sequences.
"""
import base64
import gzip
import hashlib
import json
import pathlib

import jax.numpy as jnp
import numpy as np

import tpu_inference_rpa as rpa
from interpret import interpreted

OUT = pathlib.Path(__file__).resolve().parents[2] / "testdata" / "goldens" / "paged_attention_update.json.gz"
KEEP = 8
TOLERANCE = {"float32": 1e-5, "bfloat16": 3e-2}


def values(shape, seed):
    """Numbers k/128 from -1 to 1, which bfloat16 holds exactly, by a hash of their place."""
    x = np.arange(np.prod(shape), dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed * 40503 + 12345)
    x ^= x >> np.uint32(16)
    x *= np.uint32(2246822519)
    x ^= x >> np.uint32(13)
    x *= np.uint32(3266489917)
    return ((x >> np.uint32(24)).astype(np.float32) / 128 - 1).reshape(shape)


BASE = {"heads": 4, "kv_heads": 2, "head_dim": 128, "page_size": 16, "pages": 41, "per_seq": 8, "slots": 6,
        "tokens": 48, "dtype": "float32", "scale": 0.125, "window": 0, "soft_cap": 0.0, "queries": 8, "kv_blocks": 2,
        "alone": False}
EDGES = {"seqs": [[15, 1], [16, 1], [17, 1], [31, 1], [32, 1], [33, 1]], "alone": True, "tokens": 6}
MIXED = {"seqs": [[64, 20], [1, 1], [33, 1], [24, 24], [90, 1]]}
DECODE = {"seqs": [[15, 1], [16, 1], [17, 1], [31, 1], [100, 1], [128, 1]], "alone": True, "tokens": 6}
FLOAT8 = {"dtype": "bfloat16", "kv_dtype": "float8_e4m3fn"}
CASES = {
    "one token": {"seqs": [[1, 1]]},
    "page edges": EDGES,
    "prefill over page edges": {"seqs": [[15, 15], [16, 16], [17, 17]]},
    "prefill in blocks": {"seqs": [[100, 45]], "queries": 32},
    "mixed": MIXED,
    "chunks behind a context": {"seqs": [[128, 7], [65, 9], [48, 16]], "queries": 32, "kv_blocks": 4},
    "blocks multiplied in parts": {**MIXED, "kv_blocks": 4, "context": 32},
    "decode in parts": {**DECODE, "kv_blocks": 8, "context": 32},
    "empty slots": {"seqs": [[20, 3], [40, 1]]},
    "window": {**MIXED, "window": 16},
    "window of one": {"seqs": [[40, 12], [9, 1]], "window": 1},
    "wide window": {"seqs": [[100, 30], [128, 1]], "window": 40, "queries": 32},
    "decode with a window": {**DECODE, "window": 20},
    "soft cap": {"seqs": [[64, 20], [33, 1]], "soft_cap": 2.0},
    "decode with a soft cap": {**EDGES, "soft_cap": 2.0},
    "one KV head": {"seqs": [[50, 20], [33, 1]], "heads": 5, "kv_heads": 1},
    "three KV heads": {"seqs": [[50, 20], [33, 1]], "heads": 3, "kv_heads": 3},
    "as many KV heads as heads": {"seqs": [[50, 20], [33, 1]], "heads": 4, "kv_heads": 4},
    "large pages": {"seqs": [[150, 30], [64, 1], [65, 1]], "page_size": 64, "per_seq": 4, "kv_blocks": 1},
    "pages of 128 and a window": {
        "seqs": [[300, 30], [128, 1], [129, 1]], "page_size": 128, "per_seq": 4, "kv_blocks": 2, "window": 40},
    "heads of 256": {**MIXED, "head_dim": 256},
    "bfloat16": {**MIXED, "dtype": "bfloat16"},
    "bfloat16 decode": {**DECODE, "dtype": "bfloat16", "heads": 8},
    "bfloat16, odd heads": {**MIXED, "dtype": "bfloat16", "heads": 5, "kv_heads": 1},
    "bfloat16, three KV heads": {**DECODE, "dtype": "bfloat16", "heads": 6, "kv_heads": 3},
    "bfloat16 as Gemma 2 27B": {**MIXED, "dtype": "bfloat16", "scale": 1 / 12, "window": 16, "soft_cap": 2.0},
    "bfloat16 decode as Gemma 3 on pages of 128": {
        **DECODE, "dtype": "bfloat16", "head_dim": 256, "page_size": 128, "per_seq": 2, "kv_blocks": 2, "window": 20,
        "seqs": [[15, 1], [127, 1], [128, 1], [129, 1], [200, 1], [256, 1]]},
    "bfloat16 as Gemma": {**MIXED, "dtype": "bfloat16", "head_dim": 256, "window": 16, "soft_cap": 2.0},
    "float8": {**MIXED, **FLOAT8},
    "float8 decode": {**DECODE, **FLOAT8, "heads": 8},
    "float8, one KV head": {**MIXED, **FLOAT8, "heads": 5, "kv_heads": 1},
}
CASES_64 = {
    "one token": {"seqs": [[1, 1]]},
    "page edges": EDGES,
    "prefill over page edges": {"seqs": [[15, 15], [16, 16], [17, 17]]},
    "mixed": MIXED,
    "chunks behind a context": {"seqs": [[128, 7], [65, 9], [48, 16]], "queries": 32, "kv_blocks": 4},
    "empty slots": {"seqs": [[20, 3], [40, 1]]},
    "window": {**MIXED, "window": 16},
    "soft cap": {"seqs": [[64, 20], [33, 1]], "soft_cap": 2.0},
    "large pages": {"seqs": [[150, 30], [64, 1], [65, 1]], "page_size": 64, "per_seq": 4, "kv_blocks": 1},
    "bfloat16": {**MIXED, "dtype": "bfloat16"},
    "bfloat16 as SmolLM2": {"seqs": [[15, 15], [33, 1]], "dtype": "bfloat16", "heads": 9, "kv_heads": 3},
    "bfloat16 decode as Qwen2.5": {**DECODE, "dtype": "bfloat16", "heads": 14},
    "sinks": {**MIXED, "sinks": True},
    "bfloat16 sinks and window as gpt-oss": {
        **MIXED, "dtype": "bfloat16", "heads": 16, "sinks": True, "window": 16},
    "bfloat16 decode with sinks": {**DECODE, "dtype": "bfloat16", "heads": 16, "sinks": True},
    "float8, three KV heads": {**MIXED, **FLOAT8, "heads": 9, "kv_heads": 3},
    "float8 decode with sinks": {**DECODE, **FLOAT8, "heads": 16, "sinks": True},
}


def run(name, case):
    c = {**BASE, **case}
    config = {"kv_dtype": c["dtype"], **c}
    kv_dtype = config["kv_dtype"]
    kv_heads, head_dim, dims = c["kv_heads"], c["head_dim"], rpa.cache_dims(config)
    vectors = kv_heads * 2 * head_dim // dims[2]
    q = values((c["tokens"], c["heads"], head_dim), 1) * 4
    k, v = (values((c["tokens"], kv_heads, head_dim), seed) for seed in (4, 5))
    cache = np.zeros((c["pages"], c["page_size"], dims[0] * dims[1], dims[2]), np.float32)
    cache[:, :, :vectors] = values((c["pages"], c["page_size"], vectors, dims[2]), 2)
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

    def args(q_dtype, kv_dtype, cache):
        return (jnp.asarray(q, q_dtype), *(jnp.asarray(x, kv_dtype) for x in (k, v)), jnp.asarray(cache, kv_dtype),
                lens, table.reshape(-1), cu, np.array([alone, alone, n], np.int32), *sinks)

    given = args(c["dtype"], kv_dtype, cache.reshape(cache.shape[:2] + tuple(dims)))
    sizes = {form: (1 if form == rpa.DECODE else c["queries"], c["kv_blocks"]) for form in rpa.forms(config)}
    rpa.CONTEXT = c.get("context", 256)
    with interpreted(out_of_bounds_reads="raise"):
        out, updated = rpa.attend(config, sizes)(*given)
    if kv_dtype == c["dtype"]:
        want, stored = rpa.reference(config)(*given)
    else:  # the reference rounds weights to the cache's dtype; so it gets the same numbers in float32
        wide = {**config, "dtype": "float32", "kv_dtype": "float32"}
        k, v, cache = (np.asarray(jnp.asarray(x, kv_dtype), np.float32) for x in (k, v, cache))
        dims = rpa.cache_dims(wide)
        want, stored = rpa.reference(wide)(*args(
            "float32", "float32", cache[:, :, :vectors].reshape(cache.shape[:2] + tuple(dims))))
    out, want = (np.asarray(x)[:total].astype(np.float32) for x in (out, want))
    if not np.abs(out - want).max() <= TOLERANCE[c["dtype"]]:
        raise SystemExit(f"{name}: kernel and reference differ by {np.abs(out - want).max()}")
    def kept(x):
        x = np.asarray(x).astype(np.float32)
        return np.ascontiguousarray(x.reshape(*x.shape[:2], -1, x.shape[-1])[:, :, :vectors])
    updated, stored = kept(updated), kept(stored)
    if updated.tobytes() != stored.tobytes():
        raise SystemExit(f"{name}: kernel and reference store different caches")
    print(f"{name}: {total} tokens, largest difference from the reference {np.abs(out - want).max():.2g}", flush=True)
    c["page_table"] = table.tolist()
    for block in ("queries", "kv_blocks", "context"):
        c.pop(block, None)
    return {"name": f"{head_dim}: {name}", **c, "cache": hashlib.sha256(updated.tobytes()).hexdigest(),
            "want": base64.b64encode(np.ascontiguousarray(out[:, :, ::KEEP]).tobytes()).decode()}


if __name__ == "__main__":
    cases = [run(name, case) for name, case in CASES.items()]
    cases += [run(name, {"head_dim": 64, **case}) for name, case in CASES_64.items()]
    text = json.dumps({"keep": KEEP, "cases": cases}, separators=(",", ":"), sort_keys=True)
    OUT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(OUT, OUT.stat().st_size, "bytes")
