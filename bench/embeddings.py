#!/usr/bin/env python3
"""Embed the same texts with all-MiniLM-L6-v2 by Quire and by other engines, in turns, on the same processors.

    sample setup minilm
    bench/peers/setup.sh python embed llama
    bench/embeddings.py [--texts 2000] [--turns 3] [--dtype float32]
        [--peers sentence-transformers,onnx,infinity,vllm,llama.cpp]

It prints tokens a second of wall-clock time, and of the time that processors spent, which says more on a busy machine.
All start from text, and have their model loaded and warm. In bfloat16 onnx and llama.cpp are left out. Texts have the
lengths of a corpus: most are short, a few are longer than the model's window of 256 tokens.
"""

import argparse
import json
import os
import random
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("QUIRE_CACHE") or Path.home() / ".cache" / "quire")
MODEL = CACHE / "models" / "all-MiniLM-L6-v2"
PEERS = CACHE / "peers"
THREADS = len(os.sched_getaffinity(0))
# The environment of bench/peers/setup.sh that has each peer.
PYTHONS = {"sentence-transformers": "embed", "onnx": "embed-onnx", "infinity": "embed-infinity", "vllm": "python"}


def texts(count):
    """Runs of words of the repository's own pages, of log-normal lengths, 55 words in the median."""
    rng = random.Random(3)
    words = " ".join(p.read_text() for p in sorted((ROOT / "docs").glob("*.md"))).split()
    out = []
    for _ in range(count):
        n, start = max(1, min(400, int(rng.lognormvariate(4.0, 0.8)))), rng.randrange(len(words) - 400)
        out.append(" ".join(words[start : start + n]))
    return out


def ours(binary, dtype, path):
    """(tokens/s, tokens per second of a processor) of Quire, and the tokens."""
    env = dict(os.environ, QUIRE_BENCH_TEXTS=str(path), QUIRE_BENCH_DTYPE=dtype, GOMAXPROCS=str(THREADS))
    out = subprocess.run(
        [binary, "-test.run", "XX", "-test.bench", "MiniLM", "-test.benchtime", "1x"],
        cwd=ROOT / "engine" / "encode", env=env, check=True, capture_output=True, text=True).stdout
    return tuple(float(re.search(rf"([0-9.e+]+) {unit}", out)[1]) for unit in ("tokens/s", "tokens/cpu-s", "tokens"))


def theirs(peer, dtype, path, tokens):
    """The same of a peer, which is given the number of tokens."""
    if peer == "llama.cpp":
        command = [next(PEERS.glob("llama_cpp_python-*/build-quire/bin/llama_embed")),
                   PEERS / "all-MiniLM-L6-v2-F32.gguf"]
    else:
        job = ROOT / "bench" / "peers" / "embed_job.py"
        command = [PEERS / PYTHONS[peer] / "bin" / "python", job, peer, MODEL, dtype]
    done = subprocess.run([*command, path, str(THREADS)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{peer}: {done.stderr[-2000:]}")
    out = json.loads(done.stdout.splitlines()[-1])
    return tokens / out["seconds"], tokens / out["processor_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--peers", default=",".join([*PYTHONS, "llama.cpp"]))
    args = parser.parse_args()
    peers = [p for p in args.peers.split(",") if args.dtype == "float32" or p not in ("onnx", "llama.cpp")]
    folder = Path(tempfile.mkdtemp())
    binary, path = folder / "encode.test", folder / "texts.txt"
    subprocess.run(["go", "test", "-c", "-o", binary, "./engine/encode"], cwd=ROOT, check=True)
    path.write_text("\n".join(texts(args.texts)) + "\n")
    runs = {name: [] for name in ["quire", *peers]}
    for _ in range(args.turns):
        *mine, tokens = ours(binary, args.dtype, path)
        runs["quire"].append(mine)
        for peer in peers:
            runs[peer].append(theirs(peer, args.dtype, path, tokens))
        print(json.dumps({name: run[-1] for name, run in runs.items()}), flush=True)
    median = {name: [sorted(r[i] for r in run)[len(run) // 2] for i in range(2)] for name, run in runs.items()}
    print(f"\n{THREADS} threads, {tokens:.0f} tokens, load {os.getloadavg()[0]:.1f}\n")
    print("| | tokens/s | Quire is faster by | tokens per second of a processor | Quire is faster by |\n"
          "| --- | --- | --- | --- | --- |")
    for name, (wall, processor) in median.items():
        print(f"| {name} | {wall:,.0f} | {median['quire'][0] / wall:.2f} | {processor:,.0f} | "
              f"{median['quire'][1] / processor:.2f} |")


if __name__ == "__main__":
    main()
