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
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE, Unigram, WordPiece
from tokenizers.normalizers import NFKC, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import ByteLevel as ByteLevelProcessor
from tokenizers.processors import RobertaProcessing, TemplateProcessing
from tokenizers.trainers import BpeTrainer, UnigramTrainer
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedTokenizerFast,
)
from transformers.pipelines.text_classification import TextClassificationPipeline
from transformers.pipelines.token_classification import TokenClassificationPipeline

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

LONG_QUERIES = QUERIES + [("c", "is the sky good", ["the sky is not bad " * 200])]

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


# The published form of Qwen3-Reranker, and a template in the form of sentence-transformers.
PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
TASK = "Given a web search query, retrieve relevant passages that answer the query"
ROLES = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def add_answers(target):
    """Writes a decoder that answers yes or no, as published and as a folder of sentence-transformers."""
    folder, modules = target / "qwen3-reranker", target / "qwen3-logits"
    for each in folder, modules:
        shutil.rmtree(each, ignore_errors=True)
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    words = ["yes", "no", PREFIX, SUFFIX, TASK] + [t for _, q, d in QUERIES for t in [q, *d]]
    tokenizer.train_from_iterator(
        words * 9, BpeTrainer(vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    )
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in specials])
    tokenizer.add_tokens([AddedToken("<think>"), AddedToken("</think>")])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=400, pad_token=specials[0], eos_token=specials[2]
    )
    config = CONFIG_MAPPING["qwen3"](
        **DECODER | dict(vocab_size=len(fast), max_position_embeddings=400, tie_word_embeddings=True)
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    randomize(model, 32)
    with torch.no_grad():  # answers that are not certain
        model.model.embed_tokens.weight *= 0.5
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    fast.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    yes, no = fast.convert_tokens_to_ids(["yes", "no"])
    prefix, suffix = fast.encode(PREFIX), fast.encode(SUFFIX)

    def score(query, document, task):
        text = f"<Instruct>: {task}\n<Query>: {query}\n<Document>: {document}"
        room = 400 - len(prefix) - len(suffix)
        ids = prefix + fast.encode(text, truncation="longest_first", max_length=room) + suffix
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
        return torch.softmax(logits[[no, yes]], 0)[1].item()

    shutil.copytree(folder, modules)
    (modules / "chat_template.jinja").write_text(ROLES)
    encoder = CrossEncoder(str(modules), device="cpu", model_kwargs=dict(dtype=torch.float32))
    encoder[0].processing_kwargs = {"chat_template": {"add_generation_prompt": True}}
    encoder.prompts, encoder.default_prompt_name = {"web": "Find it."}, "web"
    encoder.save_pretrained(str(modules))
    for name in "README.md", "generation_config.json":
        (modules / name).unlink(missing_ok=True)
    encoder = CrossEncoder(str(modules), device="cpu", model_kwargs=dict(dtype=torch.float32))
    rows = [dict(id=id, query=query, documents=documents) for id, query, documents in LONG_QUERIES]
    for each, scores in [
        (folder, lambda r: [score(r["query"], d, TASK) for d in r["documents"]]),
        (modules, lambda r: encoder.predict([(r["query"], d) for d in r["documents"]], prompt_name="web")),
    ]:
        lines = [" ".join([r["id"]] + [f"{x:.3f}" for x in scores(r)]) for r in rows]
        (each / "texts.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        (each / "texts.txt").write_text("".join(line + "\n" for line in lines))
        print(each.name, lines)


TAGS = dict(id2label={0: "O", 1: "B-PER", 2: "I-PER", 3: "LOC"})
TAGGED = [
    "the movie is good",
    "The Möviè, is NOT  bad! [SEP] 我们 sky\u0301s xyz\t.",
    "",
    "good " * 100,
    "unbelievable moviegoer, bad sky is not the good movie",
]


def add_bytes(folder, processor, prefix):
    """Writes a byte-level tokenizer whose post-processor leaves spaces out of the characters of tokens, or does not."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=316,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "<pad>", "</s>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([t for t in TAGGED if t] * 9, trainer)
    if processor is not None:
        tokenizer.post_processor = processor
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=78, bos_token="<s>", pad_token="<pad>", eos_token="</s>"
    )
    fast.save_pretrained(folder)
    return fast


def add_pieces(folder):
    """Writes a tokenizer of Unigram in the form of XLM-R, with NFKC in place of its map of characters."""
    tokenizer = Tokenizer(Unigram())
    tokenizer.normalizer = NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    trainer = UnigramTrainer(
        vocab_size=60, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator([t for t in TAGGED if t and "\u0301" not in t] * 9, trainer)
    tokenizer.post_processor = FRAME
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=78, bos_token="<s>", pad_token="<pad>", eos_token="</s>",
        unk_token="<unk>",
    )
    fast.save_pretrained(folder)
    return fast


FRAME = TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
BYTES = {  # post-processors, and whether the pre-tokenizer adds a space
    "roberta-bytes": (RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True), True),
    "modernbert-tokens": (FRAME, False),
    "llama-tokens": (ByteLevelProcessor(trim_offsets=True), False),
}
WIDE = dict(vocab_size=320, max_position_embeddings=80)


def add_tokens(target, only=None):
    """Writes encoders with a head that scores each token, and what the pipeline makes of texts."""
    for name, kind, seed, values in [
        ("bert-tokens", "bert", 41, COMMON | TAGS | dict(vocab_size=64)),
        ("distilbert-tokens", "distilbert", 42, CLASSIFIERS["distilbert"][2] | TAGS),
        ("roberta-tokens", "roberta", 43, OFFSET | TAGS),
        ("roberta-bytes", "roberta", 44, OFFSET | TAGS | dict(vocab_size=320)),
        (
            "modernbert-tokens",
            "modernbert",
            45,
            COMMON
            | TAGS
            | WIDE
            | dict(num_hidden_layers=3, local_attention=12, global_attn_every_n_layers=2, pad_token_id=1,
                   bos_token_id=0, eos_token_id=2, cls_token_id=0, sep_token_id=2),
        ),
        ("xlm-roberta-tokens", "xlm-roberta", 47, OFFSET | TAGS),
        ("llama-tokens", "llama", 46, DECODER | TAGS | WIDE | dict(pad_token_id=1)),
    ]:
        if only and name not in only:
            continue
        folder = target / name
        shutil.rmtree(folder, ignore_errors=True)
        model = AutoModelForTokenClassification.from_config(
            CONFIG_MAPPING[kind](**values), dtype=torch.float32, attn_implementation="eager"
        ).eval()
        randomize(model, seed)
        with torch.no_grad():  # labels that differ
            last = model.score if kind == "llama" else model.classifier
            last.weight *= 8
            last.bias -= model(input_ids=torch.arange(64)[None]).logits[0].mean(dim=0)
        model.to(torch.bfloat16).save_pretrained(folder)
        model = AutoModelForTokenClassification.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        gen, made = torch.Generator().manual_seed(97), []
        for n in [1, 2, 17, 64]:
            ids = torch.randint(8, 64, (1, n), generator=gen)
            with torch.no_grad():
                logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
            made.append(dict(ids=ids[0].tolist(), logits=[float(f"{x:.9g}") for x in logits.flatten().tolist()]))
        with gzip.GzipFile(folder / "scores.json.gz", "wb", mtime=0) as f:
            f.write(json.dumps(made).encode())
        (folder / "generation_config.json").unlink(missing_ok=True)
        if kind not in ("bert", "xlm-roberta") and name not in BYTES:
            continue
        if name in BYTES:
            tokenizer = add_bytes(folder, *BYTES[name])
        else:
            tokenizer = add_tokenizer(folder) if kind == "bert" else add_pieces(folder)
        tag = TokenClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu")
        rows, want = [], []
        for i, text in enumerate(TAGGED):
            rows.append(dict(id=str(i), prompt=text))
            parts = tag(text, aggregation_strategy="simple") if text else []
            raw = tag(text, aggregation_strategy="none", ignore_labels=[]) if text else []
            offsets = tokenizer(text, truncation=True, return_offsets_mapping=True)
            want.append(
                dict(
                    labels=[p["entity_group"] for p in parts],
                    starts=[p["start"] for p in parts],
                    ends=[p["end"] for p in parts],
                    scores=[float(f"{p['score']:.9g}") for p in parts],
                    tokens=[p["entity"] for p in raw],
                    ids=offsets["input_ids"],
                    offsets=offsets["offset_mapping"],
                )
            )
        (folder / "texts.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        (folder / "tags.json").write_text("".join(json.dumps(w) + "\n" for w in want))


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
    add_answers(target)
    add_tokens(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
