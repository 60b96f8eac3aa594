"""Write which characters of texts the tokens of Unigram tokenizers stand for, by Hugging Face tokenizers: a checksum of
the offsets of each fourth text of the corpus.

    python span_goldens.py ../../text/tokenizer/testdata

spans.bin.gz has, for each tokenizer below, a CRC-32 (little-endian) of each text's offsets as pairs of 32-bit integers.
"""

import gzip
import struct
import sys
import zlib
from pathlib import Path

from tokenizers import Tokenizer

FOLDERS = ["xlm-r"]


def main(target):
    data = gzip.decompress((target / "corpus.bin.gz").read_bytes())
    texts = []
    while data:
        n = struct.unpack_from("<I", data)[0]
        texts.append(data[4 : 4 + n])
        data = data[4 + n :]
    sums = b""
    for name in FOLDERS:
        tokenizer = Tokenizer.from_file(str(target / name / "tokenizer.json"))
        for text in texts[::4]:
            try:
                offsets = [x for pair in tokenizer.encode(text.decode()).offsets for x in pair]
            except UnicodeDecodeError:
                offsets = []
            sums += struct.pack("<I", zlib.crc32(struct.pack(f"<{len(offsets)}I", *offsets)))
    with gzip.GzipFile(target / "spans.bin.gz", "wb", mtime=0) as f:
        f.write(sums)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
