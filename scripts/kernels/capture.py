"""Lowers a published Pallas kernel for a model's shape into a payload that Quire embeds or keeps in its cache.

    python capture.py --heads 32 --kv-heads 8 --head-dim 128 --page-size 16 --out FOLDER

No TPU and no libtpu are needed. The name of the file written is printed. See template.py for the format.
"""
import argparse
import pathlib

import jax.numpy as jnp

import template
import tpu_inference_rpa


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
        "--queries", type=int, default=0,
        help="queries a block, of sequences that may have more than one; chosen if not given")
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
    for path in write(config, blocks(config, a.queries, a.pages), a.vmem_limit, a.out):
        print(path)


def check(config):
    """Ends with an error for shapes that no kernel takes."""
    if config["head_dim"] != 64 and config["head_dim"] % 128:
        raise SystemExit(f"head_dim is {config['head_dim']}: the kernels take 64 and multiples of 128")
    if config.get("sinks") and config["head_dim"] != 64:
        raise SystemExit("the kernel for head dims that are multiples of 128 takes no sinks")


def blocks(config, queries=0, pages=0):
    """The blocks of each payload, by the form of the kernel that it has."""
    check(config)
    sizes = {form: tpu_inference_rpa.blocks(config, form, queries) for form in tpu_inference_rpa.forms(config)}
    return {form: (queries, pages or chosen) for form, (queries, chosen) in sizes.items()}


def payloads(config, sizes, vmem_limit=0):
    """Yields the payloads with the blocks that sizes has, and their names."""
    try:
        for header, body in tpu_inference_rpa.capture(config, sizes, vmem_limit):
            yield template.name_of(header), template.encode(header, body)
    except (ValueError, AssertionError, NotImplementedError) as e:
        raise SystemExit(f"the kernel refuses {config}: {e}")


def write(config, sizes, vmem_limit, out):
    out.mkdir(parents=True, exist_ok=True)
    for name, payload in payloads(config, sizes, vmem_limit):
        part = out / (name + ".part")
        part.write_bytes(payload)
        part.replace(out / name)
        yield out / name


if __name__ == "__main__":
    main()
