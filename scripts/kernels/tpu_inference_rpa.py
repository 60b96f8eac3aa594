"""tpu-inference's ragged paged attention for head_dim 64 (tpu_inference.kernels.ragged_paged_attention.v3.kernel_hd64).

It takes the new keys and values, writes them into the cache and attends. The cache is [P, page, KVH / packing, packing,
128], with a head's key and value side by side; the KV heads are rounded up to whole registers of 32 bits, so that 3
heads of bfloat16 take the room of 4. It says which kernel it is by package version. Only its three files are loaded:
the package around them serves models.
"""
import functools
import importlib.metadata
import importlib.util
import pathlib
import sys
import types

import jax
import jax.experimental.pallas as pl
import jax.experimental.pallas.tpu as pltpu
import jax.numpy as jnp

import template

KERNEL = "paged_attention_update"
SOURCE = "tpu_inference.kernels.ragged_paged_attention.v3.kernel_hd64"
PACKAGE, VERSION = "tpu-inference", "0.32.0"  # installed without its dependencies, which include a different JAX
VMEM = 16 << 20

# Small enough for the encodings that the bytecode uses for them: 3 bytes, 2 for S and PP, 4 for the tokens of all
# pages.
BASE = {"P": 100003, "S": 1009, "PP": 499, "T": 200003}
OTHER = {"P": 110017, "S": 1013, "PP": 503, "T": 210011}


@functools.cache
def kernel():
    """Loads the kernel's module, and nothing of its package else."""
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"a head_dim of 64 needs a package more: python -m pip install --no-deps {PACKAGE}=={VERSION}")
    folder = pathlib.Path(distribution.locate_file("")) / "/".join(SOURCE.split(".")[:-1])
    if not hasattr(pltpu, "reciprocal"):  # jax 0.10 has it under a different name
        pltpu.reciprocal = pl.reciprocal
    parts = SOURCE.split(".")
    for n in range(1, len(parts)):
        package = types.ModuleType(".".join(parts[:n]))
        package.__path__ = []
        sys.modules[package.__name__] = package
    for name, attribute in (("logger", "init_logger"), ("utils", "get_device_name")):
        module = types.ModuleType(f"{parts[0]}.{name}")
        setattr(module, attribute, lambda *_: None)
        sys.modules[module.__name__] = module
    for name in ("util", "tuned_block_sizes_hd64", parts[-1]):
        full = ".".join(parts[:-1] + [name])
        spec = importlib.util.spec_from_file_location(full, folder / f"{name}.py")
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[SOURCE]


def packing(dtype):
    return 4 // jnp.dtype(dtype).itemsize


