#!/usr/bin/env python3
"""Runs rows of the Berkeley Function Calling Leaderboard with strict tools, and judges the calls.

    pip download --no-deps bfcl-eval && unzip -d bfcl bfcl_eval-*.whl      # has the data and the checker
    pip install jsonschema
    bench/bfcl.py --bfcl bfcl [--sample bin/sample] [--model qwen] [--rows 40]
        [--categories simple_python,multiple,parallel] [--tool-choice auto] [--example] [--no-strict]
        [--out FOLDER] [flags of sample run]
    bench/bfcl.py --bfcl bfcl --vllm PYTHON --model FOLDER ... [flags of vLLM]

With --vllm the rows run on the vLLM of that Python (bench/peers/setup.sh), as a file of OpenAI's Batch API.

Prints a row of Markdown for each category: rows, rows with calls, calls, calls whose arguments are JSON of the tool's
schema, and rows that BFCL's own checker of syntax trees accepts. It fails if a call of strict tools does not fit.
"""
import argparse, json, os, re, subprocess, sys, tempfile, types
from pathlib import Path

# Types of BFCL, which are Python's, as types of JSON Schema: as the package's GORILLA_TO_OPENAPI has them.
TYPES = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "any": "string", "bool": "boolean"}

# A conversation with two calls, for models that otherwise write calls in a form of their own.
EXAMPLE = [
    {"role": "user", "content": "What is 1 + 2, and what is 3 + 4?"},
    {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": a}} for a in
                                         ({"a": 1, "b": 2}, {"a": 3, "b": 4})]},
    {"role": "tool", "content": "3"}, {"role": "tool", "content": "7"},
    {"role": "assistant", "content": "They are 3 and 7."},
]


def schema(node):
    """A schema of BFCL as JSON Schema."""
    made = {k: node[k] for k in ("description", "enum", "maximum") if k in node}
    kind = made["type"] = TYPES.get(node["type"], node["type"])
    if kind == "array" and "items" in node:
        made["items"] = schema(node["items"])
    if kind == "object" and "properties" in node:
        made["properties"] = {name: schema(p) for name, p in node["properties"].items()}
        made["required"] = [name for name in node.get("required", []) if name in made["properties"]]
        made["additionalProperties"] = False
    return made


def function(f, strict):
    """A function of BFCL as a tool; names have no dots, as for OpenAI's API."""
    made = {"name": re.sub(r"\.", "_", f["name"]), "description": f["description"],
            "parameters": schema(f["parameters"])}
    if strict:
        made["strict"] = True
    return {"type": "function", "function": made}


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def checker(folder):
    """BFCL's checker, without the models that it knows, whose packages are many."""
    sys.path.insert(0, str(folder))
    models = types.ModuleType("bfcl_eval.constants.model_config")
    models.MODEL_CONFIG_MAPPING = {"quire": types.SimpleNamespace(underscore_to_dot=True)}
    sys.modules["bfcl_eval.constants.model_config"] = models
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker
    return lambda functions, calls, answer, category: ast_checker(functions, calls, answer, Language.PYTHON, category,
                                                                  "quire")["valid"]


def run(o, category, rows, extra):
    """The results of rows by id: tool_calls, finish_reason and text."""
    out = Path(o.out or tempfile.mkdtemp()) / category
    out.mkdir(parents=True, exist_ok=True)
    asked = [{"id": r["id"], "messages": EXAMPLE * o.example + r["question"][0],
              "tools": [function(t, o.strict) for t in r["function"]]} for r in rows]
    if o.vllm:
        return run_vllm(o, out, asked, extra)
    with open(out / "in.jsonl", "w") as f:
        f.writelines(json.dumps(row) + "\n" for row in asked)
    # The calls of the only turn are not made: no command answers them.
    subprocess.run([o.sample, "run", "-q", "-m", o.model, "-i", out / "in.jsonl", "-o", out / "out", "--format",
                    "jsonl", "--tool-command", "false", "--max-turns", "1", "--columns", "tool_calls", "--tool-choice",
                    o.tool_choice, "--temperature", "0", "--max-tokens", "256", *extra], check=True)
    return {r["id"]: r for part in sorted((out / "out").glob("part-*.jsonl")) for r in lines(part)}


