#!/usr/bin/env python3
"""What transformers scores with the weights that GGUF files of tiny checkpoints hold.

    rounded_goldens.py TESTDATA_MODELS GGUF_FOLDER
    rounded_goldens.py testdata/models models/testdata

Writes GGUF_FOLDER/rounded-scores.json: a prompt, and for each file of FILES the log-probability of each of its tokens
but the first given those before it, in float32, with those weights rounded to float16 that the file has so. The GGUF
files are those of gguf_goldens.py and llama_gguf.py.
"""
import json, sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers

from logits_goldens import load, logits_of

MODELS, OUT = map(Path, sys.argv[1:])
FILES = [
    "deepseek-v2", "gemma4", "gemma4-moe", "glm4-moe", "gpt-oss", "granite-moe-shared", "lfm2", "qwen3-next",
    "qwen35", "qwen35-moe"]
PROMPT = np.random.default_rng(20261124).integers(0, 256, 100).tolist()
# Matrices that some files have in F32, by the ends of their names in transformers and in the file.
SPECIAL = {
    "conv.conv.weight": "shortconv.conv.weight", "conv1d.weight": "ssm_conv1d.weight",
    "shared_expert_gate.weight": "ffn_gate_inp_shexp.weight", "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.router.weight": "ffn_gate_inp.weight", "router.layer.weight": "ffn_gate_inp.weight",
    "router.proj.weight": "ffn_gate_inp.weight", "router.scale": "ffn_gate_inp.scale",
    "per_expert_scale": "ffn_down_exps.scale", "layernorm_1.weight": "post_ffw_norm_1.weight",
    "layernorm_2.weight": "post_ffw_norm_2.weight",
    "layer_scalar": "layer_output_scale.weight", "A_log": "ssm_a", "dt_bias": "ssm_dt.bias",
    "sinks": "attn_sinks.weight", "e_score_correction_bias": "exp_probs_b.bias"}


def is_f16(types, name, ndim):
    """Whether a file has a parameter in F16. Those in MXFP4 are as they were."""
    for end, stored in SPECIAL.items():
        if name.endswith(end):
            found = {t for n, t in types.items() if n.endswith(stored)}
            break
    else:
        stored = "attn_output.weight" if ndim > 1 else "_norm.weight" if name.endswith("norm.weight") else ".bias"
        found = {t for n, t in types.items() if n.endswith(stored) and ".ssm" not in n and "exp_probs" not in n}
    assert len(found) == 1, (name, found)
    return found == {gguf.GGMLQuantizationType.F16}


def scores(name):
    types = {t.name: t.tensor_type for t in gguf.GGUFReader(OUT / f"{name}.gguf").tensors}
    model = load(MODELS / name)
    with torch.no_grad():
        for key, x in list(model.named_parameters()) + list(model.named_buffers()):
            if key.endswith(("inv_freq", "embed_scale")) or not x.is_floating_point():
                continue
            if is_f16(types, key, x.squeeze().ndim):
                x.copy_(x.half().float())
        logits = logits_of(model, PROMPT).log_softmax(-1)
    found = logits[torch.arange(len(PROMPT) - 1), torch.tensor(PROMPT[1:])]
    return [float(f"{x:.7g}") for x in found.tolist()]


def main():
    transformers.logging.set_verbosity_error()
    found = {"prompt": PROMPT, "logprobs": {name: scores(name) for name in FILES}}
    text = json.dumps(found, separators=(",", ":")).replace('],"', '],\n"').replace('{"', '{\n"')
    (OUT / "rounded-scores.json").write_text(text + "\n")


main()
