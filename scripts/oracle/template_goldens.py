"""Renders published chat templates with transformers: template_goldens.py [--texts FILE] [DIR].

DIR has the templates that collect_templates.py collected, ~/.cache/quire/templates unless given. Writes
text/chat/testdata/published.json: the conversations, and for each template its hash, the forms of messages that it
takes, and for each conversation the hash of the text, or the message that the template raises. --texts writes the
texts whole, to look at what differs: chat.TestPublishedTemplates reads QUIRE_TEMPLATE_TEXTS.
"""
import argparse
import contextlib
import datetime
import hashlib
import io
import json
import os
import pathlib
import re

import transformers.utils.chat_template_utils as ctu

CACHE = pathlib.Path(os.environ.get("QUIRE_CACHE") or pathlib.Path.home() / ".cache" / "quire")
GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "text" / "chat" / "testdata" / "published.json"
NEEDLE = "quire7needle"
NEEDED = ["tool_calls", "tools", "documents"]  # what must not be lost: as chat has it


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2025, 3, 7, 9, 5, 4)


ctu.datetime = Clock


def U(t): return {"role": "user", "content": t}
def A(t, **more): return {"role": "assistant", "content": t} | more
def S(t): return {"role": "system", "content": t}
def T(t, **more): return {"role": "tool", "tool_call_id": "abcdefghi", "content": t} | more
def parts(*texts): return [{"type": "text", "text": t} for t in texts]


