#!/usr/bin/env python3
"""Counts pages of completions that are equal, with all tokens before them, to a page of another completion of the row.

    sample run -m MODEL -i INPUT -n 4 --format jsonl --columns prompt_token_ids -o OUT
    bench/equal_pages.py OUT
"""

import glob
import json
import os
import sys


def count(folder, size):
    pages = equal = 0
    for path in sorted(glob.glob(os.path.join(folder, "part-*.jsonl"))):
        with open(path, encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                prompt, completions = row["prompt_token_ids"], row["token_ids"]
                if completions and not isinstance(completions[0], list):
                    completions = [completions]
                seen = set()
                for tokens in (prompt + c for c in completions):
                    for page in range(len(prompt) // size, len(tokens) // size):
                        key = tuple(tokens[: (page + 1) * size])
                        pages, equal = pages + 1, equal + (key in seen)
                        seen.add(key)
    return pages, equal


for folder in sys.argv[1:]:
    for size in (16, 64):
        print(f"{folder}: of %d generated pages of {size} tokens %d are equal to an earlier one" % count(folder, size))
