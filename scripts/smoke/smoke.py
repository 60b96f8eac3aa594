#!/usr/bin/env python3
"""Tries Quire on a machine with an accelerator, in ten minutes, and writes what came of it as JSON, to send back.

    scripts/tpu_smoke [FLAGS]      # --backend xla:tpu
    scripts/gpu_smoke [FLAGS]      # --backend xla:cuda

Parts, each with its error if it fails:

    machine   versions, and what the plugin calls the devices
    ahead     programs compiled ahead, by `sample plan --compile-only`, here or on another machine: whether the run
              took all of them
    draw      64 greedy tokens for each of 4 prompts, on the device
    compare   the same on the CPU: how many are the same, where the others part, how far the logprobs are apart before
              that
    speed     a decode step and a prompt step of random weights, beside the roofline of `sample plan`

To compile ahead on another machine, run there with --topology NAME --only ahead, and copy QUIRE_CACHE/programs. Without
a chip, --backend xla:cpu goes through the same steps, to see that they work; the tokens are then compared with those of
--kernels off. Nothing but the JSON file and QUIRE_CACHE/programs is left behind. Needs Python 3.9 and sample (make),
and its plugins and model (sample setup tpu cpu model).
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ["machine", "ahead", "draw", "compare", "speed"]
PROMPTS = ["The capital of France is", "def fibonacci(n):", "Once upon a time", "Water boils at"]
DRAWN = 64


class Smoke:
    def __init__(self, o: argparse.Namespace, work: pathlib.Path):
        self.o, self.work, self.end = o, work, time.monotonic() + 60 * o.minutes
        self.engine = [
            "--dtype", o.dtype, "--max-model-len", str(o.model_len), "--max-seqs", "16", "--kv-memory", o.kv_memory]
        self.rows = work / "rows.jsonl"
        folder = pathlib.Path(o.model)
        speechless = folder.is_dir() and not (folder / "tokenizer.json").exists()
        prompts = [{"prompt_token_ids": list(p.encode())} if speechless else {"prompt": p} for p in PROMPTS]
        self.rows.write_text("".join(json.dumps({"id": str(i), **p}) + "\n" for i, p in enumerate(prompts)))

    def sample(self, *arguments: str) -> str:
        left = self.end - time.monotonic()
        if left <= 0:
            raise RuntimeError(f"the {self.o.minutes:g} minutes are over (--minutes)")
        try:
            done = subprocess.run([self.o.sample, *arguments], capture_output=True, text=True, timeout=left)
        except subprocess.TimeoutExpired:
            raise RuntimeError(
                f"sample {arguments[0]} was not done in the {left:.0f} s that were left (--minutes)") from None
        except OSError as e:
            raise RuntimeError(f"sample can't be run: {e}; build it (make), or name it (--sample)") from None
        if done.returncode:
            raise RuntimeError(f"sample {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def machine(self) -> dict:
        return {
            "sample": self.sample("version").strip(), "python": platform.python_version(),
            "system": platform.platform(), "processors": os.cpu_count()}

    def ahead(self) -> dict:
        """Compiles the programs of the part draw, for devices that need not exist if a topology is named."""
        where = ["--topology", self.o.topology] if self.o.topology else ["--backend", self.o.backend]
        before = programs()
        start = time.monotonic()
        plan = json.loads(
            self.sample("plan", "--model", self.o.model, *where, *self.engine, "--compile-only", "--json"))
        return {"seconds": time.monotonic() - start, "added": len(programs() - before), "device": plan["device"],
                "programs": plan["plan"]["programs"],
                "kernels": plan.get("kernels", []), "warnings": plan.get("warnings", [])}

    def drawn(self, backend: str, *more: str) -> tuple:
        out, report = self.work / "-".join(["out", backend.replace(":", "-"), *more]), self.work / "report.json"
        self.sample("run", "--model", self.o.model, "--input", str(self.rows), "--output", str(out), "--format",
                    "jsonl", "--backend", backend, *more, *self.engine,
                    "--temperature", "0", "--max-tokens", str(DRAWN), "--ignore-eos", "--progress", "none", "--report",
                    str(report))
        rows = [json.loads(line) for part in sorted(out.glob("part-*.jsonl")) for line in part.open()]
        if len(rows) != len(PROMPTS) or any(len(r["token_ids"]) != DRAWN for r in rows):
            raise RuntimeError(
                f"{len(rows)} completions came, of {[len(r.get('token_ids') or []) for r in rows]} tokens")
        return rows, json.loads(report.read_text())

    def draw(self) -> dict:
        before = programs()
        self.device_rows, report = self.drawn(self.o.backend)
        compiled = len(programs() - before)
        return {"device": report["plan"]["backend"], "programs_compiled": compiled, "all_were_ahead": compiled == 0,
                "total_seconds": report["total_seconds"],
                "time_to_first_token_seconds": report["time_to_first_token_seconds"], "engine": report["engine"]}

    def compare(self) -> dict:
        rows, _ = self.drawn("xla:cpu", *(["--kernels", "off"] if self.o.backend == "xla:cpu" else []))
        parted, apart = [], 0.0
        for mine, other in zip(self.device_rows, rows):
            same = next((i for i, (a, b) in enumerate(zip(mine["token_ids"], other["token_ids"])) if a != b), DRAWN)
            apart = max([apart, *(abs(a - b) for a, b in zip(mine["logprobs"][:same], other["logprobs"][:same]))])
            if same < DRAWN:
                parted.append(same)
        result = {
            "completions": len(rows), "same": len(rows) - len(parted), "others_part_at_token": sorted(parted),
            "logprobs_apart": apart}
        if apart > self.o.tolerance:
            raise RuntimeError(
                f"logprobs of equal tokens are up to {apart:g} apart, and {self.o.tolerance:g} is rounding "
                f"(--tolerance): {result}")
        return result

    def speed(self) -> dict:
        """Times two jobs that differ in the number of decode steps, and their prompts."""
        slots, context = self.o.slots, self.o.context
        engine = ["--model", self.o.config, "--backend", self.o.backend, "--dtype", self.o.dtype, "--layers",
                  self.o.layers, "--max-seqs", str(slots),
                  "--max-model-len", str(context + DRAWN), "--kv-memory",
                  str(slots * (context + DRAWN + 64) * token_bytes(self.o.config, self.o.dtype))]
        plan = json.loads(self.sample("plan", *engine, "--context", str(context), "--json"))
        seconds, prompts = {}, None
        for tokens in (1, DRAWN):
            job = self.work / f"job-{tokens}.yaml"
            job.write_text(
                f"about: {slots} sequences\nprompts: tokens\nprompt_tokens: {context}\nrows: {slots}\nmax_tokens: "
                f"{tokens}\ntemperature: 1\n")
            median = json.loads(self.sample("bench", *engine, "--load-format", "dummy", "--workload", str(job),
                                            "--prefix-cache", "off", "--warmup", "1",
                                            "--repeat", "1", "--json"))["median"]
            seconds[tokens] = median["seconds"]
            prompts = prompts or median["engine"]["prefill_tokens"]
        step = (seconds[DRAWN] - seconds[1]) / (DRAWN - 1)
        decode, prefill = slots / step, prompts / seconds[1]
        result = {"config": self.o.config, "slots": slots, "context": context,
                  "prefill_step_tokens": plan["plan"]["prefill_tokens"],
                  "decode_step_seconds": step, "decode_tokens_per_second": decode, "prefill_tokens_per_second": prefill}
        roofline = plan.get("estimate")
        if roofline:  # the CPU has none
            result.update(chip=roofline["chip"], decode_share=decode / roofline["decode_tokens_per_second"],
                          prefill_share=prefill / roofline["prefill_tokens_per_second"])
        return result


def programs() -> set:
    """The cached compiled programs, each as its file: one that could not be used is written again."""
    cache = pathlib.Path(os.environ.get("QUIRE_CACHE") or pathlib.Path.home() / ".cache" / "quire")
    return {(p.name, p.stat().st_ino) for p in (cache / "programs").glob("*.pjrt")}


def token_bytes(config: str, dtype: str) -> int:
    """Bytes of a token's keys and values."""
    path = pathlib.Path(config)
    c = json.loads((path / "config.json" if path.is_dir() else path).read_text())
    heads = c["num_attention_heads"]
    width = c.get("head_dim") or c["hidden_size"] // heads
    return (4 if dtype == "f32" else 2) * 2 * c["num_hidden_layers"] * c.get("num_key_value_heads", heads) * width


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--backend", required=True, help="xla:tpu, xla:cuda, or xla:cpu to try the script")
    p.add_argument("--sample", default=str(ROOT / "bin" / "sample"), help="the program")
    p.add_argument("--model", default="smollm2", help="whose tokens are compared")
    p.add_argument(
        "--config", default=str(ROOT / "configs" / "models" / "llama-3.1-8b.json"),
        help="of the model of random weights whose speed is measured")
    p.add_argument(
        "--topology", default="", help="what to compile ahead for: v5e:1x1; if not given, the devices of --backend")
    p.add_argument("--dtype", default="bf16")
    p.add_argument("--kv-memory", default="256MiB", help="of --model")
    p.add_argument("--model-len", type=int, default=256, help="the longest sequence of --model")
    p.add_argument(
        "--layers", choices=("unrolled", "loop"),
        help="as sample's --layers, for the speed (default: loop, which compiles sooner; unrolled on xla:cuda, where a "
             "loop copies the weights)")
    p.add_argument("--slots", type=int, default=16)
    p.add_argument("--context", type=int, default=512)
    p.add_argument(
        "--tolerance", type=float, default=0.3,
        help="how far logprobs of equal tokens may be apart; of bf16, 30 layers deep, are 0.2")
    p.add_argument("--minutes", type=float, default=10, help="after which nothing is started, and what runs is ended")
    p.add_argument("--only", default=",".join(PARTS), help="parts to do")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("smoke.json"), help="the file to send back")
    o = p.parse_args()
    o.layers = o.layers or ("unrolled" if o.backend == "xla:cuda" else "loop")
    wanted = o.only.split(",")
    if unknown := [part for part in wanted if part not in PARTS]:
        p.error(f"--only {unknown[0]}: the parts are {', '.join(PARTS)}")
    if "compare" in wanted and "draw" not in wanted:
        p.error("--only compare needs draw too")
    result: dict = {"command": sys.argv, "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "failed": {}}
    with tempfile.TemporaryDirectory() as work:
        smoke = Smoke(o, pathlib.Path(work))
        for part in wanted:
            try:
                if part == "compare" and "draw" in result["failed"]:
                    raise RuntimeError("nothing was drawn")
                start = time.monotonic()
                result[part] = getattr(smoke, part)()
                print(f"{part}: done in {time.monotonic() - start:.0f} s", file=sys.stderr)
            except (RuntimeError, OSError, ValueError, KeyError) as e:
                result["failed"][part] = f"{type(e).__name__}: {e}"
                print(f"{part}: {result['failed'][part]}", file=sys.stderr)
            o.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {o.out}: send it back", file=sys.stderr)
    sys.exit(1 if result["failed"] else 0)


if __name__ == "__main__":
    main()
