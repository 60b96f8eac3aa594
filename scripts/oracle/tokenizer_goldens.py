"""Makes the fixtures of text/tokenizer/testdata with Hugging Face tokenizers.

  corpus.bin.gz        10,000 texts, each as a 4-byte little-endian length and its bytes (not always UTF-8)
  <family>/            a small tokenizer.json with the components of a model family, trained on the corpus
  <family>.gguf        the same vocabulary as GGUF metadata, where there is such a thing
  <family>.golden.gz   for each text a CRC-32 (4 bytes, little-endian) of its ids and what they decode to, see checksum;
                       after them the ids of the first 300 texts as JSON lines
Run: python scripts/oracle/tokenizer_goldens.py PATH-TO-SmolLM2.gguf
"""
import gzip
import json
import pathlib
import random
import struct
import sys
import zlib

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.tokenization_utils_base import generate_merges

OUT = pathlib.Path(__file__).resolve().parents[2] / "text" / "tokenizer" / "testdata"
LINES = 10_000
rng = random.Random(20261121)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
          r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

# ---------------------------------------------------------------- corpus

WORDS = """the of and to in is that it was for on are with as his they be at one have this from or had by hot word but
what some we can out other were all there when up use your how said an each she which do their time if will way about
many then them write would like so these her long make thing see him two has look more day could go come did number
sound no most people my over know water than call first who may down side been now find sampling engine token batch page
cache attention gradient matrix vector layer probability distribution temperature Straße naïve café Zürich Ελλάδα Москва
привет мир слово שלום العربية हिन्दी भाषा ไทย tiếng Việt한국어 안녕 İstanbul ﬁne ǆ ǅ Ⅳ ½ x² ŉ ſ ß""".split()
CJK = "日本語中文字漢字測試你好世界模型数据訓練東京大阪一二三ひらがなカタカナー。、！？「」"
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "❤️", "🏳️‍🌈", "🤖", "1️⃣", "🫠", "\U0001FAE8"]
SPECIAL = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>",
           "[INST]", "[/INST]", "<think>", "</think>", "<|start_header_id|>", "<|end_header_id|>",
           "<mask>", "<|im_start", "<0x41>", "<0x0A>", "▁", "Ġ", "WORD", "<left>", "<right>"]
CODE = ["for i in range({n}):\n    x[i] += {n}\n", "if (a->b != NULL && *p++ == '\\0') {{ return -{n}; }}",
        "func f{n}(x int) (y *T, err error) {{\n\treturn nil, err\n}}",
        "SELECT * FROM t{n} WHERE name LIKE '%a%' -- note\n", "<div class=\"a{n}\">&amp;</div>",
        "{{\"key{n}\": [1, 2.5e-{n}, null]}}", "#include <x{n}.h>\r\n#define M(a) ((a)<<{n})\r\n",
        "$ ls -la | grep '^d' > /tmp/{n}.txt", "def don't(): I'll you've WE'RE he's it'S they'd I'M 'tis 'llama",
        "https://example.org/a/b?c={n}&d=%20#e", "\\frac{{{n}}}{{x^2}} \\sum_i"]


def number():
    return rng.choice([
        str(rng.randrange(10)), str(rng.randrange(10_000)), str(rng.randrange(10**12)), f"{rng.random():.5f}",
        f"{rng.randrange(10**6):,}", "٣٤٥", "१२३", "Ⅷ", "½", "²³"])


def words(n):
    out = []
    for _ in range(n):
        w = rng.choice(WORDS)
        r = rng.random()
        out.append(w.upper() if r < 0.05 else w.capitalize() if r < 0.2 else w)
        if rng.random() < 0.15:
            out[-1] += rng.choice([
                ",", ".", "!", "?", ";", "...", "'s", "'ll", "n't", "'RE", "'ſ", "-", "—", "\"", "”"])
    return " ".join(out)


def whitespace():
    return "".join(
        rng.choice([
            " ", " ", "  ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u3000", "\u2028", "\x0b", "\x0c", "\x85", "\u200b",
            "   "])
        for _ in range(rng.randrange(1, 8)))


def anything():
    while True:
        c = rng.choice([
            rng.randrange(0x20, 0x7F), rng.randrange(0xA0, 0x800), rng.randrange(0x800, 0xD800),
            rng.randrange(0xE000, 0x10000), rng.randrange(0x10000, 0x20000), rng.randrange(0x110000),
            rng.randrange(0x20)])
        if not 0xD800 <= c <= 0xDFFF:
            return chr(c)


