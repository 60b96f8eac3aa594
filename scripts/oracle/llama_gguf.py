#!/usr/bin/env python3
"""GGUF files of tiny checkpoints, made by llama.cpp's own converter, and the scores that llama.cpp computes of some.

    llama_gguf.py LLAMA.CPP LLAMA_SCORES TESTDATA OUT
    P=~/.cache/quire/peers/llama_cpp_python-*
    llama_gguf.py $P/vendor/llama.cpp $P/build-quire/bin/llama_scores testdata models/testdata

`bench/peers/setup.sh llama` fetches LLAMA.CPP, the source, and builds LLAMA_SCORES. Writes
  NAME.gguf         the checkpoint of TESTDATA/models in F16
  llama-scores.json for files that llama.cpp runs, by name: a prompt, and the log-probability of each of its tokens
                    but the first given those before it, as llama.cpp computes them from the numbers of the file, with
                    weights, keys and values held in F32
"""
import json, shutil, subprocess, sys, tempfile
from pathlib import Path

import numpy as np

LLAMA, LLAMA_SCORES, TESTDATA, OUT = map(Path, sys.argv[1:])
sys.path[:0] = [str(LLAMA / "gguf-py"), str(LLAMA)]
import gguf
import torch
from conversion import get_model_class
from conversion.base import ModelBase

# For each file its checkpoint, and how it is made: "fused" has gates and ups of all experts in one tensor, and queries,
# keys and values of a layer (--fuse-gate-up-exps, --fuse-qkv); "old" is a file of DeepSeek's as they were until April
# 2025.
FILES = {
    "gemma4-moe": ("gemma4-moe", ""),
    "glm4-moe": ("glm4-moe", ""),
    "lfm2-moe": ("lfm2-moe", ""),
    "qwen35-moe-fused": ("qwen35-moe", "fused"),
    "llama-bias-fused": ("llama-bias", "fused"),
    "deepseek-v2": ("deepseek-v2", ""),
    "deepseek-v2-lite": ("deepseek-v2-lite", ""),
    "deepseek-v3": ("deepseek-v3", ""),
    "deepseek-v3-old": ("deepseek-v3", "old"),
}
# llama.cpp has no biases of latents, which deepseek-v2 has; it takes queries without latents in models of 26 or 27
# layers only, and keys and values of delta nets of one size only. TestGGUFLikeFolder compares these files, and the last
# one, with their checkpoints.
NOT_RUN = ("deepseek-v2", "deepseek-v2-lite", "qwen35-moe-fused", "llama-bias-fused")
PROMPT = np.random.default_rng(20261123).integers(0, 256, 100).tolist()


def no_vocabulary(self):
    w = self.gguf_writer
    w.add_tokenizer_model("none")
    if not any(key.endswith(".vocab_size") for key in w.kv_data[0]):
        w.add_vocab_size(self.hparams["vocab_size"])
    w.add_bos_token_id(1), w.add_eos_token_id(2), w.add_eot_token_id(5)


def convert(name, path, work):
    checkpoint, how = FILES[name]
    folder = TESTDATA / "models" / checkpoint
    if checkpoint.startswith("gemma"):  # of which the converter counts the tokens of a tokenizer
        folder = Path(shutil.copytree(folder, work / checkpoint))
        vocab = {str(i): i for i in range(json.loads((folder / "config.json").read_text())["vocab_size"])}
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}, "added_tokens": []}))
    hparams = ModelBase.load_hparams(folder, False)
    if checkpoint == "deepseek-v3":
        hparams["scoring_func"] = "sigmoid"  # as published configs say, and transformers does not write
    model = get_model_class(hparams["architectures"][0])
    model.set_vocab, model.no_mtp = no_vocabulary, checkpoint == "qwen35-moe"  # which it takes to have predictors
    with torch.inference_mode():
        model(
            folder, gguf.LlamaFileType.MOSTLY_F16, path, eager=True, hparams=hparams,
            fuse_gate_up_exps=how == "fused", fuse_qkv=how == "fused").write()
    if how == "old":
        rewrite(path, path, *old(path))


def old(path):
    """Other metadata and tensors of a DeepSeek file: kv_b in one, heads as they are after it."""
    fields = {key: field.contents() for key, field in gguf.GGUFReader(path).fields.items()}
    of = lambda key: fields["deepseek2." + key]
    metadata = {
        "attention.head_count_kv": of("attention.head_count"), "attention.key_length": of("attention.key_length_mla"),
        "attention.value_length": of("attention.value_length_mla"), "attention.key_length_mla": None,
        "attention.value_length_mla": None, "expert_group_count": None, "expert_group_used_count": None}

    def joined(tensors):
        for name in [name for name in tensors if "attn_k_b" in name]:
            k, v = tensors.pop(name), tensors.pop(name.replace("attn_k_b", "attn_v_b"))
            both = np.concatenate([k.swapaxes(1, 2), v], axis=1)
            tensors[name.replace("attn_k_b", "attn_kv_b")] = both.reshape(-1, both.shape[2])

    return {"deepseek2." + key: value for key, value in metadata.items()}, joined


def rewrite(path, to, metadata, change):
    """Copies a file, with other metadata (None: without it) and tensors."""
    reader = gguf.GGUFReader(path)
    w = gguf.GGUFWriter(None, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        value = metadata.get(key, field.contents())
        if not key.startswith("GGUF.") and key != "general.architecture" and value is not None:
            w.add_key_value(key, value, field.types[0], field.types[1] if len(field.types) > 1 else None)
    tensors = {t.name: np.array(t.data) for t in reader.tensors}
    change(tensors)
    for name, x in tensors.items():
        w.add_tensor(name, np.ascontiguousarray(x))
    w.write_header_to_file(to), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def widen(tensors):
    for name, x in tensors.items():
        tensors[name] = x.astype(np.float32)


def scores(path, work):
    rows = work / "rows"
    rows.write_text(" ".join(map(str, PROMPT)) + "\n")
    rewrite(path, work / "wide.gguf", {}, widen)
    command = [LLAMA_SCORES, work / "wide.gguf", rows, "2", "f32"]
    line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(line)["logprobs"]


def main():
    found = {"prompt": PROMPT, "logprobs": {}}
    with tempfile.TemporaryDirectory() as work:
        for name in FILES:
            path = OUT / f"{name}.gguf"
            convert(name, path, Path(work))
            if name not in NOT_RUN:
                found["logprobs"][name] = scores(path, Path(work))
    text = json.dumps(found, separators=(",", ":")).replace('],"', '],\n"').replace('{"', '{\n"')
    (OUT / "llama-scores.json").write_text(text + "\n")


main()