def cache_dims(config):
    """The cache's axes behind those of pages and tokens."""
    pack = packing(config["kv_dtype"])
    return [-(-config["kv_heads"] // pack), pack, 128]


def query_dims(config):
    """The queries' axes behind those of KV heads and tokens: the heads of a KV head, rounded up."""
    pack = packing(config["dtype"])
    return [-(-(config["heads"] // config["kv_heads"]) // pack), pack, 128]


def sinks_dims(config):
    """The axes of sinks behind that of KV heads: the heads of a KV head, and a register's lanes, all of one number. The
    kernel takes no odd number of them in bfloat16, for which it would have to add a head."""
    group = config["heads"] // config["kv_heads"]
    if config.get("sinks") and group % packing(config["dtype"]):
        raise SystemExit(f"the kernel takes no sinks of {group} heads a KV head: {config}")
    return [group, 128]


def blocks(config, queries):
    """Chooses (queries, pages) a block: 256 tokens of context, less where VMEM does not hold it."""
    def size(queries, pages):
        group, tokens = config["heads"] // config["kv_heads"], pages * config["page_size"]
        return kernel().get_vmem_estimate_bytes(
            config["kv_heads"], group, 64, queries, tokens, config["dtype"],
            config["kv_dtype"]) + 4 * queries * group * tokens * 4
    pages = max(1, 256 // config["page_size"])
    while size(queries, pages) > VMEM // 2 and queries > 8:
        queries //= 2
    while size(queries, pages) > VMEM // 2 and pages > 1:
        pages //= 2
    if size(queries, pages) > VMEM:
        raise SystemExit(f"no block of queries and pages fits {VMEM >> 20} MiB of VMEM for {config}")
    return queries, pages


def attend(config, queries, pages, vmem_limit=None):
    """The kernel's function: (q, k, v, cache, lens, pages, cu_q_lens, distribution) -> (o, cache). If the config has
    sinks, the last operand is theirs."""
    # There is no prefill of fixed size: a size of 1 makes its part of the body the smallest.
    return functools.partial(
        kernel().ragged_paged_attention_hd64.__wrapped__, sm_scale=config["scale"],
        sliding_window=config["window"] or None,
        soft_cap=config["soft_cap"] or None, num_kv_pages_per_block=pages, num_queries_per_block=queries,
        chunk_prefill_size=1,
        vmem_limit_bytes=vmem_limit or VMEM)


def operands(config, sizes):
    shape, t, s, i32 = jax.ShapeDtypeStruct, sizes["T"], sizes["S"], jnp.int32
    kv = shape((t, config["kv_heads"], 64), config["kv_dtype"])
    sinks = [shape((config["heads"],), jnp.float32)] if config.get("sinks") else []
    return (
        shape((t, config["heads"], 64), config["dtype"]), kv, kv,
        shape((sizes["P"], config["page_size"], *cache_dims(config)), config["kv_dtype"]),
        shape((s,), i32), shape((s * sizes["PP"],), i32), shape((s + 1,), i32), shape((3,), i32), *sinks,
    )


def capture(config, queries, pages, vmem_limit=None):
    """Returns (header, body) for config, as jax_rpa.capture does."""
    fn = attend(config, queries, pages, vmem_limit)
    q = {"name": "q", "dtype": config["dtype"], "dims": [config["kv_heads"], "T", *query_dims(config)]}
    cache = {"name": "cache", "dtype": config["kv_dtype"], "dims": ["P", config["page_size"], *cache_dims(config)]}
    i32 = lambda name, dims: {"name": name, "dtype": "int32", "dims": dims}
    sinks = {"name": "sinks", "dtype": "float32", "dims": [config["kv_heads"], *sinks_dims(config)]}
    header = {
        "kernel": KERNEL, "source": SOURCE, "config": config,
        "blocks": {"queries": queries, "pages": pages, "vmem_limit": vmem_limit or VMEM},
        "operands": [
            i32("num_seqs", []), i32("kv_lens", ["S"]), i32("page_indices", ["N"]), i32("cu_q_lens", ["S+1"]),
            i32("distribution", [3]),
            i32("zeros", [3]), i32("minus_ones", [4]), i32("minus_ones", [6]), q,
            {"name": "kv", "dtype": config["kv_dtype"], "dims": ["T", *cache_dims(config)]}, cache,
            *([sinks] if config.get("sinks") else []),
        ],
        "results": [{**q, "name": "o"}, cache],
        "aliases": [[8, 0], [10, 1]],
    }
    page = config["page_size"]
    expressions = [
        ("P", 1, 0), ("P", page, 0), ("S", 1, 0), ("S", 1, 1), ("PP", 1, 0), ("N", 1, 0), ("N", 1, -1), ("T", 1, 0)]
    samples = [
        {"P": 4099, "S": 61, "PP": 257, "T": 517}, {"P": 91, "S": 256, "PP": 64, "T": 256},
        {"P": 128, "S": 16, "PP": max(16, pages), "T": 16}]
    header, body = template.make(
        header, lambda sizes: template.lower(fn, operands(config, sizes)), samples, BASE, OTHER, expressions)
    header["versions"][PACKAGE] = importlib.metadata.version(PACKAGE)
    return header, body
