#!/usr/bin/env python3
"""Write docs/benchmarks.md and docs/benchmarks-*.svg from bench/results/peers-*.json, one of each
processor, and the JSON of sample bench beside them (bench-*.json).

The plot needs matplotlib, which bench/peers/setup.sh python installs; without it the page is written and the plot is
left as it is.
"""

import glob
import json
import pathlib
import statistics
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
ABOUT = {
    "gsm": "128 rows x 128 tokens, sampled",
    "gsm-greedy": "128 rows x 128 tokens, greedy",
    "gsm-n4": "32 rows x 4 completions x 128 tokens, sampled",
    "gsm-fewshot": "128 rows after a shared 4-shot prefix x 64 tokens, sampled",
    "lengths-mixed": "128 rows, 16 to 512 tokens each, sampled",
    "lengths-equal": "128 rows, as many tokens as lengths-mixed in equal parts",
}


def groups(runs: list[dict]) -> dict[tuple[str, str, str], list[dict]]:
    """The runs by workload, engine and dtype, in the order in which they came."""
    out: dict = {}
    for r in runs:
        out.setdefault((r["workload"], r["engine"], r["dtype"]), []).append(r)
    return out


def median(runs: list[dict], name: str) -> float:
    return statistics.median(r[name] for r in runs)


def wrapped(text: str, **options) -> list[str]:
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False, **options)


def prose(text: str) -> list[str]:
    """A paragraph and the empty line behind it."""
    return [*wrapped(text), ""]


