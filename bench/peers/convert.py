"""Make a Hugging Face folder in bfloat16 of a GGUF file, so that every engine reads the same weights:

    convert.py FILE.gguf FOLDER
"""

import os
import shutil
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer


def main(source: str, target: str) -> None:
    folder, file = os.path.split(os.path.abspath(source))
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    unfinished = target + ".unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    tokenizer.save_pretrained(unfinished)
    config = type(model.config).from_dict(model.config.to_dict())
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # it was dequantized
    config.architectures = [type(model).__name__]
    config.save_pretrained(unfinished)
    tensors = {k: v.to(torch.bfloat16).contiguous() for k, v in model.state_dict().items()}
    if config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    save_file(tensors, os.path.join(unfinished, "model.safetensors"), metadata={"format": "pt"})
    AutoConfig.from_pretrained(unfinished)
    os.replace(unfinished, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
