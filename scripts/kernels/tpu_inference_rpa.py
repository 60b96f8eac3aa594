"""tpu-inference's ragged paged attention (tpu_inference.kernels.ragged_paged_attention.v3), which takes the new keys
and values, writes them into the cache and attends.

kernel_hd64 is for a head_dim of 64. Its cache is [P, page, KVH / packing, packing, 128], with a head's key and value
side by side; the KV heads are rounded up to whole registers of 32 bits, so that 3 heads of bfloat16 take the room of 4.
One body has both ways, for sequences of one query and for others.

kernel is for head dims that are multiples of 128. Its cache is [P, page, 2 * KVH / packing, packing, D], with heads
k0,v0,k1,v1,... It is two bodies, called one after the other: one for sequences of one query, one for any.

Both say which kernel they are by package version. Only their files are loaded: the package around them serves models.
"""
import functools
import importlib.metadata
import importlib.util
import pathlib
import re
import sys
import types

import jax
import jax.experimental.pallas as pl
import jax.experimental.pallas.tpu as pltpu
import jax.numpy as jnp

import template

KERNEL = "paged_attention_update"
FOLDER = "tpu_inference.kernels.ragged_paged_attention.v3"
PACKAGE, VERSION = "tpu-inference", "0.32.0"  # installed without its dependencies, which include a different JAX
VMEM = 16 << 20
LANES = 128
BOTH, DECODE, MIXED = "", "decode", "mixed"  # which sequences a body is for

# The context that a body multiplies at a time: the same for both, and for all page sizes, so that a token's sums have
# the same order wherever it is computed.
CONTEXT = 256

# The context that is fetched at a time, and the queries with it, in the order in which they are tried.
FETCHED = {
    DECODE: [(1, 1024), (1, 512), (1, 256)],
    MIXED: [(128, 512), (64, 512), (32, 512), (32, 256), (16, 256), (8, 256)],
}

# The queries and the context of a block of a second payload, for a compiler that refuses the first.
SMALLER = {BOTH: (8, CONTEXT), DECODE: (1, CONTEXT), MIXED: (16, CONTEXT)}

# A block has at most so many pages: each is a copy of its own, which a body starts even after a sequence's end.
PAGES = 16

# Small enough for the encodings that the bytecode uses for them: 3 bytes, 2 for S and PP, 4 for the tokens of all
# pages.
BASE = {"P": 100003, "S": 1009, "PP": 499, "T": 200003}
OTHER = {"P": 110017, "S": 1013, "PP": 503, "T": 210011}


# What is changed in the published kernel for multiples of 128 before it is lowered: patterns, each of which has to
# occur once, and what replaces it.
CHANGES = [
    # The sums of results have their dtype as published: in bfloat16 a long context would be lost in them. They are in
    # float32 here (see `attend`), and are rounded where the kernel stores them.
    (r"bitcast\(out,", "bitcast(out.astype(q_dtype),"),
    # With a window, each block of queries starts at the first context that it sees, and only the last one stores new
    # keys and values: earlier ones would never be stored, but other sequences share their pages. So all start at the
    # first context that the sequence sees.
    (r"processed_q_len - sliding_window", "kv_q_gap - sliding_window"),
    (r"kv_q_gap \+\s+\(bq_idx \+ 1\) \* actual_bq_sz - sliding_window", "kv_q_gap - sliding_window"),
]


def source(config):
    """The Python module of the kernel for a config."""
    return f"{FOLDER}.{'kernel_hd64' if config['head_dim'] == 64 else 'kernel'}"


def kernel(config):
    """Loads the kernel's module, and nothing of its package else."""
    return _kernel(source(config))


@functools.cache
def _kernel(name):
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"the kernel is in a package more: python -m pip install --no-deps {PACKAGE}=={VERSION}")
    folder = pathlib.Path(distribution.locate_file("")) / FOLDER.replace(".", "/")
    if not hasattr(pltpu, "reciprocal"):  # jax 0.10 has it under a different name
        pltpu.reciprocal = pl.reciprocal
    parts = name.split(".")
    for n in range(1, len(parts)):
        package = types.ModuleType(".".join(parts[:n]))
        package.__path__ = []
        sys.modules[package.__name__] = package
    for module_name, attribute in (("logger", "init_logger"), ("utils", "get_device_name")):
        module = types.ModuleType(f"{parts[0]}.{module_name}")
        setattr(module, attribute, lambda *_: None)
        sys.modules[module.__name__] = module
    for part in ("util", "tuned_block_sizes_hd64", parts[-1]):
        full, file = f"{FOLDER}.{part}", folder / f"{part}.py"
        sys.modules[full] = importlib.util.module_from_spec(importlib.util.spec_from_file_location(full, file))
        text = file.read_text()
        for pattern, replacement in CHANGES if part == "kernel" else []:
            text, count = re.subn(pattern, replacement, text)
            if count != 1:
                raise SystemExit(f"{file} has {pattern} {count} times: it is not of {PACKAGE} {VERSION}")
        exec(compile(text, file, "exec"), sys.modules[full].__dict__)
    return sys.modules[name]


