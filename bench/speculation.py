#!/usr/bin/env python3
"""Speculation on and off on the same jobs, in turns: prints a row of Markdown for each.

    bench/speculation.py [--sample bin/sample] [--model smollm2] [--weights auto] [--turns 2]
        [--jobs quotes:1:4,quotes:8:16,...]

A job is a workload of bench/workload, the slots, and how many rows are drawn. Rates are output tokens a second of each
turn; the ratio is of the best ones.
"""
import argparse, json, subprocess, sys

JOBS = "gsm:1:3,gsm-n4:8:4,quotes:8:16,summaries:8:16,quotes:1:4,gsm:64:64"


def bench(o, workload, slots, rows, speculate):
    command = [o.sample, "bench", "-m", o.model, "-w", workload, "--max-seqs", slots, "--limit", rows,
               "--dtype", "bf16", "--max-model-len", "1024", "--warmup", "0", "--repeat", "1", "--speculate",
               speculate, "--weights", o.weights, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)["median"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sample", default="bin/sample")
    p.add_argument("--model", default="smollm2")
    p.add_argument("--weights", default="auto")
    p.add_argument("--turns", type=int, default=2)
    p.add_argument("--jobs", default=JOBS)
    o = p.parse_args()
    print("| workload | slots | rows | off | auto | ratio | decode steps | drafts drawn |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for job in o.jobs.split(","):
        workload, slots, rows = job.split(":")
        rates, engines = {"off": [], "auto": []}, {}
        for turn in range(o.turns):
            for value in ("off", "auto") if turn % 2 == 0 else ("auto", "off"):
                m = bench(o, workload, slots, rows, value)
                rates[value].append(m["generated_tokens_per_second"])
                engines[value] = m["engine"]
        off, auto = engines["off"], engines["auto"]
        drafted, drawn = auto.get("drafted_tokens", 0), auto.get("accepted_tokens", 0)
        share = f"{100 * drawn / drafted:.0f} % of {drafted:,}" if drafted else "-"
        print(f"| {workload} | {slots} | {rows} | {', '.join(f'{r:.0f}' for r in rates['off'])} | "
              f"{', '.join(f'{r:.0f}' for r in rates['auto'])} | {max(rates['auto']) / max(rates['off']):.2f} | "
              f"{off['decode_steps']:,}, {auto['decode_steps']:,} | {share} |", flush=True)


main()