def combining():
    return "".join(
        rng.choice("aeiouAEnс") + "".join(
            chr(rng.choice([0x300, 0x301, 0x308, 0x323, 0x327, 0x30A])) for _ in range(rng.randrange(3)))
        for _ in range(rng.randrange(2, 8))) + rng.choice(["Å", "한글", "ﬃ", "각"])


PIECES = [
    (30, lambda: words(rng.randrange(1, 9))),
    (8, lambda: rng.choice(CODE).format(n=rng.randrange(1000))),
    (6, number),
    (6, whitespace),
    (6, lambda: "".join(rng.choice(CJK) for _ in range(rng.randrange(1, 12)))),
    (5, lambda: "".join(rng.choice(EMOJI) for _ in range(rng.randrange(1, 4)))),
    (6, lambda: rng.choice(["", " ", "  "]) + rng.choice(SPECIAL) + rng.choice(["", " ", "  ", "\n"])),
    (4, lambda: "".join(rng.choice("!@#$%^&*()_+-=[]{}|;:,./<>?`~'\"\\") for _ in range(rng.randrange(1, 9)))),
    (3, lambda: "".join(anything() for _ in range(rng.randrange(1, 8)))),
    (2, combining),
    (2, lambda: "".join(chr(rng.randrange(0x20)) for _ in range(rng.randrange(1, 6)))),
    (1, lambda: "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randrange(20, 120)))),
]


def line():
    n = rng.choice([1, 1, 2, 3, 4])
    parts = [make() for make in rng.choices([p[1] for p in PIECES], [p[0] for p in PIECES], k=n)]
    text = rng.choice(["", "", " "]).join(parts)
    if rng.random() < 0.2:
        text = rng.choice([" ", "  ", "\n", "\t"]) + text
    if rng.random() < 0.2:
        text += rng.choice([" ", "  ", "\n", "\n\n ", " \n"])
    data = text.encode()
    if rng.random() < 0.06:  # invalid UTF-8
        data = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            i = rng.randrange(len(data) + 1)
            data[i:i] = rng.choice([
                b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\x80", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5",
                b"\xf4\x90\x80\x80"])
        data = bytes(data)
    return data


def corpus():
    texts = [b"", b" ", b"  ", b"\n", b"a", b"'", b"'s", b" '", b"\xff", b"\xf0\x9f\x98", "▁".encode(), "▁ ▁".encode(),
             b"<s>", b"<s><s> a</s>",
             b"a" * 5000, b" " * 3000, b"\n " * 700, ("日本" * 700).encode(), b"ab" * 1500 + b" x", ("👍🏽" * 200).encode(),
             b"1234567890" * 200, b"a " * 900, b"!" * 1500]
    return texts + [line() for _ in range(LINES - len(texts))]


# ---------------------------------------------------------------- families

def byte_level(train, split, vocab_size, specials, *, normalizer=None, ignore_merges=False, post=None, tokens=()):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = split
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), special_tokens=[],
        show_progress=False)
    t.train_from_iterator(train, trainer)
    if ignore_merges:
        # Tokens that no merge leads to, as the real vocabulary has them: found only by ignore_merges.
        vocab = t.get_vocab()
        for extra in ["Ġsampling", "Ġattention", "Ġprobability"]:
            vocab.setdefault(extra, len(vocab))
        model = json.loads(t.to_str())["model"]
        t.model = models.BPE(vocab=vocab, merges=[tuple(m) for m in model["merges"]], ignore_merges=True)
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in specials])
    t.add_tokens([AddedToken(s, normalized=False, special=False) for s in tokens])
    bl = processors.ByteLevel(trim_offsets=False)
    t.post_processor = processors.Sequence([bl, post(t)]) if post else bl
    return t


def by_regex(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def bos(token):
    return lambda t: processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token}:1 $B:1", special_tokens=[(token, t.token_to_id(token))])


