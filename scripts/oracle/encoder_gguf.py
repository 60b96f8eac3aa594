"""GGUF files of tiny encoders in F16, and of tiny classifiers in F32, made by llama.cpp's own converter, and of the
tokenizer in text/tokenizer's testdata/bert.

    P=~/.cache/quire/peers/llama_cpp_python-*
    encoder_gguf.py $P/vendor/llama.cpp testdata/encoders text/tokenizer/testdata testdata/classifiers

`bench/peers/setup.sh llama` fetches llama.cpp.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

LLAMA, ENCODERS, TOKENIZERS, CLASSIFIERS = map(Path, sys.argv[1:])
sys.path[:0] = [str(LLAMA / "gguf-py"), str(LLAMA)]
import gguf
import torch
from conversion import get_model_class
from conversion.base import ModelBase

POOLING = dict(word_embedding_dimension=32, pooling_mode_mean_tokens=True)


# The keys of Nomic BERT's authors, and values that its checkpoints have.
NAMES = dict(
    vocab_size="vocab_size", n_embd="hidden_size", n_inner="intermediate_size", n_layer="num_hidden_layers",
    n_head="num_attention_heads", layer_norm_epsilon="layer_norm_eps", type_vocab_size="type_vocab_size")
AUTHORS = dict(
    model_type="nomic_bert", activation_function="swiglu", causal=False, qkv_proj_bias=False, mlp_fc1_bias=False,
    mlp_fc2_bias=False, prenorm=False, parallel_block=False, use_rms_norm=False, rotary_emb_base=1000,
    rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None, rotary_scaling_factor=None,
    n_positions=8192, max_trained_positions=2048)


def no_vocabulary(self):
    self.gguf_writer.add_tokenizer_model("none")
    self.gguf_writer.add_token_type_count(2)


def write_words(w, folder):
    """The vocabulary of a folder, as BertModel.set_vocab writes it."""
    parsed = json.loads((folder / "tokenizer.json").read_text())
    special = {t["id"]: t["content"] for t in parsed["added_tokens"]}
    tokens, types = [], []
    for token, i in sorted(parsed["model"]["vocab"].items(), key=lambda item: item[1]):
        tokens.append(special.get(i) or (token[2:] if token.startswith("##") else "\u2581" + token))
        types.append(gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL)
    ids = {content: i for i, content in special.items()}
    w.add_tokenizer_model("bert"), w.add_tokenizer_pre("default"), w.add_token_list(tokens), w.add_token_types(types)
    w.add_bos_token_id(ids["[CLS]"]), w.add_eos_token_id(ids["[SEP]"]), w.add_unk_token_id(ids["[UNK]"])
    w.add_sep_token_id(ids["[SEP]"]), w.add_pad_token_id(ids["[PAD]"])


def words():
    """A file of the vocabulary alone."""
    w = gguf.GGUFWriter(TOKENIZERS / "bert.gguf", "bert")
    write_words(w, TOKENIZERS / "bert")
    w.write_header_to_file(), w.write_kv_data_to_file(), w.close()


def letters(self):
    """The vocabulary that the tiny classifiers with texts have."""
    self.gguf_writer.add_token_type_count(1)
    write_words(self.gguf_writer, CLASSIFIERS / "bert-reranker")


def byte_pairs(self):
    """The vocabulary of the folder, of pairs of bytes as GPT-2 has them."""
    w, parsed = self.gguf_writer, json.loads((self.dir_model / "tokenizer.json").read_text())
    kinds = {t["id"]: gguf.TokenType.CONTROL if t["special"] else gguf.TokenType.USER_DEFINED
             for t in parsed["added_tokens"]}
    ids = {t["content"]: t["id"] for t in parsed["added_tokens"]}
    vocab = sorted((parsed["model"]["vocab"] | ids).items(), key=lambda item: item[1])
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("gpt-2"), w.add_token_list([token for token, _ in vocab])
    w.add_token_types([kinds.get(i, gguf.TokenType.NORMAL) for _, i in vocab])
    w.add_token_merges([" ".join(pair) for pair in parsed["model"]["merges"]])
    w.add_eos_token_id(ids["<|im_end|>"]), w.add_pad_token_id(ids["<|endoftext|>"]), w.add_add_bos_token(False)


def convert(folder, path, set_vocab, kind_of_weights=gguf.LlamaFileType.MOSTLY_F16):
    with tempfile.TemporaryDirectory() as work:
        copy = Path(shutil.copytree(folder, Path(work) / folder.name))
        if path.parent != CLASSIFIERS and not (copy / "modules.json").exists():
            (copy / "1_Pooling").mkdir()
            (copy / "1_Pooling" / "config.json").write_text(json.dumps(POOLING))
            modules = [dict(idx=i, name=str(i), path=p, type=f"sentence_transformers.models.{t}")
                       for i, (p, t) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling")))]
            (copy / "modules.json").write_text(json.dumps(modules))
        vocab = {str(i): i for i in range(json.loads((copy / "config.json").read_text())["vocab_size"])}
        if set_vocab != byte_pairs:
            (copy / "tokenizer.json").write_text(
                json.dumps({"model": {"type": "WordPiece", "vocab": vocab}, "added_tokens": []}))
        config = json.loads((copy / "config.json").read_text())
        if config["model_type"] == "nomic_bert":  # the converter reads what the authors' code calls it
            authors = AUTHORS | {theirs: config[ours] for theirs, ours in NAMES.items()}
            (copy / "config.json").write_text(json.dumps(config | authors))
        hparams = ModelBase.load_hparams(copy, False)
        kind = get_model_class(hparams["architectures"][0])
        made = type(kind.__name__, (kind,), dict(set_vocab=set_vocab, model_arch=kind.model_arch))
        with torch.inference_mode():
            made(copy, kind_of_weights, path, eager=True, hparams=hparams,
                 sentence_transformers_dense_modules=True).write()


convert(ENCODERS / "bert", ENCODERS / "bert.gguf", no_vocabulary)
convert(ENCODERS / "nomic-bert", ENCODERS / "nomic-bert.gguf", no_vocabulary)
convert(ENCODERS / "embedding-gemma", ENCODERS / "embedding-gemma.gguf", no_vocabulary)
words()
for name, vocabulary in (("roberta", no_vocabulary), ("xlm-roberta", no_vocabulary), ("distilbert", letters),
                         ("qwen3-reranker", byte_pairs)):
    convert(CLASSIFIERS / name, CLASSIFIERS / (name + ".gguf"), vocabulary, gguf.LlamaFileType.ALL_F32)
