"""A whole job on vLLM's LLM.generate: vllm_job.py FOLDER ROWS.jsonl DTYPE SLOTS PREFIX_CACHE(on|off)

All rows in one call, by token ids; every completion gets all its tokens. A row's json_schema is given to vLLM's default
engine of structured output. load_seconds has its imports, its loading and its compiling; generate_seconds is the call.
Prints one JSON object as its last line.
"""

import json
import os
import sys
import time

begin = time.perf_counter()
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")  # GiB
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")


def main(folder: str, path: str, dtype: str, slots: int, prefix_cache: str) -> None:
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    with open(path) as f:
        rows = [json.loads(line) for line in f]
    longest = max(len(r["prompt_token_ids"]) + r["max_tokens"] for r in rows)
    llm = LLM(
        model=folder, dtype=dtype, max_num_seqs=slots, max_model_len=max(2048, longest),
        enable_prefix_caching=prefix_cache == "on", seed=1,
    )
    prompts = [{"prompt_token_ids": r["prompt_token_ids"]} for r in rows]
    params = [
        SamplingParams(
            n=r["n"], temperature=r["temperature"], max_tokens=r["max_tokens"], ignore_eos=True, detokenize=True,
            structured_outputs=StructuredOutputsParams(json=r["json_schema"]) if r.get("json_schema") else None,
        ) for r in rows
    ]
    load_seconds = time.perf_counter() - begin

    start = time.perf_counter()
    outputs = llm.generate(prompts, params, use_tqdm=False)
    generate_seconds = time.perf_counter() - start
    generated = 0
    for row, out in zip(rows, outputs, strict=True):
        lengths = [len(o.token_ids) for o in out.outputs]
        if lengths != [row["max_tokens"]] * row["n"]:
            sys.exit(
                f"vllm_job: {row['id']} has completions of {lengths} tokens, want {row['n']} of {row['max_tokens']}")
        generated += sum(lengths)
    print(json.dumps({
        "load_seconds": load_seconds, "generate_seconds": generate_seconds,
        "prompt_tokens": sum(len(r["prompt_token_ids"]) for r in rows), "generated_tokens": generated,
        "completions": sum(r["n"] for r in rows),
    }))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
