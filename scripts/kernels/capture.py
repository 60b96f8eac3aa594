"""Lowers a published Pallas kernel for a model's shape into a payload that Quire embeds or keeps in its cache.

    python capture.py --heads 32 --kv-heads 8 --head-dim 128 --page-size 16 --out FOLDER

No TPU and no libtpu are needed. The name of the file written is printed. See template.py for the format.
"""
import argparse
import pathlib

import jax.numpy as jnp

import jax_rpa
import template


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--heads", type=int, required=True)
    p.add_argument("--kv-heads", type=int, required=True)
    p.add_argument("--head-dim", type=int, required=True)
    p.add_argument("--page-size", type=int, default=16)
    p.add_argument("--dtype", default="bfloat16")
    p.add_argument("--kv-dtype", default="", help="dtype of the cache; that of the queries if not given")
    p.add_argument("--scale", type=float, default=0, help="of the scores; 1/sqrt(head_dim) if not given")
    p.add_argument("--window", type=int, default=0)
    p.add_argument("--soft-cap", type=float, default=0)
    p.add_argument("--sinks", action="store_true", help="each head has a score of its own, of a value of zeros")
    p.add_argument(
        "--queries", type=int, nargs="+", default=[],
        help="queries a block: a payload for each; 8 and 32, with a head_dim of 64 just 32, if not given")
    p.add_argument("--pages", type=int, default=0, help="pages a block; chosen if not given")
    p.add_argument("--vmem-limit", type=int, default=0, help="bytes; 16 MiB if not given")
    p.add_argument("--out", type=pathlib.Path, required=True)
    a = p.parse_args()
    config = {
        "heads": a.heads, "kv_heads": a.kv_heads, "head_dim": a.head_dim, "page_size": a.page_size,
        "dtype": jnp.dtype(a.dtype).name,
        "kv_dtype": jnp.dtype(a.kv_dtype or a.dtype).name, "scale": a.scale or a.head_dim ** -0.5, "window": a.window,
        "soft_cap": a.soft_cap, **({"sinks": True} if a.sinks else {}),
    }
    for path in write(config, a.queries, a.pages, a.vmem_limit, a.out):
        print(path)


def module_for(config):
    """The module that lowers the kernel for a head dim, and the blocks of queries that there should be payloads for."""
    if config["head_dim"] == 64:
        import tpu_inference_rpa
        return tpu_inference_rpa, [32]  # one kernel has both ways, for one query a sequence and for many
    if config.get("sinks"):
        raise SystemExit("the kernel for head dims that are multiples of 128 takes no sinks")
    if config["head_dim"] % 128:
        raise SystemExit(f"head_dim is {config['head_dim']}: the kernels take 64 and multiples of 128")
    return jax_rpa, [8, 32]


def write(config, queries_wanted, pages, vmem_limit, out):
    source, usual = module_for(config)
    out.mkdir(parents=True, exist_ok=True)
    for queries in queries_wanted or usual:
        chosen_queries, chosen = source.blocks(config, queries)
        try:
            header, body = source.capture(config, chosen_queries, pages or chosen, vmem_limit)
        except (ValueError, AssertionError, NotImplementedError) as e:
            raise SystemExit(f"the kernel refuses {config}: {e}")
        path = out / template.name_of(header)
        part = path.with_suffix(".part")
        part.write_bytes(template.encode(header, body))
        part.replace(path)
        yield path


if __name__ == "__main__":
    main()
