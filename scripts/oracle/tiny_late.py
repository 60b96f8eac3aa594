"""Write tiny random checkpoints for late interaction in each form that such checkpoints are saved in, and what the
MultiVectorEncoder of sentence-transformers makes of texts with them, computed in float32.

    python tiny_late.py ../../testdata/encoders

colbert is as Stanford's ColBERT saves, colbert-pylate as PyLate does, and colbert-modern as sentence-transformers does.
"""

import gzip
import json
import shutil
import string
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Normalize
from tiny_encoders import COMMON, randomize
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import CONFIG_MAPPING, AutoModel, PreTrainedTokenizerFast

OUT = 16
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]"]
WORDS = (
    SPECIAL
    + "the movie is good bad a film not it was , . ! ? - ( )".split()
    + list("bcdefghijklmnopqrstuvwxyz")
    + ["##ing", "##s", "##e", "##r"]
)
TEXTS = [
    "the movie is good",
    "",
    "bad!",
    "It was (not) a good film, the movie: it is bad. It was, it was, it was; it is good, not bad! A good film?",
    "good films, bad movies...",
    "日本 unknown ☃ words",
]


def add_tokenizer(folder, extra=()):
    tokenizer = Tokenizer(WordPiece({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=80,
    )
    fast.add_tokens([AddedToken(text) for text in extra])
    fast.save_pretrained(folder)


def make(folder, kind, seed, **values):
    model = AutoModel.from_config(
        CONFIG_MAPPING[kind](**(COMMON | values)), dtype=torch.float32, attn_implementation="eager"
    ).eval()
    randomize(model, seed)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    return model


def projection(seed):  # a MultiVectorEncoder has it in the type of the model
    return (torch.randn(OUT, 32, generator=torch.Generator().manual_seed(seed)) / 6).bfloat16()


def write(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def stanford(folder):
    model = make(folder, "bert", 21)
    add_tokenizer(folder)
    weights = {f"bert.{k}": v.contiguous() for k, v in model.state_dict().items()}
    save_file(weights | {"linear.weight": projection(22)}, folder / "model.safetensors", metadata=dict(format="pt"))
    config = json.loads((folder / "config.json").read_text()) | dict(architectures=["HF_ColBERT"])
    write(folder / "config.json", config)
    write(
        folder / "artifact.metadata",
        dict(
            query_token_id="[unused0]",
            doc_token_id="[unused1]",
            query_maxlen=16,
            doc_maxlen=24,
            attend_to_mask_tokens=False,
            mask_punctuation=True,
            similarity="cosine",
            dim=OUT,
        ),
    )


def pylate(folder):
    make(folder, "bert", 23, vocab_size=66)
    add_tokenizer(folder, ("[Q] ", "[D] "))
    write(
        folder / "modules.json",
        [
            dict(idx=0, name="0", path="", type="sentence_transformers.models.Transformer"),
            dict(idx=1, name="1", path="1_Dense", type="pylate.models.Dense.Dense"),
        ],
    )
    (folder / "1_Dense").mkdir()
    save_file({"linear.weight": projection(24)}, folder / "1_Dense" / "model.safetensors")
    identity = "torch.nn.modules.linear.Identity"
    write(
        folder / "1_Dense" / "config.json",
        dict(in_features=32, out_features=OUT, bias=False, activation_function=identity, use_residual=False),
    )
    write(folder / "sentence_bert_config.json", dict(max_seq_length=20, do_lower_case=False))
    write(
        folder / "config_sentence_transformers.json",
        dict(
            model_type="ColBERT",
            prompts=dict(query="", document=""),
            default_prompt_name=None,
            similarity_fn_name="MaxSim",
            query_prefix="[Q] ",
            document_prefix="[D] ",
            query_length=12,
            document_length=21,
            attend_to_expansion_tokens=True,
            skiplist_words=list(string.punctuation),
            do_query_expansion=True,
        ),
    )


def modern(folder):
    base = folder / "base"
    make(
        base,
        "modernbert",
        25,
        num_hidden_layers=3,
        local_attention=40,
        global_attn_every_n_layers=2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    )
    add_tokenizer(base)
    transformer = Transformer(
        str(base),
        max_seq_length=60,
        document_length=22,
        query_length=30,
        query_expansion=dict(strategy="min", attend=False, length=10),
    )
    dense = Dense(32, OUT, bias=True, activation_function=torch.nn.Identity(), module_input_name="token_embeddings")
    with torch.no_grad():
        dense.linear.weight.copy_(projection(26))
        dense.linear.bias.copy_(projection(27)[:, 0])
    model = MultiVectorEncoder(
        modules=[
            transformer,
            dense,
            MultiVectorMask(skiplist_words=[",", "!", "none"]),
            Normalize(module_input_name="token_embeddings"),
        ],
        prompts=dict(query="is it ", document=""),
        device="cpu",
    )
    model.to(torch.bfloat16).save(str(folder), create_model_card=False)
    shutil.rmtree(base)


def main(target):
    torch.set_num_threads(1)
    for name, save in (("colbert", stanford), ("colbert-pylate", pylate), ("colbert-modern", modern)):
        folder = target / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        save(folder)
        model = MultiVectorEncoder(str(folder), device="cpu", model_kwargs=dict(attn_implementation="eager")).float()
        cases = []
        for side, encode in (("query", model.encode_query), ("document", model.encode_document)):
            for text in TEXTS:
                vectors = encode([text], convert_to_numpy=True)[0]
                rounded = [[float(f"{x:.9g}") for x in v.tolist()] for v in vectors]
                cases.append(dict(side=side, text=text, vectors=rounded))
        with gzip.GzipFile(folder / "vectors.json.gz", "wb", mtime=0) as f:
            f.write(json.dumps(cases).encode())
        print(name, [len(c["vectors"]) for c in cases])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
