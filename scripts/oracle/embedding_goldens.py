"""What sentence-transformers makes of texts with all-MiniLM-L6-v2, in float32, and the tokens that it makes of them.

    python embedding_goldens.py MODEL_FOLDER ../../testdata/goldens [TEXTS]

MODEL_FOLDER is where "sample setup minilm" puts the model. Texts are of many lengths and scripts, empty, and longer
than the model takes. Vectors are normalized, base64 of float32.
"""

import base64
import gzip
import json
import random
import sys
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

SCRIPTS = [
    "",
    " ",
    "a",
    "hello world",
    "Hello, World! It's 3.14% of what he'd paid—really?",
    "naïve café, Ünïcödé and ÅNGSTRÖM; Straße, œuvre, İstanbul, ﬁne",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Й й ё",
    "我能吞下玻璃而不伤身体。今天天气很好,我们去公园吧!",
    "私はガラスを食べられます。それは私を傷つけません。がぎぐげご",
    "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요",
    "אני יכול לאכול זכוכית וזה לא מזיק לי. שָׁלוֹם",
    "أنا قادر على أكل الزجاج و هذا لا يؤلمني. مُحَمَّد",
    "मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती.",
    "ฉันกินกระจกได้ แต่มันไม่ทำให้ฉันเจ็บ",
    "Tôi có thể ăn thủy tinh mà không hại gì.",
    "emoji 😀👩‍👩‍👧 and flags 🇩🇪, maths ∑∫≠ ½ ² ™, zero\u200bwidth, soft\u00adhyphen, \ttabs\nand\r\nlines",
    "[CLS] [SEP] [MASK] [PAD] [UNK] are written out, and ##pieces too",
    "control \u0000\u0001\ufffd characters, a private \ue000 one and an \U0001f9ff outside of the plane",
    "x" * 120 + " a word that is too long for a piece",
]


def texts(count):
    rng = random.Random(7)
    root = Path(__file__).resolve().parents[2]
    words = " ".join((root / name).read_text() for name in ("LICENSE", "docs/glossary.md")).split()
    out = list(SCRIPTS)
    while len(out) < count:
        n, start = min(1 + int(rng.expovariate(1 / 60)), 600), rng.randrange(len(words))
        out.append(" ".join((words * 2)[start : start + n]))
    return out


def main(folder, target, count):
    torch.set_num_threads(1)
    model = SentenceTransformer(folder, device="cpu")
    cases = []
    for text in texts(count):
        vector = model.encode(text, normalize_embeddings=True)
        ids = model.tokenizer(text, truncation=True, max_length=model.max_seq_length)["input_ids"]
        cases.append(dict(text=text, ids=ids, vector=base64.b64encode(vector.tobytes()).decode()))
    with gzip.GzipFile(Path(target) / "minilm.json.gz", "wb", mtime=0) as f:
        f.write(json.dumps(dict(cases=cases), ensure_ascii=True).encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 100)