def sentencepiece_model(train, vocab_size):
    """Vocabulary and merges in the manner of Llama 2's: specials, bytes, then pieces."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, limit_alphabet=150, show_progress=False)
    t.train_from_iterator(train, trainer)
    model = json.loads(t.to_str())["model"]
    merges = [tuple(m) for m in model["merges"]]
    vocab = {s: i for i, s in enumerate(["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])}
    for token in [a + b for a, b in merges] + sorted(model["vocab"], key=model["vocab"].get):
        vocab.setdefault(token, len(vocab))
    return vocab, merges


def sentencepiece(vocab, merges, *, metaspace=False, specials=()):
    t = Tokenizer(models.BPE(vocab=dict(vocab), merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in ["<unk>", "<s>", "</s>", *specials]])
    t.post_processor = bos("<s>")(t)
    return t


def gemma(vocab, merges):
    """Gemma 2's: nothing before the first word, words that keep the space after them separate, four specials first."""
    specials = ["<pad>", "<eos>", "<bos>", "<unk>"]
    ids = specials + [s for s in vocab if s not in ("<unk>", "<s>", "</s>")]
    t = Tokenizer(
        models.BPE(
            vocab={s: i for i, s in enumerate(ids)}, merges=merges, unk_token="<unk>", fuse_unk=True,
            byte_fallback=True))
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.add_special_tokens([
        AddedToken(s, normalized=False, special=True) for s in [*specials, "<start_of_turn>", "<end_of_turn>"]])
    t.add_tokens([AddedToken("\n" * n, normalized=False, special=False) for n in (1, 2, 3)])
    t.post_processor = bos("<bos>")(t)
    return t


def odd(train):
    """Flags that the families above leave alone."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("e", "E")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False),
                                               pre_tokenizers.Split("-", "merged_with_previous"),
                                               pre_tokenizers.Split(Regex(r"[!?]+"), "removed"),
                                               pre_tokenizers.Metaspace(prepend_scheme="always")])
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.train_from_iterator(
        train,
        trainers.BpeTrainer(
            vocab_size=700, limit_alphabet=80, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False))
    t.add_special_tokens([
        AddedToken("<mask>", lstrip=True, normalized=False),
        AddedToken("<|im_end|>", normalized=True, single_word=True)])
    t.add_tokens([AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True, normalized=False),
                  AddedToken("WORD", single_word=True, normalized=False),
                  AddedToken("engine", single_word=True, normalized=True), AddedToken("the", normalized=True),
                  AddedToken("them", normalized=True)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return t


def smollm2(path):
    """The real SmolLM2: its GGUF's vocabulary in the pipeline of its tokenizer.json."""
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    t = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(tokens)}, merges=merges))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s, k in zip(tokens, types) if k == 3])
    return t


# ---------------------------------------------------------------- output

def checksum(t, ids):
    """CRC-32 of the ids (4 bytes each), their text, and the texts of the ids backwards and of every other id."""
    crc = zlib.crc32(struct.pack(f"<{len(ids)}i", *ids))
    for seq, skip in ((ids, False), (ids[::-1], True), (ids[::2], True)):
        crc = zlib.crc32(b"\0" + t.decode(seq, skip_special_tokens=skip).encode(), crc)
    return crc


def pack(path, data):
    with open(path, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=9, mtime=0, filename="") as f:
        f.write(data)


def golden(name, t, texts):
    crcs, head = bytearray(), []
    for i, text in enumerate(texts):
        ids = t.encode(text).ids
        crcs += struct.pack("<I", checksum(t, ids))
        if i < 300:
            head.append(json.dumps(ids, separators=(",", ":")))
    pack(OUT / f"{name}.golden.gz", bytes(crcs) + "\n".join(head).encode() + b"\n")


