"""A whole job on Hugging Face transformers' generate: transformers_job.py FOLDER ROWS.jsonl DTYPE BATCH

Prompts in batches, padded on the left; every completion gets all its tokens. Where lengths differ, a batch runs for its
longest, as generate does. Prints one JSON object as its last line.
"""

import json
import sys
import time

begin = time.perf_counter()

import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402


def main(folder: str, path: str, dtype: str, batch: int) -> None:
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    with open(path) as f:
        rows = [json.loads(line) for line in f]
    load_seconds = time.perf_counter() - begin

    start = time.perf_counter()
    first_batch = generated = steps = 0
    per_batch = max(1, batch // rows[0]["n"])
    for i in range(0, len(rows), per_batch):
        part = rows[i : i + per_batch]
        width = max(len(r["prompt_token_ids"]) for r in part)
        ids = torch.tensor([[0] * (width - len(r["prompt_token_ids"])) + r["prompt_token_ids"] for r in part])
        mask = torch.tensor([
            [0] * (width - len(r["prompt_token_ids"])) + [1] * len(r["prompt_token_ids"]) for r in part])
        n, longest, temperature = part[0]["n"], max(r["max_tokens"] for r in part), part[0]["temperature"]
        drawing = {
            "do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0
        } if temperature > 0 else {"do_sample": False}
        out = model.generate(
            input_ids=ids, attention_mask=mask, num_return_sequences=n, min_new_tokens=longest, max_new_tokens=longest,
            pad_token_id=0, **drawing
        )
        if out.shape != (len(part) * n, width + longest):
            sys.exit(f"transformers_job: {tuple(out.shape)} tokens came out, want {(len(part) * n, width + longest)}")
        generated += n * sum(r["max_tokens"] for r in part)
        steps += longest
        first_batch = first_batch or time.perf_counter() - start
    print(json.dumps({
        "load_seconds": load_seconds, "generate_seconds": time.perf_counter() - start,
        "first_batch_seconds": first_batch,
        "prompt_tokens": sum(len(r["prompt_token_ids"]) for r in rows), "generated_tokens": generated,
        "completions": sum(r["n"] for r in rows), "steps": steps, "threads": torch.get_num_threads(),
    }))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
