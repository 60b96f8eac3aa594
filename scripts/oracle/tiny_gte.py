"""Write tiny random checkpoints of gte's later encoders, whose code came with their checkpoints, and their hidden
states, computed in float32 by the published architecture: as vectors.json.gz of tiny_encoders.py.

    python tiny_gte.py ../../testdata/encoders
"""

import gzip
import json
import shutil
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tiny_encoders import LENGTHS

HIDDEN, INNER, HEADS, LAYERS, VOCAB = 32, 48, 4, 2, 64
CONFIGS = {
    "gte": (51, dict(type_vocab_size=2, rope_scaling=None)),
    "gte-ntk": (52, dict(type_vocab_size=0, rope_scaling=dict(type="ntk", factor=2.0))),
}


def weights(seed, types):
    gen = torch.Generator().manual_seed(seed)

    def randn(*shape, scale=1.0, shift=0.0):
        return (shift + scale * torch.randn(shape, generator=gen)).bfloat16()

    w = {"embeddings.word_embeddings.weight": randn(VOCAB, HIDDEN, scale=0.6)}
    if types:
        w["embeddings.token_type_embeddings.weight"] = randn(types, HIDDEN, scale=0.6)

    def norm(name):
        w[name + ".weight"], w[name + ".bias"] = randn(HIDDEN, scale=0.3, shift=1), randn(HIDDEN, scale=0.4)

    norm("embeddings.LayerNorm")
    for i in range(LAYERS):
        p = f"encoder.layer.{i}."
        for name, out, size, bias in [
            ("attention.qkv_proj", 3 * HIDDEN, HIDDEN, True),
            ("attention.o_proj", HIDDEN, HIDDEN, True),
            ("mlp.up_gate_proj", 2 * INNER, HIDDEN, False),
            ("mlp.down_proj", HIDDEN, INNER, True),
        ]:
            w[f"{p}{name}.weight"] = randn(out, size, scale=size**-0.5)
            if bias:
                w[f"{p}{name}.bias"] = randn(out, scale=0.4)
        norm(p + "attn_ln")
        norm(p + "mlp_ln")
    return w


def forward(w, config, ids):
    n, dim = len(ids), HIDDEN // HEADS
    base, by = config["rope_theta"], 1.0
    if config["rope_scaling"]:
        factor = config["rope_scaling"]["factor"]
        base, by = base * factor, factor ** (2 / dim)
    inv = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim) / by
    angles = torch.outer(torch.arange(n).float(), inv).repeat(1, 2)
    cos, sin = angles.cos(), angles.sin()

    def turn(x):  # [n, heads, dim]
        half = torch.cat((-x[..., dim // 2 :], x[..., : dim // 2]), -1)
        return x * cos[:, None] + half * sin[:, None]

    def norm(x, name):
        return F.layer_norm(x, (HIDDEN,), w[name + ".weight"], w[name + ".bias"], config["layer_norm_eps"])

    x = w["embeddings.word_embeddings.weight"][ids]
    if config["type_vocab_size"]:
        x = x + w["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    for i in range(LAYERS):
        p = f"encoder.layer.{i}."
        linear = lambda x, name: F.linear(x, w[p + name + ".weight"], w.get(p + name + ".bias"))  # noqa: E731
        q, k, v = linear(x, "attention.qkv_proj").view(n, 3, HEADS, dim).unbind(1)
        scores = torch.einsum("qhd,khd->hqk", turn(q), turn(k)) / dim**0.5
        out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(n, HIDDEN)
        x = norm(x + linear(out, "attention.o_proj"), p + "attn_ln")
        up, gate = linear(x, "mlp.up_gate_proj").split(INNER, -1)
        x = norm(x + linear(F.gelu(gate) * up, "mlp.down_proj"), p + "mlp_ln")
    return x


def main(target):
    torch.set_num_threads(1)
    for name, (seed, values) in CONFIGS.items():
        folder = target / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        config = dict(
            architectures=["NewModel"],
            model_type="new",
            vocab_size=VOCAB,
            hidden_size=HIDDEN,
            intermediate_size=INNER,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            hidden_act="gelu",
            layer_norm_eps=1e-12,
            layer_norm_type="layer_norm",
            max_position_embeddings=80,
            pack_qkv=True,
            position_embedding_type="rope",
            rope_theta=500,
            torch_dtype="bfloat16",
        )
        config |= values
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        save_file(weights(seed, values["type_vocab_size"]), folder / "model.safetensors", metadata=dict(format="pt"))
        w = {k: v.float() for k, v in load_file(folder / "model.safetensors").items()}
        gen = torch.Generator().manual_seed(99)
        cases = []
        for ids in [torch.randint(3, VOCAB, (n,), generator=gen) for n in LENGTHS] + [torch.tensor([5, 1, 9, 1, 7])]:
            h = forward(w, config, ids)
            case = dict(ids=ids.tolist(), mean=h.mean(0), cls=h[0], last=h[-1], max=h.max(0).values)
            cases.append({k: v if k == "ids" else [float(f"{x:.9g}") for x in v.tolist()] for k, v in case.items()})
        with gzip.GzipFile(folder / "vectors.json.gz", "wb", mtime=0) as f:
            f.write(json.dumps(cases).encode())
        print(name, len(cases))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
