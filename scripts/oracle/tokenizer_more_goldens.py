"""Makes the fixtures of text/tokenizer/testdata for vocabularies other than byte-level BPE, after tokenizer_goldens.py.

  <name>/tokenizer.json     WordPiece (bert), Unigram (unigram, t5) with the components of their families, by Hugging
                            Face tokenizers, trained on the corpus
  <name>/tokenizer.model    what sentencepiece trained on the corpus: BPE and Unigram, with each of their settings
  o200k/o200k_base.tiktoken ranks trained on the corpus, and their ids by tiktoken
  <name>.golden.gz          as tokenizer_goldens.py writes them. Those of tokenizer.model are the ids of the
                            sentencepiece package, each stretch between control pieces by itself (behind a BOS), and
                            the decoder of transformers' converted tokenizers (Replace, ByteFallback, Fuse, Strip)
Run: python scripts/oracle/tokenizer_more_goldens.py
"""
import base64
import gzip
import io
import json
import pathlib
import re
import struct
import zlib

import sentencepiece
import tiktoken
from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).resolve().parents[2] / "text" / "tokenizer" / "testdata"
HEAD = 300


def corpus():
    data, texts = gzip.decompress((OUT / "corpus.bin.gz").read_bytes()), []
    while data:
        (n,) = struct.unpack_from("<I", data)
        texts.append(data[4:4 + n].decode("utf-8", "replace"))
        data = data[4 + n:]
    return texts


def golden(name, texts, encode, decode):
    """encode(text) -> ids; decode(ids, skip) -> text."""
    crcs, head = bytearray(), []
    for i, text in enumerate(texts):
        ids = encode(text)
        crc = zlib.crc32(struct.pack(f"<{len(ids)}i", *ids))
        for seq, skip in ((ids, False), (ids[::-1], True), (ids[::2], True)):
            crc = zlib.crc32(b"\0" + decode(seq, skip).encode("utf-8", "replace"), crc)
        crcs += struct.pack("<I", crc)
        if i < HEAD:
            head.append(json.dumps(ids, separators=(",", ":")))
    with open(OUT / f"{name}.golden.gz", "wb") as raw, gzip.GzipFile(
        fileobj=raw, mode="wb", compresslevel=9, mtime=0, filename="") as f:
        f.write(bytes(crcs) + "\n".join(head).encode() + b"\n")


def of_json(name, t, texts, config):
    d = OUT / name
    d.mkdir(parents=True, exist_ok=True)
    (d / "tokenizer.json").write_text(
        json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
    (d / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n")
    golden(name, texts, lambda s: t.encode(s).ids, lambda ids, skip: t.decode(ids, skip_special_tokens=skip))


# ---------------------------------------------------------------- tokenizer.json

def bert(train):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(
        train,
        trainers.WordPieceTrainer(vocab_size=1500, limit_alphabet=300, special_tokens=specials, show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def cased(train):
    """Other settings: marks kept, plain words and signs, other flags of the normalizer."""
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase(), normalizers.StripAccents(),
                                         normalizers.Strip(left=True, right=False),
                                         normalizers.BertNormalizer(
                                             clean_text=True, handle_chinese_chars=False, strip_accents=False,
                                             lowercase=False)])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous"),
        pre_tokenizers.CharDelimiterSplit("x")])
    t.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    t.train_from_iterator(
        train,
        trainers.WordPieceTrainer(
            vocab_size=1200, limit_alphabet=200, special_tokens=["[UNK]", "<s>", "</s>"], show_progress=False))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), trim_offsets=False, add_prefix_space=False)
    return t


