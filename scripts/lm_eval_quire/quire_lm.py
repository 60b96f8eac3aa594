"""Quire as a model of lm-evaluation-harness: each kind of request is one job of "sample run".

    import quire_lm                      # registers the model "quire"
    lm_eval.simple_evaluate(model="quire", model_args="model=FOLDER,max_length=1024", tasks=[...])

model       a folder with a checkpoint and a tokenizer, as "sample run -m" and transformers take it
sample      the command (default: sample)
dtype       of the weights (default: float32)
max_length  tokens that the model sees before the one that is scored (default: 2048)
options     further flags of "sample run", separated by spaces, such as "--max-seqs 32" (default: none)

gen_kwargs of tasks and of the command line become parameters of the rows: all that docs/parameters.md has. One that
Quire does not take is an error that names it.
"""

import glob
import json
import os
import shlex
import subprocess
import tempfile

import pyarrow.parquet as pq
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from transformers import AutoTokenizer


@register_model("quire")
class QuireLM(TemplateLM):
    def __init__(self, model, sample="sample", dtype="float32", max_length=2048, options="", **_):
        super().__init__()
        self.model, self.sample, self.dtype, self.options = model, sample, dtype, options
        self.max_length = int(max_length)
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.scored = None  # a list to which each scored prompt is added, with the logprobs of its last tokens

    @property
    def eot_token_id(self):
        return self.tokenizer.eos_token_id

    @property
    def prefix_token_id(self):
        bos = self.tokenizer.bos_token_id
        return self.eot_token_id if bos is None else bos

    @property
    def tokenizer_name(self):
        return self.tokenizer.name_or_path.replace("/", "__")

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        return self.tokenizer.apply_chat_template(
            chat_history, tokenize=False, add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt)

    def tok_encode(self, string, add_special_tokens=False, **_):
        return self.tokenizer.encode(string, add_special_tokens=add_special_tokens)

    def run(self, bodies, names, *flags):
        """Runs a job over bodies of requests for completions, and returns columns of its output, in their order.

        A body may have any parameter of the APIs that Quire knows; one that it does not take is an error that names it.
        """
        with tempfile.TemporaryDirectory() as folder:
            rows, out = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "out")
            with open(rows, "w", encoding="utf-8") as file:
                for i, body in enumerate(bodies):
                    line = {"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": body}
                    file.write(json.dumps(line) + "\n")
            command = [self.sample, "run", "-m", self.model, "-i", rows, "-o", out, "--dtype", self.dtype,
                       "--max-model-len", str(self.max_length + 2), "--progress", "none",
                       *flags, *shlex.split(self.options)]
            done = subprocess.run(command, capture_output=True, text=True)
            parts = [pq.read_table(p, columns=[*names, "error"])
                     for p in sorted(glob.glob(os.path.join(out, "part-*.parquet")))]
            errors = [e for p in parts for e in p["error"].to_pylist() if e]
            if done.returncode != 0 or errors:
                raise RuntimeError(f"{shlex.join(command)}: {errors[:3] or done.stderr[-2000:]}")
            return [[v for p in parts for v in p[name].to_pylist()] for name in names]

    def _loglikelihood_tokens(self, requests, disable_tqdm=False, **_):
        prompts = [(context + continuation)[-(self.max_length + 1):] for _, context, continuation in requests]
        if not prompts:
            return []
        logprobs, tops = self.run([{"prompt": prompt} for prompt in prompts], ["prompt_logprobs", "prompt_top_ids"],
                                  "--max-tokens", "0", "--prompt-logprobs", "1")
        answers = []
        for prompt, (key, _, continuation), scores, top in zip(prompts, requests, logprobs, tops):
            n = len(continuation)
            if self.scored is not None:
                self.scored.append((prompt, scores[-n:]))
            greedy = all(t[0] == token for t, token in zip(top[-n:], prompt[-n:]))
            answers.append((sum(scores[-n:]), greedy))
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, answers[-1])
        return answers

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        windows, owners = [], []
        for i, request in enumerate(requests):
            for window in get_rolling_token_windows(token_list=self.tok_encode(request.args[0]),
                                                    prefix_token=self.prefix_token_id,
                                                    max_seq_len=self.max_length, context_len=1):
                windows.append((None, *make_disjoint_window(window)))
                owners.append(i)
        sums = [0.0] * len(requests)
        for i, (logprob, _) in zip(owners, self._loglikelihood_tokens(windows)):
            sums[i] += logprob
        return sums

    def generate_until(self, requests, disable_tqdm=False):
        if not requests:
            return []
        bodies = []
        for request in requests:
            context, given = request.args
            body = parameters(given)
            body["prompt"] = self.tok_encode(context)[-max(1, self.max_length - body["max_tokens"]):]
            bodies.append(body)
        texts, = self.run(bodies, ["text"])
        for request, text in zip(requests, texts):
            self.cache_hook.add_partial("generate_until", request.args, text)
        return texts


def parameters(gen_kwargs):
    """Returns the body of a request with the gen_kwargs of a task: all of them, with lm_eval's defaults and names."""
    given = dict(gen_kwargs)
    until = given.pop("until", None) or []
    body = {"stop": [until] if isinstance(until, str) else list(until)}
    limits = [given.pop(name) for name in ("max_gen_toks", "max_new_tokens", "max_tokens") if name in given]
    body["max_tokens"] = int(limits[0]) if limits else 256
    temperature = given.pop("temperature", None)
    if given.pop("do_sample", (temperature or 0) > 0):
        body["temperature"] = 1.0 if temperature is None else float(temperature)
    else:
        body["temperature"] = 0.0
    return {**given, **body}
