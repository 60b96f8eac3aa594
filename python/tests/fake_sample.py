"""Stands for ``sample`` in fast tests: takes its flags, reads its inputs, writes outputs and messages like its own. The
model's name says what happens. Each completion is the prompt with the generation; the column
args has the command line."""

import json
import os
import shutil
import signal
import sys
import time

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq


def main() -> int:
    args = sys.argv[1:]
    if args[0] == "show":
        return show(args[1], args[3])
    given: dict[str, str] = {}
    words = iter(args[1:])
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        given[name] = value if equals else next(words)
    model, output, n = given["model"], given.get("output", ""), int(given.get("n-generations", 1))
    say("opening " + model)
    if model == "unknown-flag":
        say("sample: run: unknown flag: --max-token; did you mean --max-tokens?")
        say('Run "sample help run" for the usage.')
        return 2
    if model == "broken":
        say("sample: model.gguf: the file ends before its tensors:\nfetch it again")
        return 1
    if model == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if model == "interrupted":
        signal.signal(signal.SIGINT, lambda *_: sys.exit(4))
        say("progress: waiting")
        time.sleep(60)
    if model == "warns":
        say('warning: column "temprature" is not a parameter of Quire')
    if args[0] == "context":
        return contexts(model)
    path = given["input"]
    if path == "-":
        for line in sys.stdin:
            row = json.loads(line)
            for g in range(n):
                print(json.dumps({**row, "generation": g, "text": f"{row.get('prompt')} {g}"}), flush=True)
        return 0
    table = pq.read_table(path) if path.endswith(".parquet") else pyarrow.json.read_json(path)
    rows = [
        {**row, "generation": g, "text": f"{row.get('prompt')} {g}", "args": args}
        for row in table.to_pylist()
        for g in range(n)
    ]
    if args[0] == "embed":
        rows = [{**row, "embedding": [float(len(row["text"])), 0.5], "truncated": False} for row in rows]
        if model == "partial":
            rows[0]["embedding"] = None
    if args[0] in ("classify", "rerank"):
        rows = [{**row, "scores": [0.25, 0.75]} for row in rows]
    if output == "-":
        return stream(model, rows)
    os.makedirs(output + "/_job", exist_ok=True)
    with open(output + "/_job/job.json", "w") as file:
        json.dump({"settings": {"rows": table.num_rows, "part_rows": 2}}, file)
    for part in range(0, table.num_rows, 2):
        pq.write_table(
            pa.Table.from_pylist(rows[part * n : (part + 2) * n]), f"{output}/part-{part // 2:05d}.parquet"
        )
    return 3 if model == "partial" else 0


def stream(model: str, rows: list[dict[str, object]]) -> int:
    """Writes rows as they come. An endless model begins again until it is told to end."""
    ended: list[int] = []
    signal.signal(signal.SIGINT, lambda *_: ended.append(4))
    while True:
        for at, row in enumerate(rows):
            if ended:
                say("sample: interrupted")
                return 4
            if model == "fails-later" and at == 1:
                say("sample: the device is gone")
                return 1
            print(json.dumps(row), flush=True)
        if model != "endless":
            return 3 if model == "partial" else 0


def contexts(model: str) -> int:
    """Keeps the tokens of contexts: those of a text are its bytes. A completion is the whole context and a number."""
    held: dict[int, list[int]] = {}
    saved: dict[str, list[int]] = {}
    for number, line in enumerate(sys.stdin, 1):
        asked = json.loads(line)
        op, at = asked["op"], asked.get("context", 0)
        tokens = list(asked["prompt"].encode()) if "prompt" in asked else asked.get("prompt_token_ids", [])
        if model == "dies-later" and op == "append":
            say("sample: the device is gone")
            return 1
        answer: dict[str, object] = {"asked": asked}
        if op == "info":
            answer |= {"page_size": 16, "max_model_len": 64}
        elif op in ("new", "fork", "load"):
            before = {"fork": held.get(at, []), "load": saved.get(asked.get("name", ""), [])}.get(op, [])
            at = max(held, default=0) + 1
            held[at] = list(before)
            answer["context"] = at
        elif op == "append" and len(held[at]) + len(tokens) > 64:
            answer = {"error": "the prompt is too long", "line": number, "code": "too_long"}
        elif op in ("append", "forward"):
            held[at] += tokens
            answer |= {"tokens": tokens, "logits": [[0.5, None]]}
        elif op == "generate":
            answer["completions"] = [{"text": bytes(held[at] + tokens).decode() + " 0"}]
        elif op == "score":
            answer["logprobs"] = [-float(token) for token in tokens]
        elif op == "truncate":
            del held[at][len(held[at]) - asked["tokens"] :]
        elif op == "tokens":
            answer["tokens"] = held[at]
        elif op == "materialize":
            answer |= {"keys": [[[1.0]]], "values": [[[2.0]]]}
        elif op == "save":
            saved[asked["name"]] = list(held[at])
        elif op == "snapshots":
            answer["names"] = sorted(saved)
        elif op == "close":
            del held[at]
        if at in held:
            answer["length"] = len(held[at])
        print(json.dumps(answer), flush=True)
    return 0


def show(output: str, snapshot: str) -> int:
    """Takes the folder _job/journal for a journal, whose rows are in part files."""
    journal = output + "/_job/journal"
    if os.path.exists(journal + "/broken"):
        say("sample: the input is not what it was")
        return 1
    if not os.path.isdir(output):
        say(f"sample: cannot open {output}: there is no such file or folder")
        return 1
    if os.path.isdir(journal):
        shutil.copytree(journal, snapshot)
    else:
        os.makedirs(snapshot)
    return 0


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