def packing(dtype):
    return 4 // jnp.dtype(dtype).itemsize


def width(config):
    """The last axis of queries and cache."""
    return LANES if config["head_dim"] == 64 else config["head_dim"]


def cache_dims(config):
    """The cache's axes behind those of pages and tokens."""
    pack, vectors = packing(config["kv_dtype"]), config["kv_heads"] * 2 * config["head_dim"] // width(config)
    return [-(-vectors // pack), pack, width(config)]


def query_dims(config):
    """The queries' axes behind those of KV heads and tokens: the heads of a KV head, rounded up."""
    pack = packing(config["dtype"])
    return [-(-(config["heads"] // config["kv_heads"]) // pack), pack, width(config)]


def sinks_dims(config):
    """The axes of sinks behind that of KV heads: the heads of a KV head, and a register's lanes, all of one number. The
    kernel takes no odd number of them in bfloat16, for which it would have to add a head."""
    group = config["heads"] // config["kv_heads"]
    if config.get("sinks") and group % packing(config["dtype"]):
        raise SystemExit(f"the kernel takes no sinks of {group} heads a KV head: {config}")
    return [group, LANES]


def forms(config):
    return [BOTH] if config["head_dim"] == 64 else [DECODE, MIXED]


def vmem_bytes(config, queries, tokens):
    """What the kernel keeps in VMEM, and the scores of a KV head; behind them, of the results of all."""
    kv_heads, group, head_dim = config["kv_heads"], config["heads"] // config["kv_heads"], config["head_dim"]
    scratch = kernel(config).get_vmem_estimate_bytes(
        kv_heads, group, head_dim, queries, tokens, config["dtype"], config["kv_dtype"])
    if head_dim == 64:
        return scratch + 4 * queries * group * tokens * 4
    rows = queries * query_dims(config)[0] * query_dims(config)[1]
    return scratch + max(4 * rows * min(tokens, CONTEXT), 3 * kv_heads * rows * head_dim) * 4


def blocks(config, form, queries=0):
    """Chooses (queries, pages) a block for one of the kernel's forms, as large as VMEM holds; with so many queries, if
    given."""
    page, room = config["page_size"], VMEM // 2 if form == BOTH else VMEM * 7 // 8
    wanted = [(32, CONTEXT)] if form == BOTH else FETCHED[form]
    if queries and form != DECODE:
        wanted = [(queries, tokens) for _, tokens in wanted]
    wanted = [(queries, min(tokens, PAGES * page)) for queries, tokens in wanted]
    for queries, tokens in wanted:
        if vmem_bytes(config, queries, max(tokens, page)) <= room:
            break
    pages = max(1, tokens // page)
    while vmem_bytes(config, queries, pages * page) > room and queries > 8:
        queries //= 2
    while vmem_bytes(config, queries, pages * page) > room and pages > 1:
        pages //= 2
    if vmem_bytes(config, queries, pages * page) > VMEM:
        raise SystemExit(f"no block of queries and pages fits {VMEM >> 20} MiB of VMEM for {config}")
    return queries, pages


def smaller(config):
    """The (queries, pages) of smaller blocks than those of `blocks`, by form."""
    return {form: (SMALLER[form][0], max(1, SMALLER[form][1] // config["page_size"])) for form in forms(config)}


def attend(config, sizes, vmem_limit=None):
    """The kernel's function: (q, k, v, cache, lens, pages, cu_q_lens, distribution) -> (o, cache). If the config has
    sinks, the last operand is theirs. sizes are those of `blocks` for each form."""
    options = {"sm_scale": config["scale"], "sliding_window": config["window"] or None,
               "soft_cap": config["soft_cap"] or None, "vmem_limit_bytes": vmem_limit or VMEM}
    if config["head_dim"] == 64:
        # There is no prefill of fixed size: a size of 1 makes its part of the body the smallest.
        queries, pages = sizes[BOTH]
        options.update(num_kv_pages_per_block=pages, num_queries_per_block=queries, chunk_prefill_size=1)
        return functools.partial(kernel(config).ragged_paged_attention_hd64.__wrapped__, **options)
    fetched = {form: (queries, pages * config["page_size"]) for form, (queries, pages) in sizes.items()}
    decode, mixed = (
        (queries, tokens, queries, min(tokens, CONTEXT)) for queries, tokens in (fetched[DECODE], fetched[MIXED]))
    options.update(d_block_sizes=decode, m_block_sizes=mixed, out_dtype=jnp.float32)
    return functools.partial(kernel(config).ragged_paged_attention.__wrapped__, **options)


def reference(config):
    """The plain function that comes with the kernel, which takes and returns the same."""
    options = {"sm_scale": config["scale"], "sliding_window": config["window"] or None,
               "soft_cap": config["soft_cap"] or None}
    if config["head_dim"] == 64:
        return functools.partial(kernel(config).ref_ragged_paged_attention_hd64, **options)
    return functools.partial(kernel(config).ref_ragged_paged_attention, out_dtype=jnp.float32, **options)


def operands(config, sizes):
    shape, t, s, i32 = jax.ShapeDtypeStruct, sizes["T"], sizes["S"], jnp.int32
    kv = shape((t, config["kv_heads"], config["head_dim"]), config["kv_dtype"])
    sinks = [shape((config["heads"],), jnp.float32)] if config.get("sinks") else []
    return (
        shape((t, config["heads"], config["head_dim"]), config["dtype"]), kv, kv,
        shape((sizes["P"], config["page_size"], *cache_dims(config)), config["kv_dtype"]),
        shape((s,), i32), shape((s * sizes["PP"],), i32), shape((s + 1,), i32), shape((3,), i32), *sinks,
    )


def capture(config, sizes, vmem_limit=None):
    """Yields (header, body) for a config, of each of the kernel's forms, with the blocks that sizes has for it."""
    fn = attend(config, sizes, vmem_limit)
    page = config["page_size"]
    q = {"name": "q", "dtype": config["dtype"], "dims": [config["kv_heads"], "T", *query_dims(config)]}
    cache = {"name": "cache", "dtype": config["kv_dtype"], "dims": ["P", page, *cache_dims(config)]}
    i32 = lambda name, dims: {"name": name, "dtype": "int32", "dims": dims}
    given = [
        *([i32("num_seqs", [])] if BOTH in sizes else []), i32("kv_lens", ["S"]), i32("page_indices", ["N"]),
        i32("cu_q_lens", ["S+1"]), i32("distribution", [3]), i32("zeros", [3]), i32("minus_ones", [4]),
        i32("minus_ones", [6]), q, {"name": "kv", "dtype": config["kv_dtype"], "dims": ["T", *cache_dims(config)]},
        cache]
    if config.get("sinks"):
        given.append({"name": "sinks", "dtype": "float32", "dims": [config["kv_heads"], *sinks_dims(config)]})
    expressions = [
        ("P", 1, 0), ("P", page, 0), ("S", 1, 0), ("S", 1, 1), ("PP", 1, 0), ("N", 1, 0), ("N", 1, -1), ("T", 1, 0)]
    # Small numbers, which also occur elsewhere in a body.
    samples = [{"P": 128, "S": 16, "PP": max(16, *(pages for _, pages in sizes.values())), "T": 16}]

    @functools.cache
    def lower(*numbers):
        return template.lower(fn, operands(config, dict(zip(BASE, numbers))), len(sizes))

    for at, (form, (queries, pages)) in enumerate(sizes.items()):
        header = {
            "kernel": KERNEL, "source": source(config), "config": config, **({"form": form} if form else {}),
            "blocks": {"queries": queries, "pages": pages, "vmem_limit": vmem_limit or VMEM},
            "operands": given, "results": [{**q, "name": "o"}, cache],
            "aliases": [[given.index(q), 0], [given.index(cache), 1]],
        }
        header, body = template.make(
            header, lambda numbers: lower(*(numbers[name] for name in BASE))[at], samples, BASE, OTHER, expressions)
        header["versions"][PACKAGE] = importlib.metadata.version(PACKAGE)
        yield header, body
