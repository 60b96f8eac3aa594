#!/usr/bin/env python3
"""Measure GGUF files in their blocks, Quire and llama.cpp in turns on the same file:

    bench/blocks_vs_llama.py [FILE ...]

Without files: the demo model (Q4_1), Q8_0 and Q4_K_M of it, and Gemma 3 270M (sample setup gemma3). Needs bin/sample
(make) and "bench/peers/setup.sh llama weights". Everything that it makes stays in the cache. Prints a line of JSON for
each file and measurement.

Scores: Quire draws 40 greedy tokens behind each of 31 prompts in float32 (--weights f32 --dtype f32), whose tokens are
those of transformers. Each engine then says how likely these tokens are: mean_difference is the mean |difference| of
log-probabilities from float32, until_first how many of the tokens it would have drawn until each row's first
difference, of `tokens`.

Speed: prompts of 64 tokens, --new tokens each, greedy, --sequences at once, 2 threads, --rounds turns. Look at the
ratio of neighbours, on a machine where nothing else runs.
"""
import argparse, json, os, pathlib, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(
    os.environ.get("QUIRE_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "quire")
BIN = CACHE / "peers" / "llama_cpp_python-0.3.36" / "build-quire" / "bin"
TOKENS = 40


def files():
    demo = CACHE / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    wide = CACHE / "peers" / "SmolLM2-135M-Instruct.Q4_1-F32.gguf"
    found = [demo]
    for kind in "Q8_0", "Q4_K_M":
        made = CACHE / "peers" / f"SmolLM2-135M-Instruct.{kind}.gguf"
        if not made.exists():
            subprocess.run(
                [BIN / "llama-quantize", wide, f"{made}.tmp", kind], check=True, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            os.rename(f"{made}.tmp", made)
        found.append(made)
    gemma = CACHE / "models" / "gemma-3-270m-Q4_K_M.gguf"
    return found + [gemma] * gemma.exists()


def quire(model, rows, work, *flags):
    """The rows of a job, in their order, and its report."""
    (work / "in.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    command = [ROOT / "bin" / "sample", "run", "-m", model, "-i", work / "in.jsonl", "-o", work / "out", "--new",
               "--format", "jsonl", "--temperature", "0",
               "--progress", "none", "--report", work / "report.json", "--kv-memory", "512MiB", *flags]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    lines = [json.loads(line) for part in sorted((work / "out").glob("part-*.jsonl")) for line in part.open()]
    return lines, json.loads((work / "report.json").read_text())


def scored(model, texts, work, *flags):
    rows = [{"id": str(i), "prompt_token_ids": t} for i, t in enumerate(texts)]
    out, report = quire(
        model, rows, work, "--max-tokens", "0", "--prompt-logprobs", "1", "--max-model-len", "512", *flags)
    return [
        {"logprobs": r["prompt_logprobs"][1:], "best": [top[0] for top in r["prompt_top_ids"][1:]]}
        for r in out], report


def llama_scores(model, texts, work):
    (work / "rows").write_text("".join(" ".join(map(str, t)) + "\n" for t in texts))
    out = subprocess.run(
        [BIN / "llama_scores", model, work / "rows", "2"], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def compare(want, got, texts):
    off, until, n = 0.0, 0, 0
    for w, g, text in zip(want, got, texts, strict=True):
        begin = len(text) - TOKENS - 1  # of what stands for the tokens that were drawn
        off += sum(abs(a - b) for a, b in zip(w["logprobs"][begin:], g["logprobs"][begin:], strict=True))
        n += TOKENS
        for token, best in zip(text[begin + 1:], g["best"][begin:], strict=True):
            if token != best:
                break
            until += 1
    return {"mean_difference": off / n, "until_first": until, "tokens": n}


def scores(model, work):
    prompts = [json.loads(line) for line in (ROOT / "testdata" / "prompts" / "demo.jsonl").open()][:31]
    rows = [{"id": str(i), "prompt": p["messages"][-1]["content"]} for i, p in enumerate(prompts)]
    wide = "--weights", "f32", "--dtype", "f32"
    drawn, _ = quire(
        model, rows, work, "--ignore-eos", "--max-tokens", str(TOKENS), "--prompt-logprobs", "0", "--max-model-len",
        "512", *wide)
    texts = [r["prompt_token_ids"] + r["token_ids"] for r in drawn]
    want, _ = scored(model, texts, work, *wide)
    yield {"engine": "llama.cpp", **compare(want, llama_scores(model, texts, work), texts)}
    for dtype in "auto", "f32":
        got, report = scored(model, texts, work, "--dtype", dtype)
        yield {"engine": f"quire --dtype {dtype}", "weights": report["plan"].get("weights", report["plan"]["dtype"]),
               "weight_bytes": report["plan"]["weight_bytes"],
               **compare(want, got, texts)}


def speed(model, sequences, new, work):
    rows = [
        {"id": str(r), "prompt_token_ids": [1000 + (r * 7919 + i * 104729) % 40000 for i in range(64)]}
        for r in range(sequences)]
    _, r = quire(
        model, rows, work, "--ignore-eos", "--max-tokens", str(new), "--max-seqs", str(sequences), "--max-model-len",
        str(192 + new))
    yield {"engine": "quire", "decode": r["decode_tokens_per_second"], "prefill": r["prefill_tokens_per_second"]}
    command = [BIN / "llama-batched-bench", "-m", model, "-t", "2", "-tb", "2", "-c", "16384", "-npp", "64", "-ntg",
               str(new), "-npl", str(sequences), "--output-format", "jsonl"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    r = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
    yield {"engine": "llama.cpp", "decode": r["speed_tg"], "prefill": r["speed_pp"]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", nargs="*", type=pathlib.Path)
    p.add_argument(
        "--rounds", type=int, default=3, help="turns of each measurement of speed (default: 3); 0 compares scores only")
    p.add_argument("--sequences", default="1,64", help="how many sequences at once (default: 1,64)")
    p.add_argument("--new", type=int, default=64, help="new tokens of each (default: 64)")
    p.add_argument("--no-scores", action="store_true", help="measure speed only")
    o = p.parse_args()
    for model in o.files or files():
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            name = {"file": model.name, "file_bytes": model.stat().st_size}
            for line in () if o.no_scores else scores(model, work):
                print(json.dumps({**name, "measured": "scores", **line}), flush=True)
            for sequences in map(int, o.sequences.split(",")):
                for turn in range(o.rounds):
                    for line in speed(model, sequences, o.new, work):
                        print(
                            json.dumps({**name, "measured": "tokens/s", "sequences": sequences, "turn": turn, **line}),
                            flush=True)


main()
