#!/usr/bin/env python3
"""Make a sentence-transformers folder of random weights in the shape of a model that is not at hand:
embed_shape.py mpnet|qwen3-embedding FOLDER TOKENIZER

TOKENIZER is a folder with the tokenizer.json to use: all-MiniLM-L6-v2's for mpnet, SmolLM2's for qwen3-embedding. Run
it with the Python of bench/peers/setup.sh embed. The vectors mean nothing; the work is the real model's.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import CONFIG_MAPPING, AutoModel

# The class of the config, its values, the pooling, and the largest number of tokens.
SHAPES = {
    "mpnet": ("mpnet", dict(vocab_size=30527, max_position_embeddings=514), "mean", 384),
    "qwen3-embedding": (
        "qwen3",
        dict(
            vocab_size=151669,
            hidden_size=1024,
            intermediate_size=3072,
            num_hidden_layers=28,
            num_attention_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            max_position_embeddings=32768,
            rope_theta=1000000,
            tie_word_embeddings=True,
        ),
        "lasttoken",
        512,
    ),
}


def main(name, folder, tokenizer):
    kind, values, pooling, longest = SHAPES[name]
    torch.manual_seed(1)
    config = CONFIG_MAPPING[kind](**values)
    folder = Path(folder)
    AutoModel.from_config(config).bfloat16().save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (Path(tokenizer) / file).exists():
            shutil.copy(Path(tokenizer) / file, folder)
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        dict(idx=i, name=str(i), path=path, type=f"sentence_transformers.models.{module}")
        for i, (path, module) in enumerate(kinds)
    ]
    modes = {f"pooling_mode_{mode}": False for mode in ("cls_token", "max_tokens", "mean_sqrt_len_tokens")}
    modes |= {"pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_lasttoken": pooling == "lasttoken"}
    for file, content in {
        "modules.json": modules,
        "sentence_bert_config.json": dict(max_seq_length=longest, do_lower_case=False),
        "1_Pooling/config.json": dict(word_embedding_dimension=config.hidden_size, **modes),
    }.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(json.dumps(content, indent=2) + "\n")
    (folder / "2_Normalize").mkdir(exist_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
