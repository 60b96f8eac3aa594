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
from sentence_transformers import CrossEncoder
from tiny_encoders import COMMON, OFFSET, randomize
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import CONFIG_MAPPING, AutoModelForSequenceClassification, PreTrainedTokenizerFast
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

# A tokenizer of words and letters, and what the pipeline and a CrossEncoder make of texts with it.
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "good", "bad", "movie", "is", "not", "sky"]
TEXTS = [
    ("a", "the movie is good", None),
    ("b", "the movie is not good", None),
    ("c", "bad", None),
    ("d", "", None),
    ("e", "the movie is good", "the movie is bad"),
    ("f", "the movie is bad", "the movie is good"),
    ("g", "good " * 100, None),
    ("h", "the sky is not bad " * 20, "good " * 12),
]
QUERIES = [
    ("a", "is the sky good", ["the sky is not bad", "the movie is good", "sky " * 100]),
    ("b", "bad movie", ["good movie"]),
]

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


def add_tokenizer(folder):
    words = WORDS + list(LETTERS) + ["##" + c for c in LETTERS]
    tokenizer = Tokenizer(WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=80,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    fast.save_pretrained(folder)
    return fast


def add_texts(folder, model, name):
    """Writes texts, and their labels and scores as the columns of the output have them."""
    tokenizer = add_tokenizer(folder)
    rows, want = [], []
    if name == "bert":
        classify = TextClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu")
        for id, prompt, pair in TEXTS:
            rows.append(dict(id=id, prompt=prompt, text_pair=pair))
            text = dict(text=prompt) | (dict(text_pair=pair) if pair is not None else {})
            listed = {x["label"]: x["score"] for x in classify(text, top_k=None, truncation="longest_first")}
            best = max(listed, key=listed.get)
            want.append([id, best] + [f"{listed[label]:.3f}" for label in model.config.id2label.values()])
    else:
        encoder = CrossEncoder(str(folder), device="cpu", model_kwargs=dict(dtype=torch.float32))
        for id, query, documents in QUERIES:
            rows.append(dict(id=id, query=query, documents=documents))
            want.append([id] + [f"{x:.3f}" for x in encoder.predict([(query, d) for d in documents])])
    (folder / "texts.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "texts.txt").write_text("".join(" ".join(w) + "\n" for w in want))


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
        if kind == "bert":
            add_texts(folder, model, name)
        print(name, sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
