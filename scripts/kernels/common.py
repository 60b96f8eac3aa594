"""Writes the payloads that come with Quire, one behind another, to standard output; run.sh compresses them.

    python common.py [--keep FILE]

All are in bfloat16, for pages of 16, 32, 64 and 128 tokens; LAYERS, for pages of 16, 64 and 128. Caches of 8-bit
floats are for pages of 64 tokens and up to 8 KV heads, and for layers without a window or a soft cap, or with sinks.
SHIPPED have two payloads each for pages of 64 and 128: the second, with smaller blocks, is for a compiler that refuses
the first. The payloads that FILE, an uncompressed file of payloads, has already are taken from it: so a model more
takes a minute.

For head dims that are multiples of 128, pages of 16 and 32 tokens still have JAX's kernel, which only attends: to
replace it, remove `updates`, and jax_rpa.py once it is not called any more.
"""
import argparse
import functools
import json
import pathlib
import sys

import capture
import jax_rpa
import template
import tpu_inference_rpa

# (heads, KV heads, head_dim) of models. Each is captured whole, and for its part on each of so many devices.
MODELS = [
    (32, 8, 128),  # Llama-3.1-8B, Qwen3-8B, Qwen3-4B, Mistral-7B
    (64, 8, 128),  # Llama-3.1-70B, Qwen3-32B
    (40, 8, 128),  # Qwen3-14B, Qwen2.5-14B and 32B
    (24, 8, 128),  # Llama-3.2-3B
    (16, 8, 128),  # Qwen3-0.6B, Qwen3-1.7B
    (28, 4, 128),  # Qwen2.5-7B
    (12, 2, 128),  # Qwen2.5-1.5B
    (32, 32, 128), (40, 40, 128),  # Llama-2-7B and 13B
    (32, 8, 64),  # Llama-3.2-1B
    (32, 32, 64),  # SmolLM2-1.7B
    (32, 4, 64),  # TinyLlama-1.1B
    (9, 3, 64),  # SmolLM2-135M
    (15, 5, 64),  # SmolLM2-360M
    (14, 2, 64),  # Qwen2-0.5B, Qwen2.5-0.5B
]

# Layers with more parameters, as (heads, KV heads, head_dim, windows, scale, soft cap): window 0 is none, scale 0 is
# 1/sqrt(head_dim). Each is captured for as many devices as FEWER_DEVICES and for FEWER_PAGES.
LAYERS = [
    (32, 4, 128, [0], 0, 0),  # Qwen3-30B-A3B
    (64, 4, 128, [0], 0, 0),  # Qwen3-235B-A22B
    (16, 16, 128, [0], 0, 0),  # OLMoE
    (32, 2, 128, [0], 0, 0),  # GLM-4-9B
    (40, 10, 128, [0], 0, 0),  # Phi-4
    (32, 8, 128, [0], 1 / 128, 0),  # Granite 3 8B
    (32, 8, 64, [0], 1 / 64, 0),  # Granite 3 2B
    (4, 1, 256, [0, 512], 0, 0),  # Gemma 3 270M and 1B
    (8, 4, 256, [0, 1024], 0, 0),  # Gemma 3 4B
    (16, 8, 256, [0, 1024], 0, 0),  # Gemma 3 12B
    (32, 16, 128, [0, 1024], 168**-0.5, 0),  # Gemma 3 27B
    (8, 4, 256, [0, 4096], 0, 50),  # Gemma 2 2B
    (16, 8, 256, [0, 4096], 0, 50),  # Gemma 2 9B
    (32, 16, 128, [0, 4096], 144**-0.5, 50),  # Gemma 2 27B
    (32, 8, 128, [4096], 0, 0),  # Mistral-7B v0.1
    (32, 8, 128, [32768], 0, 0),  # Ministral 8B
    (32, 32, 128, [4096], 0, 0),  # OLMo-3 7B
    (40, 8, 128, [4096], 0, 0),  # OLMo-3 32B
    (24, 2, 128, [4096], 0, 0),  # StarCoder2-3B
    (36, 4, 128, [4096], 0, 0),  # StarCoder2-7B
]

# Models with attention sinks, as (heads, KV heads, head_dim, windows), for all DEVICES and PAGES.
SINKS = [
    (64, 8, 64, [0, 128]),  # gpt-oss 20B and 120B
]
# The models of configs/models, as (heads, KV heads, head_dim, whether they have sinks).
SHIPPED = [(32, 8, 128, False), (64, 8, 128, False), (32, 4, 128, False), (64, 8, 64, True)]
SHIPPED_PAGES = [64, 128]
FEWER_DEVICES = [1, 2, 4, 8, 16]
FEWER_PAGES = [16, 64, 128]
DEVICES = [1, 2, 4, 8, 16, 32]
PAGES = [16, 32, 64, 128]
FLOAT8_PAGES, FLOAT8_KV_HEADS = [64], 8


