#!/usr/bin/env python3
"""How near jobs come to the limit of a processor, at several numbers of slots.

    bench/limits.py [--sample bin/sample] [--slots 1,4,16,64,256] [--weights bf16,int8,auto] [--model smollm2]
        [--tries 4]
    bench/limits.py --dummy --model bench/models/llama-3.2-1b.json --slots 1,4,16,64 --weights bf16,int8

Runs word problems as in the workload gsm, 2 for each slot and 16 to 512 in all, for each number of slots and form of
weights, and prints a row of Markdown for each: the median of --repeat runs. The limit of a run is the more of its
arithmetic at the measured peak and its bytes (weights once a step, keys and values) at the measured bandwidth; `sample
bench` measures both. Reading it measures before and after a job: where the two differ by more than a fifth, the job is
run again, --tries times at most, and a row that has none without says so.

With --dummy the model is a config, its weights are random, and the jobs have 64 tokens of prompt and 48 completion
tokens for each of 8 rows or, from 8 slots on, one for each slot.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path


def workload(count, folder):
    """A workload as gsm is, with count rows, of which 128 are different."""
    path = folder / f"gsm-{count}.yaml"
    path.write_text(f"about: word problems\nprompts: questions\nrows: {count}\nmax_tokens: 128\ntemperature: 1\n")
    return path


def dummy_workload(count, folder):
    """Prompts of random tokens."""
    path = folder / f"tokens-{count}.yaml"
    path.write_text(
        f"about: random tokens\nprompts: tokens\nprompt_tokens: 64\nrows: {count}\nmax_tokens: 48\ntemperature: 1\n")
    return path


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sample", default="bin/sample")
    p.add_argument("--slots", default="1,4,16,64,256")
    p.add_argument("--weights", default="bf16,int8,auto")
    p.add_argument("--model", default="smollm2")
    p.add_argument("--repeat", default="2")
    p.add_argument("--tries", type=int, default=4)
    p.add_argument("--dummy", action="store_true")
    a = p.parse_args()
    print("| weights | slots | tokens/s | decode step | times the limit | limited by | reading | memory |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        for weights in a.weights.split(","):
            for slots in map(int, a.slots.split(",")):
                if a.dummy:
                    rows = dummy_workload(max(8, slots), Path(name))
                else:
                    rows = workload(min(512, max(16, 2 * slots)), Path(name))
                command = [
                    a.sample, "bench", "-m", a.model, "--dtype", "bf16", "--weights", weights, "-w", rows,
                    "--max-seqs", str(slots), "--max-model-len", "512", "--warmup", "0", "--repeat", a.repeat, "--json",
                    "--load-format", "dummy" if a.dummy else "auto"]
                for _ in range(max(1, a.tries)):
                    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                    r = json.loads(done.stdout)
                    m, before, after = r["median"], *(
                        r["peak"][k] / 1e9 for k in ("read_bytes_per_second_before", "read_bytes_per_second"))
                    if steady := not r.get("limit_is_rough"):
                        break
                reading = f"{after:.0f} GB/s" if steady else f"{before:.0f}, then {after:.0f} GB/s"
                print(
                    f"| {weights} | {slots} | {m['generated_tokens_per_second']:.0f} | "
                    f"{m['decode_step_seconds'] * 1e3:.1f} ms | {m['times_limit']:.2f} | {m['limit_by']} | {reading} | "
                    f"{m['peak_memory_bytes'] / 2**20:.0f} MiB |", flush=True)


main()
