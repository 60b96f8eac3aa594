"""What transformers generates with a real model that `sample setup gemma3` or `qwen` fetches, greedily and in float32.

    python fetched_goldens.py gemma-3-270m-Q4_K_M.gguf ../../testdata/goldens/gemma3-270m.json.gz
    python fetched_goldens.py Qwen2.5-Coder-0.5B-Instruct.gguf ../../testdata/goldens/qwen25-coder-05b.json.gz

transformers reads the GGUF file and dequantizes it. Its tokenizer adds no BOS of Gemma, although the file asks for one;
here it is put before each text. Qwen has none. The goldens:

    {"model", "transformers", "cases": [{"text" ("" where the prompt is given by ids), "prompt": ids, "tokens": greedy
     ids up to the first step whose two best logits are closer than 0.005, "min_gap": the least difference of those
     left}]}
"""
import gzip
import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

NEW, MIN_GAP = 32, 5e-3
TEXTS = [
    "The capital of France is", "Water boils at", "def fibonacci(n):\n    ",
    "Once upon a time there was a lighthouse keeper who", "1, 2, 3, 4,", "日本の首都は",
    "  two spaces,\n\n\tand a tab:", "Roses are red,\nViolets are",
    "The first three planets from the sun are",
    "<h1>Title</h1>\n<p>", "Das ist ein Satz auf",
]
LONG = (
    "The old lighthouse stood at the end of the bay, and every evening its keeper climbed the stairs to light the "
    "lamp. Ships passed far out, and their crews wondered who lived there. In winter the waves reached the door. ")


CHAT = [
    "Write a Go function that reverses a string.", "What is 17 times 23?", "Name three rivers of Europe, as JSON.",
    "Erkläre einem Kind, was ein Compiler ist.",
]
TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "Weather of a place", "parameters": {
        "type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}}]


def chats(tok):
    """Texts by the model's own chat template, the last one with a tool."""
    for question in CHAT:
        yield tok.apply_chat_template(
            [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True)
    yield tok.apply_chat_template(
        [{"role": "user", "content": "How is the weather in Oslo?"}], tools=TOOLS, tokenize=False,
        add_generation_prompt=True)


def main():
    path, out = Path(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(2)
    tok = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager").eval()
    gemma = model.config.model_type.startswith("gemma3")
    assert not gemma or model.config.sliding_window == 512, model.config
    first, ids = ([2], 200_000) if gemma else ([], 150_000)
    long = [LONG * 14 + "One night,", LONG * 20 + "In spring,"]
    texts = TEXTS + long + ([] if gemma else list(chats(tok)))
    cases = [(t, first + tok(t, add_special_tokens=False).input_ids) for t in texts]
    words = tok(LONG * 30, add_special_tokens=False).input_ids
    cases += [("", first + [(7 * i * i + 1000) % ids + 1000 for i in range(n)]) for n in (3, 40)]
    cases += [("", first + words[:n]) for n in (500, 509, 511, 512, 700)]
    done = []
    for text, ids in cases:
        tokens, gaps, least, cache, step = [], [], 1e9, None, torch.tensor([ids])
        with torch.no_grad():
            for _ in range(NEW):
                r = model(step, past_key_values=cache, use_cache=True)
                cache, (top, which) = r.past_key_values, r.logits[0, -1].topk(2)
                gap = float(top[0] - top[1])
                if gap < MIN_GAP:
                    break
                least = min(least, gap)
                tokens.append(int(which[0]))
                step = which[:1].reshape(1, 1)
        print(len(ids), len(tokens), f"{least:.4f}", repr(tok.decode(tokens))[:90], flush=True)
        done.append({"text": text, "prompt": ids, "tokens": tokens, "min_gap": least})
    data = json.dumps(
        {"model": path.name, "transformers": transformers.__version__, "cases": done}, separators=(",", ":")) + "\n"
    with open(out, "wb") as raw, gzip.GzipFile(
        fileobj=raw, mode="wb", mtime=0, filename="") as f:
        f.write(data.encode())


main()