def call(name, arguments, id="abcdefghi"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


TOOLS = [
    {
        "type": "function",
        "function": {"name": "weather", "description": "The weather of a place, in °C & <words>.", "parameters": {
        "type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "description": "A \"place\", such as 東京"},
            "days": {"type": "integer", "minimum": 1, "default": None},
            "unit": {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"},
            "when": {"type": ["string", "null"], "nullable": True},
            "at": {
                "type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                "required": ["lat"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "any": {"anyOf": [{"type": "string"}, {"type": "number", "maximum": 1.5e-7}]}}}}},
    {
        "type": "function",
        "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}},
]
ARGUMENTS = {"place": "Zürich \"HB\" <1>", "days": 2, "deep": {"b": [1.0, None, True], "a": {}}, "on": False}
ASK = [S("Be brief."), U("Is it warm?"), A("", tool_calls=[call("weather", ARGUMENTS)])]

CASES = [
    {"messages": [U("Hello")]},
    {"messages": [U("Hello")], "add_generation_prompt": True},
    {"messages": [S("You are terse."), U("What is 2+2?")], "add_generation_prompt": True},
    {"messages": [S("You are terse."), U("What is 2+2?"), A("4"), U("Sure?")]},
    {
        "messages": [S("You are terse."), U("What is 2+2?"), A("4"), U("Sure?"), A("Yes.")],
        "add_generation_prompt": True},
    {"messages": [U("  spaced out \n"), A("\n\nyes  "), U("more\n\nlines\tand tabs")], "add_generation_prompt": True},
    {
        "messages": [S(" Be kind. /no_think"), U("Hi 👋 日本語"), A("Hé!"), U("{{ x }} {% if %} <|im_end|></s>[INST]")],
        "add_generation_prompt": True},
    {"messages": [U("q1"), A("<think>\nbecause\n</think>\n\nanswer"), U("q2"), A("<think>hm</think>a2")]},
    {"messages": [U("q1"), A("a1", reasoning_content="because"), U("q2")], "add_generation_prompt": True},
    {"messages": [U("q1"), A("a1", reasoning="Hm.\nSo: ü.")]},
    {"messages": [U("q1"), A("a1", thinking="old"), U("q2"), A("", reasoning_content="new")]},
    {"messages": [S("/think always"), U("ok"), A("sure"), S("late system"), U("x")], "add_generation_prompt": True},
    {"messages": [{"role": "developer", "content": "Obey."}, U("x")], "add_generation_prompt": True},
    {"messages": [S("Only me.")]},
    {"messages": [A("assistant first"), U("user second")]},
    {"messages": [U("a"), U("b")]},
    {"messages": [U("")], "add_generation_prompt": True},
    {"messages": [S(""), U("x"), A("")]},
    {"messages": [U(parts("one", " two "))], "add_generation_prompt": True},
    {"messages": [S(parts("sys")), U(parts("one")), A(parts("a", "b")), U("text")], "add_generation_prompt": True},
    {"messages": [{"role": "user", "name": "Ada", "content": "hi"}, A("yes", weight=1.5, refusal=None)]},
    {"messages": [{"role": "narrator", "content": "?"}]},
    {"messages": [U("Write."), A("The sea")], "continue_final_message": True},
    {"messages": [U("Write."), A("  The sea  ")], "continue_final_message": True},
    {"messages": [U("Write."), A("")], "continue_final_message": True},
    {"messages": [S("s"), U("The sea")], "continue_final_message": True},
    {"messages": [U("Write."), A(parts("one", "two "))], "continue_final_message": True},
    {"messages": [U("Write."), A("so", reasoning_content="hm")], "continue_final_message": True},
    {"messages": [U("Is it warm?")], "tools": TOOLS, "add_generation_prompt": True},
    {"messages": [S("Be brief."), U("Is it warm?")], "tools": TOOLS[1:], "add_generation_prompt": True},
    {"messages": ASK, "tools": TOOLS},
    {"messages": [*ASK, T('{"t": 21.5}', name="weather")], "tools": TOOLS, "add_generation_prompt": True},
    {
        "messages": [*ASK, T('{"t": 21.5}', name="weather"), A("Yes."), U("And now?")], "tools": TOOLS,
        "add_generation_prompt": True},
    {"messages": [*ASK, T('{"t": 21.5}', name="weather"), A("Yes.")], "add_generation_prompt": True},
    {
        "messages": [U("?"), A(None, tool_calls=[call("weather", json.dumps(ARGUMENTS))]), T("21")], "tools": TOOLS,
        "add_generation_prompt": True},
    {"messages": [U("Both?"), A("I look.", tool_calls=[call("weather", {"place": "a"}), call("now", "", "bcdefghij")]),
                  T("21", name="weather"), T("12:00", name="now", tool_call_id="bcdefghij")], "tools": TOOLS,
                  "add_generation_prompt": True},
    {
        "messages": [
            U("q"), A("I look.", reasoning_content="Hm.\n", tool_calls=[call("now", {})]),
            T(parts("12:00", "UTC"), name="now")],
     "tools": TOOLS, "add_generation_prompt": True},
    {"messages": [U("q"), A("", reasoning_content="Hm.", tool_calls=[call("now", {})]), T("12:00", name="now"),
                  A("Noon.", reasoning="So."), U("r"), A("", reasoning="Again.", tool_calls=[call("now", {})])],
                  "tools": TOOLS},
    {"messages": [{"role": "tool", "content": "42"}]},
    {
        "messages": [U("q")], "add_generation_prompt": True,
        "documents": [{"title": "t", "text": "x é"}, {"doc_id": 2, "title": "u", "text": "y"}]},
]
VARIABLES = [{"enable_thinking": False}, {"enable_thinking": True}, {"thinking": False}, {"thinking": True},
             {"reasoning_effort": "high"}, {"reasoning_effort": "none"}, {"date_string": "1 Jan 2031"},
             {"builtin_tools": ["browser", "python"]}, {"tools_in_user_message": False},
             {"custom_instructions": "Speak."}, {"thinking_budget": 512}, {"controls": {"length": "long"}},
             {"model_identity": "You are X."}]
for v in VARIABLES:
    CASES.append({
        "messages": [S("s"), U("q1"), A("a1", reasoning_content="because"), U("q2")], "add_generation_prompt": True,
        "variables": v})
    CASES.append({"messages": [U("q")], "tools": TOOLS[1:], "add_generation_prompt": True, "variables": v})


def render(source, messages, **options):
    """The text, or the exception."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return ctu.render_jinja_template(
                [json.loads(json.dumps(messages))], chat_template=source, bos_token="<s>", eos_token="</s>",
                **options)[0][0]
    except Exception as e:
        return e


def forms(source):
    """The forms of messages that a template takes, as chat.learn finds them."""
    def text(messages):
        made = render(source, messages, add_generation_prompt=True)
        return made if isinstance(made, str) else ""

    def called(content, arguments, *behind):
        return text([U("?"), A(content, tool_calls=[call("f", arguments)]), *behind])

    listed = text([U(parts(NEEDLE))])
    value = {"a": NEEDLE}
    object = json.dumps(value)
    as_text = False
    for content in "", None:
        as_object = called(content, value)
        if NEEDLE in as_object and "'" + NEEDLE not in as_object:
            break
        as_text = as_text or object in called(content, object)
    given = object if as_text else value
    null = called(None, given) != ""
    for behind in [], [T("1", name="f")]:
        with_null, empty = called(None, given, *behind), called("", given, *behind)
        null = null and (with_null != "" or empty == "") and with_null.count("None") <= empty.count("None")
    return {"parts": NEEDLE in listed and "'" + NEEDLE not in listed and '"' + NEEDLE not in listed,
            "argument_text": as_text,
            "null": null}


def plain(messages, takes):
    """What Quire gives templates, in the forms that transformers leaves to its caller."""
    out = []
    for m in json.loads(json.dumps(messages)):
        m = {k: v for k, v in m.items() if v is not None or k == "content"}
        if isinstance(m["content"], list) and not takes["parts"]:
            m["content"] = "\n".join(p["text"] for p in m["content"])
        if m["content"] is None and not (takes["null"] and "tool_calls" in m):
            m["content"] = ""
        for c in m.get("tool_calls", []):
            f = c["function"]
            if f["arguments"] == "":
                f["arguments"] = "{}"
            if isinstance(f["arguments"], str) and not takes["argument_text"]:
                f["arguments"] = json.loads(f["arguments"])
            if not isinstance(f["arguments"], str) and takes["argument_text"]:
                f["arguments"] = json.dumps(f["arguments"], ensure_ascii=False)
        out.append(m)
    return out


def result(source, words, takes, case):
    """'-' where Quire refuses what the template would lose, '?' for a fault within the template, '!' and what it
    raises, or the text."""
    options = {k: v for k, v in case.items() if k not in ("messages", "variables")}
    named = set(options) | set(case.get("variables", {})) | {k for m in case["messages"] for k in m}
    if any(n not in words for n in named if n in NEEDED or n in case.get("variables", {})):
        return "-"
    made = render(source, plain(case["messages"], takes), **options, **case.get("variables", {}))
    if isinstance(made, str):
        return "=" + made
    if type(made).__name__ == "TemplateError":
        return "!" + str(made)
    return "?" + type(made).__name__ + ": " + str(made)[:200]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts")
    parser.add_argument("dir", nargs="?", type=pathlib.Path, default=CACHE / "templates")
    args = parser.parse_args()
    templates, texts, counts = [], {}, {}
    for path in sorted(args.dir.glob("*.jinja")):
        source = path.read_bytes().decode()
        words = set(re.findall(r"[^\W\d]\w*", source))
        takes = forms(source)
        made = [result(source, words, takes, case) for case in CASES]
        texts[path.stem] = made
        for m in made:
            counts[m[0]] = counts.get(m[0], 0) + 1
        short = [
            hashlib.sha256(m[1:].encode()).hexdigest()[:12] if m[0] == "=" else m if m[0] == "!" else m[0]
            for m in made]
        templates.append({
            "name": path.stem, "sha256": hashlib.sha256(source.encode()).hexdigest(), **takes, "results": short})
    with open(GOLDENS, "w") as f:
        f.write(
            '{"cases": [\n' + ",\n".join(json.dumps(c) for c in CASES) + '\n], "templates": [\n'
            + ",\n".join(json.dumps(t) for t in templates) + "\n]}\n")
    if args.texts:
        pathlib.Path(args.texts).write_text(json.dumps(texts))
    print(len(templates), "templates,", counts)


main()