def unigram(pieces):
    """Byte fallback, and marks before words, as of Japanese models."""
    vocab = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)] + [(f"<0x{b:02X}>", 0.0) for b in range(256)] + pieces
    t = Tokenizer(models.Unigram(vocab, 0, True))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    t.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in ["<unk>", "<s>", "</s>"]])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def t5(pieces, charsmap):
    """T5's: SentencePiece's own characters map, marks before words, no bytes."""
    t = Tokenizer(models.Unigram([("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + pieces, 2))
    t.normalizer = normalizers.Sequence([
        normalizers.Precompiled(charsmap), normalizers.Strip(left=False, right=True),
        normalizers.Replace(Regex(" {2,}"), "▁")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in ["<pad>", "</s>", "<unk>"]])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return t


def xlm_r(pieces, charsmap):
    """XLM-RoBERTa's: SentencePiece's characters map, texts split at spaces before marks, and both special tokens."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    t = Tokenizer(models.Unigram([(s, 0.0) for s in special] + pieces + [("<mask>", 0.0)], 3))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in special]
                         + [AddedToken("<mask>", lstrip=True, normalized=False, special=True)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return t


def gpt_oss(train):
    """gpt-oss' pattern and special tokens."""
    tense = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    pattern = "|".join([
        rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]*[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]+{tense}",
        rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]+[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]*{tense}",
        r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(
        train,
        trainers.BpeTrainer(
            vocab_size=1000, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), special_tokens=[],
            show_progress=False))
    t.add_special_tokens([
        AddedToken(s, normalized=False, special=True)
        for s in [
            "<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>",
            "<|message|>", "<|call|>"]])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t, pattern


# Kimi K2's and Moonlight's, which sets Chinese characters apart.
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def tiktoken_ranks(t, file, pattern):
    """The merges of a byte-level vocabulary as ranks in a file; ids of tiktoken itself."""
    level = {c: b for b, c in bytes_to_unicode().items()}
    order = json.loads(t.to_str())["model"]
    vocab = sorted((s for s in order["vocab"]), key=order["vocab"].get)
    ranks = {bytes(level[c] for c in s): i for i, s in enumerate(vocab)}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(base64.b64encode(s) + b" %d\n" % i for s, i in ranks.items()))
    enc = tiktoken.Encoding(file.name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda s: enc.encode(s, disallowed_special=()), lambda ids, skip: b"".join(
        enc.decode_single_token_bytes(i) for i in ids).decode("utf-8", "replace")


def bytes_to_unicode():
    printable = list(range(ord("!"), ord("~") + 1)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    out, n = {b: chr(b) for b in printable}, 0
    for b in range(256):
        if b not in out:
            out[b] = chr(0x100 + n)
            n += 1
    return dict(sorted(out.items()))


# ---------------------------------------------------------------- tokenizer.model

CHAINS = {}


def piece_model(name, train, texts, **settings):
    out = io.BytesIO()
    settings = {
        "vocab_size": 1100, "hard_vocab_limit": False, "character_coverage": 0.98, "num_threads": 1,
        "minloglevel": 2} | settings
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(train), model_writer=out, **settings)
    m = proto.ModelProto.FromString(out.getvalue())
    for p in m.pieces[600::37]:  # some pieces that are only steps to others
        if p.type == p.NORMAL:
            p.type = p.UNUSED
    d = OUT / name
    d.mkdir(parents=True, exist_ok=True)
    (d / "tokenizer.model").write_bytes(m.SerializeToString())
    sp = sentencepiece.SentencePieceProcessor(model_proto=m.SerializeToString())
    control = {p.piece: i for i, p in enumerate(m.pieces) if p.type == p.CONTROL}
    cut = re.compile("(" + "|".join(map(re.escape, sorted(control, key=len, reverse=True))) + ")")

    def encode(text):
        ids = [sp.bos_id()] if sp.bos_id() >= 0 else []
        for part in cut.split(text):
            ids += [control[part]] if part in control else sp.encode(part)
        return ids

    n = m.normalizer_spec
    strip = 1 if (
        n.add_dummy_prefix or n.remove_extra_whitespaces) and not m.trainer_spec.treat_whitespace_as_suffix else 0
    chain = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        + ([decoders.Strip(" ", strip, 0)] if strip else []))

    def decode(ids, skip):
        return chain.decode([m.pieces[i].piece for i in ids if not (skip and m.pieces[i].type == 3)])

    golden(name, texts, encode, decode)
    wrong = sum(sp.decode(encode(t)) != decode(encode(t), True) for t in texts if sp.unk_id() not in encode(t))
    print(
        name, len(m.pieces), "pieces;", wrong,
        "texts that sentencepiece decodes otherwise (bytes that are not UTF-8, prefixes)")
    return m


def main():
    texts = corpus()
    train = [t for t in texts[30:] if "\0" not in t]
    lines = [t.replace("\n", " ") for t in train if len(t) < 2000]

    m = piece_model(
        "spm-unigram", lines, texts, model_type="unigram", pad_id=3, user_defined_symbols=["[INST]", "WORD", "▁▁▁"])
    piece_model("spm-bpe", lines, texts, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                user_defined_symbols=["[INST]", "<think>", "  "])
    piece_model("spm-gemma", lines, texts, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                add_dummy_prefix=False, split_digits=True, pad_id=0, eos_id=1, bos_id=2, unk_id=3,
                user_defined_symbols=["\n", "\n\n", "<start_of_turn>"])
    piece_model(
        "spm-suffix", lines, texts, model_type="unigram", byte_fallback=True, normalization_rule_name="nfkc_cf",
        treat_whitespace_as_suffix=True, bos_id=-1)

    pieces = [(p.piece, p.score) for p in m.pieces if p.type == p.NORMAL]
    of_json(
        "bert", bert(train), texts,
        {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"})
    of_json("cased", cased(train), texts, {"unk_token": "[UNK]"})
    of_json("unigram", unigram(pieces), texts, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})
    of_json(
        "t5", t5(pieces, m.normalizer_spec.precompiled_charsmap), texts,
        {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"})
    of_json(
        "xlm-r", xlm_r(pieces[:1500], m.normalizer_spec.precompiled_charsmap), texts,
        {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"})
    oss, pattern = gpt_oss(train)
    of_json(
        "gpt-oss", oss, texts,
        {"bos_token": "<|startoftext|>", "eos_token": "<|return|>", "pad_token": "<|endoftext|>"})
    golden("o200k", texts, *tiktoken_ranks(oss, OUT / "o200k" / "o200k_base.tiktoken", pattern))
    golden("kimi", texts, *tiktoken_ranks(oss, OUT / "kimi" / "tiktoken.model", KIMI))


main()
