"""Write tiny random checkpoints of models with a head that scores classes, as Hugging Face folders, and what
transformers makes of rows of tokens and of pairs, in float32: the logits of the head, and the scores and the label of
its pipeline.

    python tiny_classifiers.py ../../testdata/classifiers

Weights depend only on the seeds below, as in tiny_encoders.py.
"""

import gzip
import json
import shutil
import sys
from pathlib import Path

import torch
from tiny_encoders import COMMON, OFFSET, randomize
from transformers import CONFIG_MAPPING, AutoModelForSequenceClassification
from transformers.pipelines.text_classification import TextClassificationPipeline

THREE = dict(id2label={0: "negative", 1: "neutral", 2: "positive"})
DECODER = COMMON | dict(num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-6)
MODERN = COMMON | dict(
    num_hidden_layers=3,
    local_attention=12,
    global_attn_every_n_layers=2,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    cls_token_id=1,
    sep_token_id=2,
)

# The class of the config, a seed and the config's values, by name.
CLASSIFIERS = {
    "bert": ("bert", 21, COMMON | THREE),
    "bert-reranker": (
        "bert",
        22,
        COMMON | dict(num_labels=1, sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"}),
    ),
    "roberta": ("roberta", 23, OFFSET | dict(num_labels=1)),
    "xlm-roberta": (
        "xlm-roberta",
        24,
        OFFSET | dict(type_vocab_size=1, num_labels=4, problem_type="multi_label_classification"),
    ),
    "mpnet": ("mpnet", 25, OFFSET | dict(num_labels=2)),
    "distilbert": (
        "distilbert",
        26,
        dict(vocab_size=64, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=80) | THREE,
    ),
    "modernbert": (
        "modernbert",
        27,
        MODERN | THREE | dict(classifier_pooling="mean", classifier_bias=True, norm_bias=True),
    ),
    "modernbert-cls": ("modernbert", 28, MODERN | dict(num_labels=2, classifier_pooling="cls")),
    "llama": ("llama", 29, DECODER | THREE),
    "qwen3": ("qwen3", 30, DECODER | dict(num_labels=1, pad_token_id=7, problem_type="regression")),
    "gemma2": (
        "gemma2",
        31,
        DECODER | THREE | dict(sliding_window=12, query_pre_attn_scalar=16, hidden_activation="gelu_pytorch_tanh"),
    ),
}

LENGTHS = [1, 2, 17, 64, 80]
PAIR = ([1, 5, 9, 12, 2, 33, 21, 40, 2], 5)  # tokens, and the first one of the second text


def cases(model):
    gen = torch.Generator().manual_seed(98)
    pipeline = TextClassificationPipeline.__new__(TextClassificationPipeline)
    pipeline.model = model
    rows = [(torch.randint(8, model.config.vocab_size, (n,), generator=gen).tolist(), 0) for n in LENGTHS]
    rows += [([5, 1, 9, 7, 1, 12, 7, 7], 0), ([7, 7], 0), PAIR]  # 1 and 7 are padding
    made = []
    for ids, second in rows:
        inputs = dict(input_ids=torch.tensor([ids]), attention_mask=torch.ones((1, len(ids)), dtype=torch.int64))
        if second and model.config.model_type == "bert":
            inputs["token_type_ids"] = torch.tensor([[int(i >= second) for i in range(len(ids))]])
        with torch.no_grad():
            out = model(**inputs)
        listed = pipeline.postprocess(out, top_k=None, _legacy=True)
        best = pipeline.postprocess(out)
        made.append(
            dict(
                ids=ids,
                second=second if model.config.model_type == "bert" else 0,
                logits=[float(f"{x:.9g}") for x in out.logits[0].tolist()],
                scores=[float(f"{x['score']:.9g}") for x in listed],
                label=best["label"],
            )
        )
    return made


def main(target):
    torch.set_num_threads(1)
    for name, (kind, seed, values) in CLASSIFIERS.items():
        folder = target / name
        shutil.rmtree(folder, ignore_errors=True)
        config = CONFIG_MAPPING[kind](**values)
        model = AutoModelForSequenceClassification.from_config(
            config, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        randomize(model, seed)
        model.to(torch.bfloat16).save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        # What the folder has, and not the model that was in memory: saving may rename and round.
        model = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        text = json.dumps(cases(model))
        with gzip.GzipFile(folder / "scores.json.gz", "wb", mtime=0) as f:
            f.write(text.encode())
        print(name, sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