def part(heads, kv_heads, devices):
    """The heads and KV heads of one of so many devices, as decoder.NewPartition has them: the fewest KV heads, then the
    fewest heads."""
    per = heads // kv_heads
    slots, queries = min((-(-kv_heads * -(-per // queries) // devices), queries) for queries in range(1, per + 1))
    return slots * queries, slots


def configs():
    """All configs, each once."""
    wanted = {}
    for one in [*models(), *layers(), *sinks()]:
        wanted[json.dumps(one, sort_keys=True)] = one
    return list(wanted.values())


def models():
    for heads, kv_heads, head_dim in MODELS:
        for devices in DEVICES:
            for page_size in PAGES:
                yield from forms(*part(heads, kv_heads, devices), head_dim, page_size)


def layers():
    for heads, kv_heads, head_dim, windows, scale, soft_cap in LAYERS:
        for devices in FEWER_DEVICES:
            for window in windows:
                for page_size in FEWER_PAGES:
                    yield from forms(
                        *part(heads, kv_heads, devices), head_dim, page_size, window, scale, soft_cap)


def sinks():
    for heads, kv_heads, head_dim, windows in SINKS:
        for devices in DEVICES:
            for window in windows:
                for page_size in PAGES:
                    for one in forms(*part(heads, kv_heads, devices), head_dim, page_size):
                        yield {**one, "window": window, "sinks": True}


def forms(*shape):
    """The configs of a shape, by the dtype of the cache."""
    one = config(*shape)
    if not can_be_tiled(one["kv_heads"], one["head_dim"]):
        return
    yield one
    small = one["kv_heads"] <= FLOAT8_KV_HEADS and one["page_size"] in FLOAT8_PAGES
    if small and not one["window"] and not one["soft_cap"]:
        yield {**one, "kv_dtype": "float8_e4m3fn"}


def config(heads, kv_heads, head_dim, page_size, window=0, scale=0, soft_cap=0):
    return {
        "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "page_size": page_size, "dtype": "bfloat16",
        "kv_dtype": "bfloat16",
        "scale": scale or head_dim ** -0.5, "window": window, "soft_cap": float(soft_cap),
    }


def key(kernel, config, queries, pages):
    return json.dumps([kernel, config, queries, pages], sort_keys=True)


def payloads(data):
    """The payloads in a file, whole, by what they are for."""
    found = {}
    while data:
        end = data.index(b"\n") + 1
        header = json.loads(data[:end])
        end += header["body_bytes"]
        blocks = header["blocks"]["queries"], header["blocks"]["pages"]
        found[key(header["kernel"], header["config"], *blocks)] = data[:end]
        data = data[end:]
    return found


def updates(config):
    """Whether a config has the kernel that also stores keys and values."""
    return config["head_dim"] == 64 or config["page_size"] >= 64


def can_be_tiled(kv_heads, head_dim):
    """JAX's kernel takes 1, 2, 4 or a multiple of 8 KV heads, and the other one was not lowered for more."""
    return head_dim == 64 or kv_heads in (1, 2, 4) or kv_heads % 8 == 0


@functools.cache
def shipped_parts():
    return {(*part(heads, kv_heads, devices), head_dim, sinks)
            for heads, kv_heads, head_dim, sinks in SHIPPED for devices in DEVICES}


def shipped(config):
    """Whether a model of configs/models has a layer of this config with a default page size."""
    sinks = config.get("sinks", False)
    shape = config["heads"], config["kv_heads"], config["head_dim"], sinks
    plain = config["scale"] == config["head_dim"] ** -0.5 and not config["soft_cap"] and (
        sinks or not config["window"])
    return (plain and shape in shipped_parts() and config["page_size"] in SHIPPED_PAGES
            and config["kv_dtype"] == config["dtype"])


def made(config):
    """Yields how the payloads of a config are made, the largest blocks first: their kernel, blocks, and a function that
    yields them."""
    if not updates(config):
        chosen = [jax_rpa.blocks(config, queries) for queries in (8, 32)]
        yield jax_rpa.KERNEL, chosen, lambda: (
            template.encode(*jax_rpa.capture(config, *block)) for block in chosen)
        return
    for sizes in [capture.blocks(config), *([tpu_inference_rpa.smaller(config)] if shipped(config) else [])]:
        yield tpu_inference_rpa.KERNEL, list(sizes.values()), lambda sizes=sizes: (
            payload for _, payload in capture.payloads(config, sizes))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--keep", type=pathlib.Path)
    a = p.parse_args()
    kept = payloads(a.keep.read_bytes()) if a.keep else {}
    for wanted_config in configs():
        for kernel, chosen, make in made(wanted_config):
            keys = [key(kernel, wanted_config, *block) for block in chosen]
            if not all(wanted in kept for wanted in keys):
                print(wanted_config, chosen, file=sys.stderr, flush=True)
                kept.update(zip(keys, make()))
            for wanted in keys:
                sys.stdout.buffer.write(kept[wanted])
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
