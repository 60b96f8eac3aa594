#!/usr/bin/env python3
"""Jobs beside processes that keep processors busy: prints a row of Markdown for each job.

    bench/crowd.py [--sample bin/sample,...] [--turns 2] [--jobs int8:4:24,bf16:64:64] [--busy 0,1,2,4]

A job is a form of weights, the slots, and how many rows of the workload gsm are drawn. Rates are output tokens a second
of each turn, beside so many processes that count in a loop. The last column has the rates of two such jobs at once.
Several programs take turns.
"""
import argparse, json, subprocess, sys

LOOP = [sys.executable, "-c", "while True: pass"]


def start(sample, weights, slots, rows):
    command = [sample, "bench", "-m", "smollm2", "-w", "gsm", "--dtype", "bf16", "--weights", weights, "--max-seqs",
               slots, "--limit", rows, "--warmup", "0", "--repeat", "1", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def rate(process):
    out, _ = process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(process.args)} failed")
    return json.loads(out)["median"]["generated_tokens_per_second"]


def beside(busy, *job):
    loops = [subprocess.Popen(LOOP) for _ in range(busy)]
    try:
        return rate(start(*job))
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sample", default="bin/sample")
    p.add_argument("--turns", type=int, default=2)
    p.add_argument("--jobs", default="int8:4:24,bf16:64:64")
    p.add_argument("--busy", default="0,1,2,4")
    o = p.parse_args()
    samples, counts = o.sample.split(","), [int(n) for n in o.busy.split(",")]
    print("| program | weights | slots | " + " | ".join(f"{n} beside" for n in counts) + " | two jobs |")
    print("| --- " * (4 + len(counts)) + "|")
    for job in (j.split(":") for j in o.jobs.split(",")):
        rates = {s: [[] for _ in range(len(counts) + 1)] for s in samples}
        for _ in range(o.turns):
            for i, n in enumerate(counts):
                for s in samples:
                    rates[s][i].append(f"{beside(n, s, *job):.0f}")
            for s in samples:
                rates[s][-1].append(" and ".join(f"{rate(p):.0f}" for p in [start(s, *job), start(s, *job)]))
        for s in samples:
            print(f"| {s} | {job[0]} | {job[1]} | " + " | ".join(", ".join(r) for r in rates[s]) + " |", flush=True)


main()
