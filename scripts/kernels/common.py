"""Writes the payloads that come with Quire, one behind another, to standard output; run.sh compresses them.

All are in bfloat16 with a scale of 1/sqrt(head_dim), with no window, for pages of 16, 32, 64 and 128 tokens.
"""
import pathlib
import sys
import tempfile

import capture

# (heads, KV heads): of whole models, and of the parts of a model on each of 2, 4 or 8 devices.
HEADS = [
    (32, 8),  # Llama-3.1-8B, Qwen3-8B, Qwen3-4B, Mistral-7B; a half of the next
    (64, 8),  # Llama-3.1-70B, Qwen3-32B
    (40, 8),  # Qwen3-14B, Qwen2.5-14B and 32B
    (24, 8),  # Llama-3.2-3B
    (16, 8),  # Qwen3-0.6B, Qwen3-1.7B
    (16, 4), (8, 2), (4, 1),  # of 32, 8
    (32, 4), (16, 2), (8, 1),  # of 64, 8
    (20, 4), (10, 2), (5, 1),  # of 40, 8
    (8, 4),  # of 16, 8
    (12, 4), (6, 2), (3, 1),  # of 24, 8
    (28, 4), (14, 2), (7, 1),  # Qwen2.5-7B, and parts of it
    (12, 2), (6, 1),  # Qwen2.5-1.5B, and a part of it
    (32, 32), (40, 40),  # Llama-2-7B and 13B
]
# The same with a head_dim of 64.
HEADS_64 = [
    (32, 8),  # Llama-3.2-1B
    (16, 4), (8, 2), (4, 1),  # parts of it
    (32, 32),  # SmolLM2-1.7B
    (32, 4),  # TinyLlama-1.1B
    (9, 3),  # SmolLM2-135M
    (15, 5),  # SmolLM2-360M
    (14, 2),  # Qwen2-0.5B, Qwen2.5-0.5B
]
PAGES = [16, 32, 64, 128]


def configs():
    for head_dim, shapes in ((128, HEADS), (64, HEADS_64)):
        for heads, kv_heads in shapes:
            for page_size in PAGES:
                yield {
                    "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "page_size": page_size, "dtype": "bfloat16", "kv_dtype": "bfloat16",
                    "scale": head_dim ** -0.5, "window": 0, "soft_cap": 0.0,
                }


def main():
    with tempfile.TemporaryDirectory() as folder:
        for config in configs():
            for path in capture.write(config, [], 0, 0, pathlib.Path(folder)):
                sys.stdout.buffer.write(path.read_bytes())
                print(path.name, file=sys.stderr)


if __name__ == "__main__":
    main()
