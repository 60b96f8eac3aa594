#!/usr/bin/env python3
"""Embed the same texts with all-MiniLM-L6-v2 by Quire and by sentence-transformers, in turns, on the same processors.

    sample setup minilm
    pip install sentence-transformers
    bench/embeddings.py [TEXTS] [TURNS]

It prints tokens a second of wall-clock time, and of the time that processors spent, which says more on a busy machine.
Both start from text, have their model loaded, and compute in float32. Texts have the lengths of a corpus: most are
short, a few are longer than the model's window of 256 tokens.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
THREADS = len(os.sched_getaffinity(0))


def texts(count):
    """Runs of words of the repository's own pages, of log-normal lengths, 55 words in the median."""
    rng = random.Random(3)
    words = " ".join(p.read_text() for p in sorted((ROOT / "docs").glob("*.md"))).split()
    out = []
    for _ in range(count):
        n, start = max(1, min(400, int(rng.lognormvariate(4.0, 0.8)))), rng.randrange(len(words) - 400)
        out.append(" ".join(words[start : start + n]))
    return out


def ours(binary, path):
    """(tokens/s, tokens/cpu-s) of Quire."""
    env = dict(os.environ, QUIRE_BENCH_TEXTS=str(path), GOMAXPROCS=str(THREADS))
    out = subprocess.run(
        [binary, "-test.run", "XX", "-test.bench", "MiniLM", "-test.benchtime", "1x"],
        cwd=ROOT / "engine" / "encode", env=env, check=True, capture_output=True, text=True).stdout
    return tuple(float(re.search(rf"([0-9.e+]+) {unit}", out)[1]) for unit in ("tokens/s", "tokens/cpu-s"))


def theirs(model, list_of_texts):
    """The same of sentence-transformers."""
    tokens = sum(min(len(ids), model.max_seq_length) for ids in model.tokenizer(list_of_texts)["input_ids"])
    wall, cpu = time.perf_counter(), time.process_time()
    model.encode(list_of_texts, batch_size=32, show_progress_bar=False)
    return tokens / (time.perf_counter() - wall), tokens / (time.process_time() - cpu)


def main(count, turns):
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(THREADS)
    folder = tempfile.mkdtemp()
    binary = Path(folder) / "encode.test"
    subprocess.run(["go", "test", "-c", "-o", binary, "./engine/encode"], cwd=ROOT, check=True)
    cache = Path(os.environ.get("QUIRE_CACHE") or Path.home() / ".cache" / "quire")
    model = SentenceTransformer(str(cache / "models" / "all-MiniLM-L6-v2"), device="cpu")
    list_of_texts = texts(count)
    path = Path(folder) / "texts.txt"
    path.write_text("\n".join(list_of_texts) + "\n")
    model.encode(list_of_texts[:64], show_progress_bar=False)
    rows = []
    for _ in range(turns):
        rows.append((ours(binary, path), theirs(model, list_of_texts)))
        print(json.dumps(dict(quire=rows[-1][0], sentence_transformers=rows[-1][1])), flush=True)
    for i, unit in enumerate(("tokens/s", "tokens/cpu-s")):
        a, b = (sorted(row[k][i] for row in rows)[len(rows) // 2] for k in range(2))
        print(f"{unit}: Quire {a:.0f}, sentence-transformers {b:.0f}, {a / b:.2f} times, {THREADS} threads, "
              f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
