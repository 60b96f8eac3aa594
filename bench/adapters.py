#!/usr/bin/env python3
"""Measures what LoRA adapters cost: bench/adapters.py SAMPLE [MODEL] [--rounds 3] [--many 100] [--processor]
    [--targets q_proj,v_proj] [--rank 8]

Makes random adapters, by default of rank 16 for all projections of SmolLM2-135M (or MODEL), and runs the same rows in
turns: without adapters and with one adapter in every row, and then with one adapter and with many of 10 rows each.
Prints the tokens a second of steps, and the ratios. Needs no Python package."""

import argparse
import functools
import json
import os
import random
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = dict(  # of SmolLM2-135M: outputs, inputs
    q_proj=(576, 576),
    k_proj=(192, 576),
    v_proj=(192, 576),
    o_proj=(576, 576),
    gate_proj=(1536, 576),
    up_proj=(1536, 576),
    down_proj=(576, 1536),
)
LAYERS = 30


def adapter(folder, seed, rank, targets):
    """Writes an adapter of small random numbers in bfloat16: for each seed the same ones from another place on."""
    folder.mkdir(parents=True)
    config = dict(peft_type="LORA", r=rank, lora_alpha=rank, target_modules=targets)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    header, offset = {}, 0
    for layer in range(LAYERS):
        for name in targets:
            out, inputs = SIZES[name]
            part = "mlp" if name in ("gate_proj", "up_proj", "down_proj") else "self_attn"
            for side, rows, columns in (("A", rank, inputs), ("B", out, rank)):
                key = f"base_model.model.model.layers.{layer}.{part}.{name}.lora_{side}.weight"
                size = 2 * rows * columns
                header[key] = dict(dtype="BF16", shape=[rows, columns], data_offsets=[offset, offset + size])
                offset += size
    text, body, start = json.dumps(header).encode(), numbers(offset), 700 * seed % offset // 2 * 2
    body = body[start:] + body[:start]
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)


@functools.cache
def numbers(size):
    """Random bfloat16 of sizes 0.002 to 0.008."""
    bits = bytearray(random.Random(1).getrandbits(8 * size).to_bytes(size, "little"))
    signs = {b: b & 0x80 | 0x3B for b in range(256)}
    bits[1::2] = bits[1::2].translate(bytes(signs[b] for b in range(256)))
    return bytes(bits)


def found(value, key):
    """The object within a report that has a key."""
    if isinstance(value, dict):
        if key in value:
            return value
        for one in value.values():
            if inner := found(one, key):
                return inner
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sample")
    parser.add_argument("model", nargs="?", default="smollm2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--many", type=int, default=100)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--processor", action="store_true", help="seconds of the processor in place of the clock's")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--targets", default=",".join(SIZES))
    o = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="adapters-"))
    for i in range(o.many):
        if i == 0 or o.many > 1:
            adapter(work / "all" / f"a{i:04}", i, o.rank, o.targets.split(","))
    shutil.copytree(work / "all" / "a0000", work / "one" / "a0000")
    rng = random.Random(1)
    prompts = [[rng.randrange(100, 40000) for _ in range(8)] for _ in range(max(o.rows, 10 * o.many))]

    def rows(name, of, count):
        with open(work / f"{name}.jsonl", "w") as f:
            for i in range(count):
                row = dict(id=str(i), prompt_token_ids=prompts[i])
                if of(i):
                    row["adapter"] = of(i)
                f.write(json.dumps(row) + "\n")

    rows("none", lambda i: None, o.rows)
    rows("one", lambda i: "a0000", o.rows)
    rows("same", lambda i: "a0000", 10 * o.many)
    rows("many", lambda i: f"a{i // 10:04}", 10 * o.many)

    def run(name, folder, tokens):
        """Generated tokens, the seconds that count, and the engine's figures."""
        out = work / "out"
        shutil.rmtree(out, ignore_errors=True)
        command = [o.sample, "run", "-m", o.model, "-i", work / f"{name}.jsonl", "-o", out, "--max-tokens", tokens]
        command += ["--ignore-eos", "--dtype", "bf16", "--weights", "bf16", "--max-seqs", 64, "--max-model-len", 256]
        command += ["--report", work / "report.json", "-q"] + (["--adapters", work / folder] if folder else [])
        env = dict(os.environ, **({"GOMAXPROCS": str(o.threads)} if o.threads else {}))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([str(c) for c in command], check=True, env=env)
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        stats = found(json.loads((work / "report.json").read_text()), "generated_tokens")
        return stats["generated_tokens"], used if o.processor else stats["wall_seconds"], stats

    def rate(name, folder):
        """Tokens a second of the steps alone: a job of few tokens is what starting takes."""
        few, start, _ = run(name, folder, 4)
        many, seconds, stats = run(name, folder, o.tokens + 4)
        loads, load = stats.get("adapter_loads", 0), stats.get("adapter_seconds", 0)
        print(f"{name}: {many} tokens in {seconds:.2f} s, {few} in {start:.2f} s, {loads} loads in {load:.2f} s",
              file=sys.stderr)
        return (many - few) / (seconds - start)

    kinds = [("none", None), ("one", "one")]
    rates = {name: [] for name, _ in kinds}
    run("none", None, 1), run("one", "one", 1)  # programs are compiled
    for _ in range(o.rounds):
        for name, folder in kinds:
            rates[name].append(rate(name, folder))
    for name, list in rates.items():
        print(f"{name:5} {' '.join(f'{r:.1f}' for r in list)} tokens/s")
    cost = statistics.median(a / b for a, b in zip(rates["none"], rates["one"])) - 1
    print(f"rank {o.rank} in every row: {cost:+.1%} time")
    if o.many > 1:
        ratios = []
        run("many", "all", 1)
        for _ in range(o.rounds):
            _, one, _ = run("same", "one", o.tokens)
            _, many, stats = run("many", "all", o.tokens)
            ratios.append(many / one)
            print(f"{many:.2f} s and {one:.2f} s, {stats['adapter_loads']} loads in {stats['adapter_seconds']:.2f} s",
                  file=sys.stderr)
        print(f"{o.many} adapters of 10 rows: {statistics.median(ratios):.3f} of the time of one adapter")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
