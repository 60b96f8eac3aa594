"""What Hugging Face's tokenizers make of pairs of texts: ids and kinds of tokens, whole and truncated.

    python pair_goldens.py text/tokenizer/testdata

The tokenizers are those of the folders there, some with another post-processor.
"""

import gzip
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer


def special(name, kind=0):
    return {"SpecialToken": {"id": name, "type_id": kind}}


def text(name, kind=0):
    return {"Sequence": {"id": name, "type_id": kind}}


def template(pair, tokens):
    ids = {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in tokens.items()}
    return {"type": "TemplateProcessing", "single": [text("A")], "pair": pair, "special_tokens": ids}


CLS = {"[CLS]": 2, "[SEP]": 3}
XLM = {"<s>": 0, "</s>": 2}
BERT = [special("[CLS]"), text("A"), special("[SEP]"), text("B", 1), special("[SEP]", 1)]
ROBERTA = [special("<s>"), text("A"), special("</s>"), special("</s>"), text("B"), special("</s>")]
LATE = [special("[CLS]"), text("A"), special("[SEP]"), special("[SEP]", 1), text("B", 1)]

TOKENIZERS = [
    ("bert", None),
    ("bert", template(BERT, CLS)),
    ("bert", template(LATE, CLS)),
    ("cased", None),
    ("xlm-r", None),
    ("xlm-r", template(ROBERTA, XLM)),
    ("llama3", None),
    ("qwen2", None),
]

PAIRS = [
    ("hello world", "the quick brown fox"),
    ("", "only the second"),
    ("only the first", ""),
    ("", ""),
    ("a longer first text, with many words in it, and more of them", "short"),
    ("short", "a longer second text, with many words in it, and more of them"),
    ("naïve café 我能", "[SEP] is written out, and </s> too"),
]


def main(folder):
    made = []
    for name, post in TOKENIZERS:
        data = json.loads((folder / name / "tokenizer.json").read_text())
        if post:
            data["post_processor"] = post
        tokenizer = Tokenizer.from_str(json.dumps(data))
        cases = []
        for a, b in PAIRS:
            for most in (0, 5, 8, 9, 13):
                tokenizer.no_truncation()
                if most:
                    tokenizer.enable_truncation(most, strategy="longest_first")
                e = tokenizer.encode(a, b)
                cases.append(dict(a=a, b=b, most=most, ids=e.ids, kinds=e.type_ids, truncated=bool(e.overflowing)))
        made.append(dict(folder=name, post=post, cases=cases))
    with gzip.GzipFile(folder / "pairs.json.gz", "wb", mtime=0) as f:
        f.write(json.dumps(made).encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
