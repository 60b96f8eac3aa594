"""OLMoE with clip_qkv, in numpy: clip_goldens.py [MODELS GOLDENS FILE].

Runs the tiny OLMoE by the formulas of transformers' modeling_olmoe.py, checks that without a limit the logits are those
of transformers in GOLDENS, and writes the logits after each prompt with a limit to FILE.
"""
import gzip
import json
import pathlib
import sys

import numpy as np
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 0.5


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def turn(x, theta):
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[1])[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def logits(w, config, tokens, limit):
    heads, eps = config["num_attention_heads"], config["rms_norm_eps"]
    x = w["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        of = lambda name: w[f"model.layers.{i}.{name}.weight"]
        h = norm(x, of("input_layernorm"), eps)
        q = norm(h @ of("self_attn.q_proj").T, of("self_attn.q_norm"), eps)
        k = norm(h @ of("self_attn.k_proj").T, of("self_attn.k_norm"), eps)
        v = h @ of("self_attn.v_proj").T
        if limit is not None:
            q, k, v = (np.clip(y, -limit, limit) for y in (q, k, v))
        q, k, v = (y.reshape(len(tokens), heads, -1).transpose(1, 0, 2) for y in (q, k, v))
        theta = config["rope_parameters"]["rope_theta"]
        scores = turn(q, theta) @ turn(k, theta).transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
        x = x + (softmax(scores) @ v).transpose(1, 0, 2).reshape(len(tokens), -1) @ of("self_attn.o_proj").T
        h = norm(x, of("post_attention_layernorm"), eps)
        shares = softmax(h @ of("mlp.gate").T)
        for t, row in enumerate(h):
            for e in np.argsort(-shares[t], kind="stable")[:config["num_experts_per_tok"]]:
                gate = of(f"mlp.experts.{e}.gate_proj") @ row
                up = of(f"mlp.experts.{e}.up_proj") @ row
                x[t] += shares[t, e] * (of(f"mlp.experts.{e}.down_proj") @ (gate / (1 + np.exp(-gate)) * up))
    return norm(x[-1], w["model.norm.weight"], eps) @ w["lm_head.weight"].T


def main():
    models, goldens, out = sys.argv[1:] or [
        ROOT / "testdata" / "models", ROOT / "testdata" / "goldens", ROOT / "models" / "testdata" / "olmoe-clip.json"]
    folder = pathlib.Path(models) / "olmoe"
    config = json.loads((folder / "config.json").read_text())
    w = {name: x.astype(np.float64) for name, x in load_file(folder / "model.safetensors").items()}
    cases = []
    for case in json.load(gzip.open(pathlib.Path(goldens) / "olmoe.json.gz"))["cases"]:
        if len(case["prompt"]) > 40:
            continue
        assert np.abs(logits(w, config, case["prompt"], None) - case["logits"]).max() < 1e-4
        clipped = logits(w, config, case["prompt"], LIMIT)
        assert np.abs(clipped - case["logits"]).max() > 0.01
        cases.append({"prompt": case["prompt"], "logits": [round(float(x), 6) for x in clipped]})
    pathlib.Path(out).write_text(json.dumps({"clip_qkv": LIMIT, "cases": cases[:3]}) + "\n")


main()
