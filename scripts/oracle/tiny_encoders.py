"""Write tiny random checkpoints of every encoder that Quire runs, as Hugging Face folders, and what transformers makes
of rows of tokens, computed in float32: last hidden states, pooled in each way.

    python tiny_encoders.py ../../testdata/encoders

Weights depend only on the seeds below. Every weight, bias and norm is far from its usual initial value, so that leaving
any of them out changes the vectors: engine/encode tests that for each feature.
"""

import gzip
import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import CONFIG_MAPPING, AutoModel

COMMON = dict(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=80,
)
OFFSET = COMMON | dict(max_position_embeddings=82, pad_token_id=1, bos_token_id=0, eos_token_id=2)

# The class of the config, a seed and the config's values, by name.
ENCODERS = {
    "bert": ("bert", 1, COMMON),
    "roberta": ("roberta", 2, OFFSET),
    "xlm-roberta": ("xlm-roberta", 3, OFFSET | dict(type_vocab_size=1)),
    "mpnet": ("mpnet", 4, OFFSET),
    "distilbert": (
        "distilbert",
        5,
        dict(vocab_size=64, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=80),
    ),
    "modernbert": (
        "modernbert",
        6,
        COMMON
        | dict(
            num_hidden_layers=3,
            local_attention=12,
            global_attn_every_n_layers=2,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            cls_token_id=1,
            sep_token_id=2,
        ),
    ),
    "nomic-bert": ("nomic_bert", 7, COMMON),
    "embedding-gemma": (
        "gemma3_text",
        8,
        COMMON
        | dict(
            intermediate_size=32,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            num_hidden_layers=6,  # of which the last one attends to all, as llama.cpp takes it
            query_pre_attn_scalar=16,
            sliding_window=12,
            use_bidirectional_attention=True,
            rms_norm_eps=1e-6,
        ),
    ),
    "qwen3-embedding": (
        "qwen3",
        9,
        COMMON | dict(num_key_value_heads=2, head_dim=16, tie_word_embeddings=True, rms_norm_eps=1e-6),
    ),
}

LENGTHS = [1, 2, 17, 64, 80]

# The modules of a checkpoint of sentence-transformers whose pooled vector goes through two dense layers.
DENSE = [(32, 40, "torch.nn.modules.activation.Tanh", True), (40, 24, "torch.nn.modules.linear.Identity", False)]


def randomize(model, seed):
    gen = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=gen, dtype=torch.float32)
            if "norm" in name.lower() or name.endswith("emb_ln.weight"):
                zero = name.endswith("bias") or model.config.model_type.startswith("gemma3")
                p.copy_((not zero) + 0.3 * noise)
            elif name.endswith("bias") or "relative_attention_bias" in name:
                p.copy_(0.4 * noise)
            elif "embed" in name:
                p.copy_(0.6 * noise)
            else:
                p.copy_(noise / p.shape[-1] ** 0.5)


def vectors(model, dense, lengths):
    gen = torch.Generator().manual_seed(99)
    cases = []
    rows = [torch.randint(3, model.config.vocab_size, (1, n), generator=gen) for n in lengths]
    for ids in rows + [torch.tensor([[5, 1, 9, 1, 1, 12, 7]])]:  # 1 is padding, which RoBERTa does not count
        with torch.no_grad():
            h = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
        case = dict(ids=ids[0].tolist(), mean=h.mean(0), cls=h[0], last=h[-1], max=h.max(0).values)
        if dense:
            case["dense"] = dense(h.mean(0))
            case["products"] = h.mean(0) @ dense[0].weight.T @ dense[2].weight.T  # as llama.cpp has the layers
        cases.append({k: v if k == "ids" else [float(f"{x:.9g}") for x in v.tolist()] for k, v in case.items()})
    return cases


def add_dense(folder):
    """Writes the files of sentence-transformers, and returns what they compute of a pooled vector."""
    layers = torch.nn.Sequential()
    torch.manual_seed(5)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    for i, (size, out, activation, bias) in enumerate(DENSE):
        layer, path = torch.nn.Linear(size, out, bias=bias), folder / f"{i + 2}_Dense"
        path.mkdir()
        modules.append((path.name, "Dense"))
        save_file({f"linear.{k}": v.detach() for k, v in layer.named_parameters()}, path / "model.safetensors")
        config = dict(in_features=size, out_features=out, bias=bias, activation_function=activation)
        (path / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        layers.append(layer)
        layers.append(torch.nn.Tanh() if activation.endswith("Tanh") else torch.nn.Identity())
    modules.append(("4_Normalize", "Normalize"))
    listed = [
        dict(idx=i, name=str(i), path=path, type=f"sentence_transformers.models.{kind}")
        for i, (path, kind) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(listed, indent=2) + "\n")
    (folder / "1_Pooling").mkdir()
    pooling = dict(word_embedding_dimension=32, pooling_mode_mean_tokens=True, pooling_mode_cls_token=False)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling, indent=2) + "\n")
    prompts = dict(prompts=dict(query="task: search result | query: ", document="title: none | text: "),
                   default_prompt_name=None)
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts, indent=2) + "\n")
    (folder / "sentence_bert_config.json").write_text(json.dumps(dict(max_seq_length=64, do_lower_case=False)) + "\n")
    return layers


def main(target):
    torch.set_num_threads(1)
    for name, (kind, seed, values) in ENCODERS.items():
        folder = target / name
        shutil.rmtree(folder, ignore_errors=True)
        config = CONFIG_MAPPING[kind](**values)
        model = AutoModel.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
        randomize(model, seed)
        model.to(torch.bfloat16).save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        # What the folder has, and not the model that was in memory: saving may rename and round.
        model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        dense = add_dense(folder) if name == "embedding-gemma" else None
        text = json.dumps(vectors(model, dense, LENGTHS))
        with gzip.GzipFile(folder / "vectors.json.gz", "wb", mtime=0) as f:
            f.write(text.encode())
        print(name, sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
