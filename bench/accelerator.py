#!/usr/bin/env python3
"""What a device draws beside the CPU, and how fast it does. For an H200:

    bench/accelerator.py --backend xla:cuda --bandwidth 4800 --peak 790

Tokens: greedy completions of --model in float32, on xla:cpu and on the backend. It says how many are the same, and
where the first others part. Speed: --config with random weights in bf16, two `sample bench` for each point: of one
token a sequence, whose time is that of the prompts, and of 64, whose time beyond that is that of 63 steps. A decode
step reads at least the weights and the keys and values of all slots once: decode_share is that by the time of a step
and --bandwidth (GB/s). A prompt token takes at least two operations a parameter: prefill_share is that by --peak
(TFLOP/s of bf16). Give the chip's own figures.

On a GPU both are measured once more with loops in CUDA graphs (--graphs): tokens, and the first point. Then the whole
program is one graph, and the host is asked nothing between steps. See docs/gpu.md.

Writes JSON to --out after each part. Needs bin/sample (make), and the plugin (sample setup cuda). A part that fails is
said, with its error.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SAMPLE = str(ROOT / "bin" / "sample")


# Loops of the program become parts of a CUDA graph, which XLA does by itself for branches alone.
GRAPHS = "--xla_gpu_enable_command_buffer=+WHILE"


def run(*arguments: str, limit: float, flags: str = "") -> str:
    environment = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}
    try:
        done = subprocess.run([SAMPLE, *arguments], capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"sample {arguments[0]} took over {limit:.0f} s") from None
    if done.returncode:
        raise RuntimeError(f"sample {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def token_bytes(config: str) -> int:
    """Bytes of a token's keys and values in bf16."""
    c = json.loads(pathlib.Path(config).read_text())
    heads = c["num_attention_heads"]
    return 2 * 2 * c["num_hidden_layers"] * c.get("num_key_value_heads", heads) * (
        c.get("head_dim") or c["hidden_size"] // heads)


def completions(folder: pathlib.Path) -> list[list[int]]:
    return [json.loads(line)["token_ids"] for part in sorted(folder.glob("part-*.jsonl")) for line in part.open()]


def drawn_by(o: argparse.Namespace, backend: str, flags: str, work: pathlib.Path) -> list[list[int]]:
    """Completions of the rows, drawn once."""
    rows, folder = work / "rows.jsonl", work / f"{backend.replace(':', '-')}{'-graphs' if flags else ''}"
    if not rows.exists():
        run("bench", "--model", o.model, "--workload", "gsm-greedy", "--limit", str(o.rows), "--write-rows", str(rows),
            limit=o.limit)
    if not folder.exists():
        run("run", "--model", o.model, "--input", str(rows), "--output", str(folder), "--format", "jsonl", "--backend",
            backend, "--dtype", "f32", "--temperature", "0", "--max-model-len", "512", "--progress", "none",
            limit=o.limit, flags=flags)
    return completions(folder)


def tokens(o: argparse.Namespace, flags: str, work: pathlib.Path) -> dict:
    drawn = [drawn_by(o, "xla:cpu", "", work), drawn_by(o, o.backend, flags, work)]
    parted = [
        next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        for a, b in zip(drawn[0], drawn[1], strict=True) if a != b]
    return {"xla_flags": flags, "completions": len(drawn[0]), "same": len(drawn[0]) - len(parted),
            "others_part_at_token": sorted(parted)}


def speed(o: argparse.Namespace, slots: int, context: int, flags: str, work: pathlib.Path) -> dict:
    drawn = 64
    prompts, whole = (_bench(o, slots, context, n, context + drawn, flags, work) for n in (1, drawn))
    plan, median = whole["plan"], whole["median"]
    step = (median["seconds"] - prompts["median"]["seconds"]) / (drawn - 1)
    prefill = prompts["median"]["engine"]["prefill_tokens"] / prompts["median"]["seconds"]
    step_bytes = plan["weight_bytes"] + slots * (context + drawn / 2) * plan["kv_bytes_per_token"]
    return {
        "slots": slots, "context": context, "xla_flags": flags, "device": plan["backend"], "decode_step_seconds": step,
        "decode_tokens_per_second": slots / step, "prefill_tokens_per_second": prefill,
        "decode_share": step_bytes / step / (o.bandwidth * 1e9),
        "prefill_share": 2 * plan["parameters"] * prefill / (o.peak * 1e12),
        "generated_tokens_per_second": median["generated_tokens_per_second"],
        "start_seconds": whole["start"]["ready_seconds"], "command": whole["command_line"],
    }


def _bench(
        o: argparse.Namespace, slots: int, context: int, drawn: int, longest: int, flags: str,
        work: pathlib.Path) -> dict:
    job = work / "job.yaml"
    job.write_text(
        f"about: {slots} sequences\nprompts: tokens\nprompt_tokens: {context}\nrows: {slots}\nmax_tokens: {drawn}\n"
        "temperature: 1\n")
    memory = slots * (longest + 64) * token_bytes(o.config)
    return json.loads(run(
        "bench", "--model", o.config, "--load-format", "dummy", "--backend", o.backend, "--dtype", "bf16",
        "--layers", o.layers, "--workload", str(job), "--max-seqs", str(slots), "--max-model-len", str(longest),
        "--kv-memory", str(memory), "--prefix-cache", "off", "--warmup", "1", "--repeat", "1", "--json", limit=o.limit,
        flags=flags))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--backend", default="xla:cuda")
    p.add_argument("--bandwidth", type=float, required=True, help="GB/s that the device's memory is read with")
    p.add_argument("--peak", type=float, required=True, help="TFLOP/s of bf16 products")
    p.add_argument("--model", default="smollm2", help="whose tokens are compared; empty for none")
    p.add_argument("--rows", type=int, default=32, help="completions that are compared")
    p.add_argument("--config", default=str(ROOT / "configs" / "models" / "llama-3.1-8b.json"))
    p.add_argument(
        "--layers", default="unrolled",
        help="as sample's --layers; loop compiles sooner, and on GPUs copies the weights")
    p.add_argument("--points", default="64x1024,128x1024,256x1024,64x4096,128x4096", help="slots x context")
    p.add_argument(
        "--graphs", action=argparse.BooleanOptionalAction, help="loops in CUDA graphs too (default: on xla:cuda)")
    p.add_argument("--limit", type=float, default=540, help="seconds for one command")
    p.add_argument("--out", default=str(ROOT / "bench" / "results" / "accelerator.json"))
    o = p.parse_args()
    graphs = o.graphs if o.graphs is not None else o.backend == "xla:cuda"
    variants = ["", GRAPHS] if graphs else [""]
    result: dict = {"command": " ".join(["bench/accelerator.py", *sys.argv[1:]]), "tokens": [], "speed": []}
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        parts = [lambda f=f: result["tokens"].append(tokens(o, f, work)) for f in variants if o.model]
        parts += [
            lambda s=int(s), c=int(c), f=f: result["speed"].append(speed(o, s, c, f, work))
            for i, (s, c) in enumerate(point.split("x") for point in o.points.split(","))
            for f in (variants if i == 0 else [""])]
        for part in parts:
            try:
                part()
            except RuntimeError as e:
                failed = True
                result.setdefault("failed", []).append(str(e))
                print(f"accelerator: {e}", file=sys.stderr)
            pathlib.Path(o.out).write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    sys.exit(1 if failed or any(t["same"] != t["completions"] for t in result["tokens"]) else 0)


if __name__ == "__main__":
    main()