def workload_section(name: str, by: dict) -> list[str]:
    mine = {(e, d): runs for (w, e, d), runs in by.items() if w == name}
    lines = [f"### {name}: {ABOUT.get(name, 'see `sample bench`')}", ""]
    first = next(iter(mine.values()))[0]
    lines += [
        f"{first['completions']} completions, {first['prompt_tokens']} prompt tokens, "
        f"{first['generated_tokens']} generated, {first['slots']} slots.",
        "",
        "| engine | weights | tokens/s | from process start | start, load, compile | rows | peak memory | turns |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (engine, dtype), runs in sorted(mine.items(), key=lambda x: -median(x[1], "tokens_per_second")):
        each = ", ".join(f"{r['tokens_per_second']:.0f}" for r in runs)
        lines.append(
            f"| {engine} | {dtype} | {median(runs, 'tokens_per_second'):.0f} "
            f"| {median(runs, 'tokens_per_second_from_process_start'):.0f} "
            f"| {', '.join(format(r['process_seconds'] - r['generate_seconds'], '.1f') for r in runs)} s "
            f"| {runs[0]['rows']} "
            f"| {median(runs, 'peak_memory_bytes') / 2**20:.0f} MiB | {each} |"
        )
    lines.append("")
    quire = [runs for (engine, _), runs in mine.items() if engine == "quire"]
    if quire:
        ours = max(median(runs, "tokens_per_second_from_process_start") for runs in quire)
        ratios = [
            f"{ours / median(runs, 'tokens_per_second'):.2f} times {engine} ({dtype})"
            for (engine, dtype), runs in mine.items() if engine != "quire"
        ]
        if ratios:
            lines += prose(
                "Quire's whole process, including start and writing, compared with the others' generation alone: "
                f"{', '.join(ratios)}.")
    return lines


def commands_section(by: dict) -> list[str]:
    lines = ["### Commands", "", "One command of each, as it was run (WORK is a temporary folder):", ""]
    seen = set()
    for (_, engine, dtype), runs in by.items():
        if (engine, dtype) not in seen:
            seen.add((engine, dtype))
            lines.append(f"    {runs[0]['command'].removeprefix('bin/')}")
    return lines + [""]


def bench_section(files: list[str]) -> list[str]:
    """Where Quire's own time goes, by sample bench."""
    lines = []
    for file in files:
        r = json.loads(pathlib.Path(file).read_text())
        m, peak = r["median"], r.get("peak")
        share = ", ".join(f"{k} {100 * v:.1f} %" for k, v in m["shares"].items())
        arguments = [a if "/" not in a else f".../{pathlib.Path(a).name}" for a in r["command_line"][1:]]
        command = " ".join(["sample", *arguments])
        lines += [f"#### {r['workload']['name']}, {r['plan']['dtype']}", "", f"    {command}", ""]
        each = ", ".join(format(x["generated_tokens_per_second"], ".0f") for x in r["runs"])
        rows = [
            ("tokens/s (runs)", f"{m['generated_tokens_per_second']:.0f} ({each})"),
            *([("decode step", f"{1000 * m['decode_step_seconds']:.1f} ms")] if m.get("decode_step_seconds") else []),
            ("first token, from the start of the run", f"{m['first_token_seconds']:.2f} s"),
            ("start: until ready, until the first token",
             f"{r['start']['ready_seconds']:.1f} s, {r['start']['first_token_seconds']:.1f} s"),
            ("programs compiled, from the cache",
             f"{r['start']['programs_compiled']}, {r['start']['programs_from_cache']}"),
            ("time", share),
            ("device idle", f"{100 * m['device_idle_share']:.2f} %"),
            ("peak memory", f"{m['peak_memory_bytes'] / 2**20:.0f} MiB"),
        ]
        if peak:
            rows += [
                ("matmuls", f"{m.get('matmul_flops_per_second', 0) / 1e9:.0f} GFLOP/s, "
                 f"{100 * m.get('matmul_share_of_peak', 0):.0f} % of the measured peak; "
                 f"while their kernels run {100 * m.get('matmul_share_of_peak_in_kernels', 0):.0f} %"),
            ]
            if "limit_seconds" in m:
                by = f"{m['limit_seconds']:.2f} s by {m['limit_by']}"
                rows.append(("limit", f"{by}; the run took {m['times_limit']:.1f} times that"))
            rows += [
                ("measured peak", f"{peak['float32_flops'] / 1e9:.0f} GFLOP/s float32, "
                 f"{peak['bfloat16_flops'] / 1e9:.0f} GFLOP/s bfloat16, "
                 f"{peak['read_bytes_per_second'] / 1e9:.1f} GB/s read ({peak['level']}, {peak['threads']} threads)"),
            ]
        lines += ["| | |", "| --- | --- |"] + [f"| {k} | {v} |" for k, v in rows] + [""]
    return lines


def plot(by: dict, machine: dict, path: pathlib.Path) -> bool:
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "quire", "font.size": 9})
    from matplotlib import pyplot

    names = list(dict.fromkeys(w for w, _, _ in by))
    figure, axes = pyplot.subplots(1, len(names), figsize=(3.4 * len(names), 2.6), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        mine = sorted(
            ((f"{e} {d}", median(r, "tokens_per_second")) for (w, e, d), r in by.items() if w == name),
            key=lambda x: x[1])
        bars = axis.barh(
            [m[0] for m in mine], [m[1] for m in mine],
            color=["#1f6f8b" if m[0].startswith("quire") else "#b9c4c9" for m in mine])
        axis.bar_label(bars, fmt="%.0f", padding=2)
        axis.set_title(name)
        axis.set_xlabel("generated tokens/s")
        axis.margins(x=0.18)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"SmolLM2-135M on {machine['cpu']}, {machine['threads']} threads", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    # matplotlib leaves blanks at the ends of lines.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
    return True


def machine_section(peers: pathlib.Path, page: pathlib.Path) -> list[str]:
    """What was measured on one machine."""
    result = json.loads(peers.read_text())
    m, by = result["machine"], groups(result["runs"])
    if not by:
        sys.exit(f"report: {peers} has no runs")
    level = peers.stem.removeprefix("peers-")
    image = page.with_name(f"{page.stem}-{level}.svg")
    if not plot(by, m, image):
        print(
            f"report: no matplotlib, so {image} stays as it is: run this with the Python of bench/peers/setup.sh",
            file=sys.stderr)
    versions = ", ".join(f"{k} {v}" for k, v in m["versions"].items())
    lines = [
        f"## {m['cpu']} ({level})", "",
        *prose(
            f"{m['date']}, {m['threads']} threads ({', '.join(m['features'])}), {m['memory_bytes'] / 2**30:.0f} GiB. "
            f"{versions}."),
        f"    {result['command']}", "",
    ]
    busy = [r for r in result["runs"] if r["load_average_before"] > 2.5 * m["threads"]]
    if busy:
        lines += prose(
            f"**{len(busy)} of {len(result['runs'])} turns started on a busy machine**: only ratios of neighbouring "
            "turns are meaningful.")
    if image.exists():
        lines += [f"![Generated tokens a second by engine and workload]({image.name})", ""]
    for name in dict.fromkeys(w for w, _, _ in by):
        lines += workload_section(name, by)
    measured = {(e, w) for (w, e, _) in by}
    # the first reason of each
    why = {(x["engine"], x.get("workload", "")): x["why"] for x in reversed(result["left_out"])}
    left_out = [
        line for (e, w), text in why.items() if (e, w) not in measured
        for line in wrapped(f"- {e}{' on ' + w if w else ''}: {text}", subsequent_indent="  ")]
    if left_out:
        lines += ["Not measured:", "", *left_out, ""]
    own = sorted(glob.glob(str(peers.with_name(f"bench-{level}-*.json"))))
    if own:
        lines += [
            "### Where Quire's time goes", "",
            "Shares of the wall-clock time of a run, measured by clocks around the kernels' calls."]
        lines += ["\"other\" is XLA's own code and the device calls.", ""] + bench_section(own)
    return lines + commands_section(by)


def main(results: pathlib.Path, page: pathlib.Path) -> None:
    files = sorted(results.glob("peers-*.json"))
    if not files:
        sys.exit(
            f"report: {results} has no peers-*.json: bench/peers/run.py writes one for the processor that it runs on")
    lines = [
        "# Benchmarks", "",
        "For users: how fast Quire and other engines do the same jobs, with the commands that measured it.", "",
        "There is one section for each processor. Compare figures within a section only.", "",
        "- All engines get the same token ids and generate the same number of tokens. End-of-sequence tokens are "
        "ignored.",
        "- Sampling is at temperature 1 from the whole vocabulary.",
        "- The model is SmolLM2-135M-Instruct, dequantized to bfloat16. Each engine runs in the weight type that is",
        "  fastest for it on that processor.",
        "- Each turn is a process of its own, and engines take turns, in the order of `bench/results/peers-*.json`.",
        "  Figures are medians; the last column has each turn's.",
        "- transformers runs one batch of 64.", "",
        "    bench/peers/setup.sh", "    make bench-peers", "",
    ]
    for file in files:
        lines += machine_section(file, page)
    page.write_text("\n".join(lines).rstrip() + "\n")
    print(f"report: {page}", file=sys.stderr)


if __name__ == "__main__":
    arguments = [pathlib.Path(a) for a in sys.argv[1:]]
    main(*(arguments or [RESULTS, ROOT / "docs" / "benchmarks.md"]))