def save(name, t, config):
    d = OUT / name
    d.mkdir(parents=True, exist_ok=True)
    (d / "tokenizer.json").write_text(
        json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
    (d / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n")


def write_gguf(name, model, t, pre=None, scores=None, bos_id=None, eos_id=None, template=None):
    w = gguf.GGUFWriter(str(OUT / f"{name}.gguf"), "llama")
    w.add_tokenizer_model(model)
    if pre:
        w.add_tokenizer_pre(pre)
    size = t.get_vocab_size()
    added = t.get_added_tokens_decoder()
    tokens = [t.id_to_token(i) for i in range(size)]
    w.add_token_list(tokens)
    kinds = []
    for i, s in enumerate(tokens):
        kind = gguf.TokenType.NORMAL
        if i in added:
            kind = gguf.TokenType.CONTROL if added[i].special else gguf.TokenType.USER_DEFINED
            if s == "<unk>":
                kind = gguf.TokenType.UNKNOWN
        elif len(s) == 6 and s.startswith("<0x"):
            kind = gguf.TokenType.BYTE
        kinds.append(kind)
    w.add_token_types(kinds)
    if scores is not None:
        w.add_token_scores(scores)
        w.add_unk_token_id(0)
    else:
        w.add_token_merges([" ".join(m) for m in json.loads(t.to_str())["model"]["merges"]])
    if bos_id is not None:
        w.add_bos_token_id(bos_id)
    if eos_id is not None:
        w.add_eos_token_id(eos_id)
    if template:
        w.add_chat_template(template)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    raw = corpus()
    pack(OUT / "corpus.bin.gz", b"".join(struct.pack("<I", len(b)) + b for b in raw))
    texts = [b.decode("utf-8", "replace") for b in raw]
    train = texts[30:]

    golden("smollm2", smollm2(sys.argv[1]), texts)

    smollm = byte_level(
        train, pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        1000, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    save(
        "smollm", smollm,
        {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "unk_token": "<|endoftext|>", "pad_token": None})
    golden("smollm", smollm, texts)

    llama3 = byte_level(
        train, by_regex(LLAMA3), 1200,
        ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        ignore_merges=True, post=bos("<|begin_of_text|>"))
    save(
        "llama3", llama3,
        {
            "bos_token": "<|begin_of_text|>", "eos_token": {"__type": "AddedToken", "content": "<|eot_id|>"},
            "chat_template": [
                {"name": "tool_use", "template": "no"}, {"name": "default", "template": "{{ messages[0].content }}"}]})
    golden("llama3", llama3, texts)
    write_gguf(
        "llama3", "gpt2", llama3, "llama-bpe", bos_id=llama3.token_to_id("<|begin_of_text|>"),
        eos_id=llama3.token_to_id("<|eot_id|>"), template="{{ messages[0].content }}")

    qwen = byte_level(
        train, by_regex(QWEN2), 1200, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizer=normalizers.NFC(),
        tokens=["<think>", "</think>"])
    save("qwen2", qwen, {"bos_token": None, "eos_token": "<|im_end|>", "chat_template": "{{ messages[0].content }}"})
    golden("qwen2", qwen, texts)
    write_gguf("qwen2", "gpt2", qwen, "qwen2", eos_id=qwen.token_to_id("<|im_end|>"))

    tekken = byte_level(train, by_regex(TEKKEN), 1000, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], post=bos("<s>"))
    save("tekken", tekken, {"bos_token": "<s>", "eos_token": "</s>"})
    golden("tekken", tekken, texts)

    gpt2 = byte_level(train, pre_tokenizers.ByteLevel(add_prefix_space=True), 800, ["<|endoftext|>"])
    save("gpt2", gpt2, {"eos_token": "<|endoftext|>"})
    golden("gpt2", gpt2, texts)

    vocab, merges = sentencepiece_model(train, 900)
    llama2 = sentencepiece(vocab, merges)
    save("llama2", llama2, {"bos_token": "<s>", "eos_token": "</s>"})
    golden("llama2", llama2, texts)
    mistral = sentencepiece(vocab, merges, metaspace=True, specials=["[INST]", "[/INST]"])
    save("mistral", mistral, {"bos_token": "<s>", "eos_token": "</s>"})
    golden("mistral", mistral, texts)

    gemma2 = gemma(vocab, merges)
    save("gemma2", gemma2, {"bos_token": "<bos>", "eos_token": "<eos>"})
    golden("gemma2", gemma2, texts)

    # A SentencePiece vocabulary as GGUF has it: scores, no merges.
    scores = [0.0] * 259 + [-float(i) for i in range(len(vocab) - 259)]
    pieces = {s: i for s, i in vocab.items() if i >= 259}
    derived = generate_merges(pieces, {s: scores[i] for s, i in pieces.items()})
    spm = sentencepiece(vocab, derived)
    golden("spm", spm, texts)
    write_gguf("spm", "llama", spm, scores=scores, bos_id=1, eos_id=2)

    odds = odd(train)
    save("odd", odds, {"unk_token": "<unk>"})
    golden("odd", odds, texts)


main()
