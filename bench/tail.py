#!/usr/bin/env python3
"""The tail of jobs with and without speculation, in turns: prints a row of Markdown for each.

    bench/tail.py [--sample bin/sample] [--model smollm2] [--turns 2] [--jobs quotes:48:16:0,...]

A job is a workload of bench/workload, the number of rows, the slots and the temperature. Rows end at different times:
each has 32, 64, 128 or 300 tokens, chosen at random by a fixed seed. The tail is the time from when 90 % of the rows
are done, as --metrics counts them, to the end of the process. The files must be the same with and without speculation.
"""
import argparse
import hashlib
import json
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

JOBS = "quotes:48:16:0,gsm:96:64:0,gsm:96:16:1"


def write_rows(o, workload, count, temperature, path):
    """Writes so many rows of a workload, again from the first when they run out."""
    subprocess.run([o.sample, "bench", "-m", o.model, "-w", workload, "--write-rows", path], check=True,
                   stderr=subprocess.DEVNULL)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    lengths = random.Random(1)
    with path.open("w") as f:
        for i in range(count):
            row = dict(rows[i % len(rows)], id=f"row-{i}", max_tokens=lengths.choice([32, 64, 128, 300]),
                       temperature=temperature)
            f.write(json.dumps(row) + "\n")


def counter(text, name):
    found = re.search(rf"^{re.escape(name)} (\S+)", text, re.M)
    return float(found[1]) if found else 0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(o, rows, count, slots, speculate, out):
    """Runs the job, and returns the seconds from its first token to 90 % of the rows, those behind, and a digest."""
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [o.sample, "run", "-m", o.model, "--dtype", "bf16", "--weights", "bf16", "-i", rows, "-o", out, "--max-seqs",
         slots, "--max-model-len", "1024", "--progress", "none", "--metrics", address, "--speculate", speculate],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begin = most = None
    while process.poll() is None:
        time.sleep(0.03)
        try:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=1) as reply:
                text = reply.read().decode()
        except OSError:
            continue
        if begin is None and counter(text, "quire_tokens_total") > 0:
            begin = time.monotonic()
        if most is None and counter(text, 'quire_rows_total{result="good"}') >= 0.9 * count:
            most = time.monotonic()
    end = time.monotonic()
    if process.returncode or begin is None or most is None:
        sys.exit(f"{out}: exit status {process.returncode}, or no row was counted in time")
    digest = hashlib.sha256(b"".join(f.read_bytes() for f in sorted(out.glob("*.parquet")))).hexdigest()
    return most - begin, end - most, digest


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sample", default="bin/sample")
    p.add_argument("--model", default="smollm2")
    p.add_argument("--turns", type=int, default=2)
    p.add_argument("--jobs", default=JOBS)
    o = p.parse_args()
    print("| workload | rows | slots | temperature | until then, off | auto | tail, off | auto |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for job in o.jobs.split(","):
        workload, count, slots, temperature = job.split(":")
        before, tails, digests = {"off": [], "auto": []}, {"off": [], "auto": []}, set()
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows.jsonl"
            write_rows(o, workload, int(count), float(temperature), rows)
            for turn in range(o.turns):
                for value in ("off", "auto") if turn % 2 == 0 else ("auto", "off"):
                    most, tail, digest = run(o, rows, int(count), slots, value, Path(folder) / f"{turn}-{value}")
                    before[value].append(f"{most:.1f}")
                    tails[value].append(f"{tail:.2f}")
                    digests.add(digest)
        if len(digests) != 1:
            sys.exit(f"{job}: the files differ")
        columns = (before["off"], before["auto"], tails["off"], tails["auto"])
        print(f"| {workload} | {count} | {slots} | {temperature} | {' | '.join(', '.join(c) for c in columns)} |",
              flush=True)


main()