def run_vllm(o, out, asked, extra):
    with open(out / "in.jsonl", "w") as f:
        for row in asked:
            body = {"model": o.model, "messages": row["messages"], "tools": row["tools"], "tool_choice": o.tool_choice,
                    "temperature": 0, "max_tokens": 256}
            f.write(json.dumps({"custom_id": row["id"], "method": "POST", "url": "/v1/chat/completions",
                                "body": body}) + "\n")
    subprocess.run([o.vllm, "-m", "vllm.entrypoints.openai.run_batch", "-i", out / "in.jsonl", "-o", out / "out.jsonl",
                    "--model", o.model, "--enable-auto-tool-choice", "--tool-call-parser", "hermes", *extra],
                   check=True, env={"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_NO_USAGE_STATS": "1", **os.environ})
    made = {}
    for line in lines(out / "out.jsonl"):
        choice = line["response"]["body"]["choices"][0]
        message = choice["message"]
        made[line["custom_id"]] = {"tool_calls": json.dumps(message.get("tool_calls") or []),
                                   "finish_reason": choice["finish_reason"], "text": message["content"] or ""}
    return made


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bfcl", type=Path, required=True)
    p.add_argument("--sample", default="bin/sample")
    p.add_argument("--vllm", metavar="PYTHON", help="run the rows on vLLM")
    p.add_argument("--model", default="qwen")
    p.add_argument("--rows", type=int, default=40)
    p.add_argument("--categories", default="simple_python,multiple,parallel")
    p.add_argument("--tool-choice", default="auto")
    p.add_argument("--example", action="store_true", help="begin each row with EXAMPLE")
    p.add_argument("--strict", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--out")
    o, extra = p.parse_known_args()
    import jsonschema
    valid, data, bad = checker(o.bfcl), o.bfcl / "bfcl_eval" / "data", 0
    print("| category | rows | truncated | with calls | calls | fit their schema | right |\n" + "| --- " * 7 + "|")
    for category in o.categories.split(","):
        name = f"BFCL_v4_{category}.json"
        rows = lines(data / name)[:o.rows]
        answers = {r["id"]: r["ground_truth"] for r in lines(data / "possible_answer" / name)}
        done = run(o, category, rows, extra)
        calling = calls = fit = right = cut = 0
        for r in rows:
            tools = [function(t, True)["function"] for t in r["function"]]
            schemas = {t["name"]: t["parameters"] for t in tools}
            result, made = done[r["id"]], []
            cut += result["finish_reason"] == "length"
            for call in json.loads(result["tool_calls"] or "[]"):
                calls += 1
                try:
                    arguments = json.loads(call["function"]["arguments"])
                    jsonschema.validate(arguments, schemas[call["function"]["name"]])
                    fit += 1
                    made.append({call["function"]["name"]: arguments})
                except (ValueError, KeyError, jsonschema.ValidationError) as e:
                    print(f"{r['id']}: {call['function']}: {str(e).splitlines()[0]}", file=sys.stderr)
            # Text that has a mark of a call has one that could not be parsed, unless it is truncated.
            if "<tool_call>" in result["text"] and result["finish_reason"] != "length":
                calls += 1
                print(f"{r['id']}: {result['text']!r}", file=sys.stderr)
            calling += bool(made)
            right += bool(made) and valid(r["function"], made, answers[r["id"]], category)
        bad += calls - fit
        print(f"| {category} | {len(rows)} | {cut} | {calling} | {calls} | {fit} | {right} |", flush=True)
    sys.exit(o.strict and not o.vllm and bad > 0)


main()
