"""Writes the payloads that come with Quire, one behind another, to standard output; run.sh compresses them.

All are of head_dim 128 in bfloat16 with a scale of 1/sqrt(128), with no window, for pages of 16, 32, 64 and 128 tokens.
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
]
PAGES = [16, 32, 64, 128]


def main():
    with tempfile.TemporaryDirectory() as folder:
        for heads, kv_heads in HEADS:
            for page_size in PAGES:
                config = {
                    "heads": heads, "kv_heads": kv_heads, "head_dim": 128, "page_size": page_size, "dtype": "bfloat16", "kv_dtype": "bfloat16",
                    "scale": 128 ** -0.5, "window": 0, "soft_cap": 0.0,
                }
                for path in capture.write(config, [8, 32], 0, 0, pathlib.Path(folder)):
                    sys.stdout.buffer.write(path.read_bytes())
                    print(path.name, file=sys.stderr)


if __name__ == "__main__":
    main()
