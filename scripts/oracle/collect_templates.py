"""Collects published chat templates of models into a folder: collect_templates.py [DIR], ~/.cache/quire/templates.

They are those of llama.cpp's source, which bench/peers/setup.sh fetches (models/templates and the ones written within
tests/test-chat-template.cpp), and those of the npm package @huggingface/ollama-utils, fetched here with npm. Templates
have the licences of their models, so none is committed. Files are named for where they come from.
"""
import ast
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "@huggingface/ollama-utils@0.0.18"
CACHE = pathlib.Path(os.environ.get("QUIRE_CACHE") or pathlib.Path.home() / ".cache" / "quire")
QUOTED = r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''


def plain_name(name):
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")


def of_llama(source):
    for path in sorted((source / "models" / "templates").glob("*.jinja")):
        yield path.stem, path.read_bytes()
    test = (source / "tests" / "test-chat-template.cpp").read_text()
    for name, text in re.findall(r'\.name= \*/ ("[^"]*"),\s*/\* \.template_str= \*/ (?:u8|U8C\()?(%s)' % QUOTED, test):
        yield "test-" + plain_name(ast.literal_eval(name).split("(")[0]), ast.literal_eval(text).encode()


def of_hugging_face():
    with tempfile.TemporaryDirectory() as folder:
        file = subprocess.run(
            ["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True, text=True).stdout
        with tarfile.open(pathlib.Path(folder) / file.strip().splitlines()[-1]) as tar:
            source = tar.extractfile("package/src/chat-template-automap.ts").read().decode()
    for name, text in re.findall(r"model:\s*(%s),\s*gguf:\s*(%s)" % (QUOTED, QUOTED), source):
        yield "hf-" + plain_name(ast.literal_eval(name).removeprefix("library/")), ast.literal_eval(text).encode()


def main():
    to = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else CACHE / "templates"
    sources = sorted(CACHE.glob("peers/llama_cpp_python-*/vendor/llama.cpp"))
    if not sources:
        sys.exit("collect_templates: no source of llama.cpp in the cache: run bench/peers/setup.sh source")
    to.mkdir(parents=True, exist_ok=True)
    seen = {}
    for name, text in [*of_llama(sources[-1]), *of_hugging_face()]:
        if text in seen.values():
            continue
        while name in seen:  # several of one name
            name += "+"
        seen[name] = text
        (to / (name + ".jinja")).write_bytes(text)
    print(len(seen), "templates in", to)


main()
