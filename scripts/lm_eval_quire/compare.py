"""Runs the tasks beside this file with lm_eval's own "hf" and with "quire" on the same checkpoint in float32, and
compares metrics, the log-probabilities of single tokens, and times.

    python scripts/lm_eval_quire/compare.py FOLDER [SAMPLE]

It fails where an accuracy or a generated text differs, or a token's log-probability by 1e-4 or more.
"""

import os
import sys
import time

folder, sample = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "sample"
sample = os.path.abspath(sample) if os.path.sep in sample else sample
os.chdir(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import lm_eval
import torch
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

import quire_lm

LENGTH = 512
TASKS = ["quire_proverbs", "quire_passages", "quire_endings"]
hf = HFLM(pretrained=folder, dtype="float32", device="cpu", max_length=LENGTH, batch_size=8)
quire = quire_lm.QuireLM(folder, sample, max_length=LENGTH)
quire.scored = []
found, texts = {}, {}
for name, model in [("hf", hf), ("quire", quire), ("quire", quire)]:  # quire compiles its programs with the first
    begin = time.time()
    got = lm_eval.simple_evaluate(model=model, tasks=TASKS, task_manager=TaskManager(include_path="tasks"),
                                  bootstrap_iters=0)
    found[name] = {f"{task} {metric}": value for task, of in got["results"].items()
                   for metric, value in of.items() if isinstance(value, float)}
    texts[name] = [
        sample["filtered_resps"] for sample in sorted(got["samples"]["quire_endings"], key=lambda s: s["doc_id"])]
    print(f"{name}: {time.time() - begin:.1f} s")
worst = most = 0.0
for metric, value in found["hf"].items():
    other = found["quire"][metric]
    print(f"{metric}: hf {value:.6f}, quire {other:.6f}")
    if "acc" in metric or "exact_match" in metric:
        worst = max(worst, abs(value - other))
tokens = 0
with torch.no_grad():
    for prompt, scores in quire.scored:
        logits = hf.model(torch.tensor([prompt[:-1]])).logits[0].float()
        logprobs = torch.log_softmax(logits, -1)
        for i, score in enumerate(scores):
            at = len(prompt) - len(scores) + i
            most = max(most, abs(score - logprobs[at - 1, prompt[at]].item()))
            tokens += 1
print(f"{tokens} tokens: log-probabilities differ by {most:.2g} at most")
equal = sum(a == b for a, b in zip(texts["hf"], texts["quire"]))
print(f"{equal} of {len(texts['hf'])} generated texts are equal")
sys.exit(0 if worst == 0 and most < 1e-4 and equal == len(texts["hf"]) else 1)
