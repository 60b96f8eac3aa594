#!/usr/bin/env python3
"""Runs jobs of more and more rows in parts of 100, in one process and by workers, and prints a table: what a job of
100,000 rows costs on the host, and whether any of it grows faster than the rows.

    bench/scale.py [--rows 25000,50000,100000] [--workers 0,8] [--model FOLDER] [--sample bin/sample] [--pprof FILE]

The model is tiny, so that the host's part shows: completions take 4 to 12 tokens. All jobs of one number of rows must
write the same bytes; the script fails if they do not. --pprof has a profile of the host in the largest job of one
process.
"""
import argparse, hashlib, json, os, random, resource, subprocess, sys, tempfile, threading, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def write_rows(path, count):
    numbers = random.Random(20261124)
    with open(path, "w") as file:
        for i in range(count):
            ids = [numbers.randrange(256) for _ in range(numbers.randint(8, 24))]
            row = {"id": f"row-{i}", "prompt_token_ids": ids, "max_tokens": numbers.randint(4, 12)}
            file.write(json.dumps(row) + "\n")


def watch(folder, done, seen):
    """Notes when the first part is there."""
    while not done.wait(0.05):
        if next(folder.glob("part-*"), None):
            seen.append(time.monotonic())
            return


def cpu():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def run(o, rows, workers, work):
    output, report = work / f"out-{rows}-{workers}", work / "report.json"
    command = [o.sample, "run", "-m", o.model, "-i", work / "rows.jsonl", "-o", output, "--limit", rows, "--part-rows",
               100, "--max-seqs", 64, "--max-model-len", 64, "--kv-memory", "64MB", "--progress", "none", "--report",
               report]
    if workers:
        command += ["--workers", workers]
    elif o.pprof and rows == max(o.rows):
        command += ["--pprof", o.pprof]
    done, seen = threading.Event(), []
    watcher = threading.Thread(target=watch, args=(output, done, seen))
    watcher.start()
    began, before = time.monotonic(), cpu()
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    seconds = time.monotonic() - began
    done.set(), watcher.join()
    if ended.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{ended.stderr}")
    sums = hashlib.sha256()
    parts = sorted(output.glob("part-*"))
    for part in parts:
        sums.update(part.read_bytes())
    return dict(rows=rows, workers=workers, parts=len(parts), seconds=seconds, cpu=cpu() - before,
                first=seen[0] - began if seen else seconds, sha256=sums.hexdigest(),
                report=json.loads(report.read_text()))


def share(report):
    """The host's share of the time, which the report of a job by workers does not have."""
    return f"{report['host_share'] * 100:.0f} %" if report.get("host_share") else "-"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", default="25000,50000,100000")
    p.add_argument("--workers", default="0,8")
    p.add_argument("--model", default=ROOT / "testdata/models/llama3")
    p.add_argument("--sample", default=ROOT / "bin/sample")
    p.add_argument("--pprof")
    o = p.parse_args()
    o.rows, workers = [int(n) for n in o.rows.split(",")], [int(n) for n in o.workers.split(",")]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as work:
        work = Path(work)
        write_rows(work / "rows.jsonl", max(o.rows))
        run(o, 1000, 0, work)  # programs are compiled and kept
        print("| rows | workers | parts | seconds | seconds per 10,000 rows | processor seconds | host | "
              "first part after |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for n in o.rows:
            found = set()
            for w in workers:
                r = run(o, n, w, work)
                found.add(r["sha256"])
                print(f"| {n:,} | {w or 'none'} | {r['parts']:,} | {r['seconds']:.1f} | "
                      f"{r['seconds'] / n * 1e4:.2f} | {r['cpu']:.1f} | {share(r['report'])} | "
                      f"{r['first']:.1f} s |", flush=True)
            if len(found) > 1:
                sys.exit(f"jobs of {n} rows wrote different bytes")


main()
