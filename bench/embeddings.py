#!/usr/bin/env python3
"""Embed the same texts by Quire and by other engines, in turns, on the same processors.

    sample setup minilm
    bench/peers/setup.sh python embed llama
    bench/embeddings.py bin/sample [--model FOLDER] [--texts 2000] [--turns 3] [--dtype float32]
        [--peers sentence-transformers,onnx,infinity,vllm,llama.cpp]

It prints tokens a second of wall-clock time. All start from text; loading and warming up are not counted. In bfloat16
onnx and llama.cpp are left out. Texts have the lengths of a corpus: most are short, a few are longer than 256 tokens,
the window of all-MiniLM-L6-v2. bench/peers/embed_shape.py makes folders of other shapes; llama.cpp has MiniLM only.
"""

import argparse
import json
import os
import random
import shutil
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


def ours(binary, model, dtype, path):
    """(tokens/s, tokens) of Quire."""
    folder = Path(tempfile.mkdtemp())
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"prompt": t}) + "\n" for t in path.read_text().splitlines()))
    subprocess.run([binary, "embed", "-m", model, "--dtype", {"float32": "f32", "bfloat16": "bf16"}[dtype], "-i", rows,
                    "-o", folder / "out", "--report", folder / "report.json", "--progress", "none"], check=True,
                   capture_output=True)
    report = json.loads((folder / "report.json").read_text())
    shutil.rmtree(folder)
    tokens = report["prompt_tokens"]
    return tokens / report["engine"]["wall_seconds"], tokens


def theirs(peer, model, dtype, path, tokens):
    """Tokens/s of a peer, which is given the number of tokens."""
    if peer == "llama.cpp":
        command = [next(PEERS.glob("llama_cpp_python-*/build-quire/bin/llama_embed")),
                   PEERS / "all-MiniLM-L6-v2-F32.gguf"]
    else:
        job = ROOT / "bench" / "peers" / "embed_job.py"
        command = [PEERS / PYTHONS[peer] / "bin" / "python", job, peer, model, dtype]
    done = subprocess.run([*command, path, str(THREADS)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{peer}: {done.stderr[-2000:]}")
    return tokens / json.loads(done.stdout.splitlines()[-1])["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sample", type=Path)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--peers", default=",".join([*PYTHONS, "llama.cpp"]))
    args = parser.parse_args()
    peers = [p for p in args.peers.split(",") if args.dtype == "float32" or p not in ("onnx", "llama.cpp")]
    path = Path(tempfile.mkdtemp()) / "texts.txt"
    path.write_text("\n".join(texts(args.texts)) + "\n")
    runs = {name: [] for name in ["quire", *peers]}
    for _ in range(args.turns):
        mine, tokens = ours(args.sample, args.model, args.dtype, path)
        runs["quire"].append(mine)
        for peer in peers:
            runs[peer].append(theirs(peer, args.model, args.dtype, path, tokens))
        print(json.dumps({name: run[-1] for name, run in runs.items()}), flush=True)
    median = {name: sorted(run)[len(run) // 2] for name, run in runs.items()}
    print(f"\n{THREADS} threads, {tokens} tokens, load {os.getloadavg()[0]:.1f}\n")
    print("| | tokens/s | Quire is faster by |\n| --- | --- | --- |")
    for name, rate in median.items():
        print(f"| {name} | {rate:,.0f} | {median['quire'] / rate:.2f} |")


if __name__ == "__main__":
    main()
