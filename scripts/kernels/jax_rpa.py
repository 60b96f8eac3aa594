"""JAX's ragged paged attention (jax.experimental.pallas.ops.tpu.ragged_paged_attention), for head_dim 128 and its
multiples.

It reads a cache [P, page, 2*KVH, D] with heads k0,v0,k1,v1,... and writes nothing to it.
"""
import functools

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ragged_paged_attention

import template

KERNEL = "ragged_paged_attention"
SOURCE = "jax.experimental.pallas.ops.tpu.ragged_paged_attention"
VMEM = 16 << 20  # what a kernel gets by default

# All are encoded in 3 bytes. Q counts blocks of queries.
BASE = {"P": 300007, "S": 400009, "PP": 500009, "Q": 600011}
OTHER = {"P": 310019, "S": 410009, "PP": 510007, "Q": 610031}
EXPRESSIONS = [(symbol, 1, plus) for symbol in BASE for plus in (0, 1)]


def vmem_bytes(config, queries, pages):
    """What the kernel keeps in VMEM: two buffers of KV, queries and results twice, sums in float32, and the scores of a
    KV head."""
    h, kvh, d = config["heads"], config["kv_heads"], config["head_dim"]
    size, kv_size = jnp.dtype(config["dtype"]).itemsize, jnp.dtype(config["kv_dtype"]).itemsize
    tokens, rows = pages * config["page_size"], queries * h // kvh
    buffers = 2 * tokens * 2 * kvh * d * kv_size + 4 * queries * h * d * size
    sums = 2 * kvh * rows * 128 * 4 + queries * h * d * 4
    scores = 4 * rows * max(tokens, 128) * 4 + 4 * tokens * d * 4
    return buffers + sums + scores


def blocks(config, queries):
    """Chooses (queries, pages) a block: 256 tokens of context, less where VMEM does not hold it."""
    pages = max(1, 256 // config["page_size"])
    while vmem_bytes(config, queries, pages) > VMEM * 3 // 4 and pages > 1:
        pages //= 2
    while vmem_bytes(config, queries, pages) > VMEM * 3 // 4 and queries > 8:
        queries //= 2
    if vmem_bytes(config, queries, pages) > VMEM:
        raise SystemExit(f"no block of queries and pages fits {VMEM >> 20} MiB of VMEM for {config}")
    return queries, pages


def operands(config, sizes, queries):
    s, pp, i32 = sizes["S"], sizes["PP"], jnp.int32
    shape = jax.ShapeDtypeStruct
    return (
        shape((sizes["Q"] * queries, config["heads"], config["head_dim"]), config["dtype"]),
        shape((sizes["P"], config["page_size"], 2 * config["kv_heads"], config["head_dim"]), config["kv_dtype"]),
        shape((s,), i32), shape((s, pp), i32), shape((s + 1,), i32), shape((1,), i32),
    )


def attend(config, queries, pages, vmem_limit=None):
    """The kernel's function: (q, cache, lens, pages, cu_q_lens, num_seqs) -> o."""
    return functools.partial(
        ragged_paged_attention, sm_scale=config["scale"], sliding_window=config["window"] or None,
        soft_cap=config["soft_cap"] or None, num_kv_pages_per_block=pages, num_queries_per_block=queries,
        vmem_limit_bytes=vmem_limit or None)


def capture(config, queries, pages, vmem_limit=None):
    """Returns (header, body) for config: heads, kv_heads, head_dim, page_size, dtype, kv_dtype, scale, window,
    soft_cap."""
    fn = attend(config, queries, pages, vmem_limit)
    cache = ["P", config["page_size"], 2 * config["kv_heads"], config["head_dim"]]
    q = ["T", config["heads"], config["head_dim"]]
    header = {
        "kernel": KERNEL, "source": SOURCE, "config": config,
        "blocks": {"queries": queries, "pages": pages, "vmem_limit": vmem_limit or 0},
        "operands": [
            {"name": "kv_lens", "dtype": "int32", "dims": ["S"]},
            {"name": "page_indices", "dtype": "int32", "dims": ["S", "PP"]},
            {"name": "cu_q_lens", "dtype": "int32", "dims": ["S+1"]},
            {"name": "zero", "dtype": "int32", "dims": [2]},
            {"name": "num_seqs", "dtype": "int32", "dims": [1]},
            {"name": "q", "dtype": config["dtype"], "dims": q},
            {"name": "kv_pages", "dtype": config["kv_dtype"], "dims": cache},
        ],
        "results": [{"name": "o", "dtype": config["dtype"], "dims": q}],
    }
    # Q counts blocks of queries: T tokens are ceil(T / queries) blocks. The sizes of the last sample are small ones
    # that also occur elsewhere in a body.
    samples = [
        {"P": 4099, "S": 61, "PP": 257, "Q": 17}, {"P": 91, "S": 256, "PP": 64, "Q": 2},
        {"P": 128, "S": 16, "PP": max(16, pages), "Q": 1}]
    return template.make(
        header, lambda sizes: template.lower(fn, operands(config, sizes, queries), 1)[0], samples, BASE, OTHER,
        EXPRESSIONS)
