"""Writes text/grammar/testdata/llguidance.json: which bytes llguidance allows next, on random walks through schemas.

    python -m venv .venv-grammar && .venv-grammar/bin/pip install llguidance
    .venv-grammar/bin/python scripts/grammar/masks.py > text/grammar/testdata/llguidance.json
"""

import json
import random
import sys

import llguidance
import llguidance.numpy as masks

SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}, "required": ["a"],
     "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "null"}, "b": {"enum": ["x", "yz", None]}, "c": {"type": "null"}},
     "required": ["c"], "additionalProperties": False},
    {"type": "array", "items": {"type": "integer", "minimum": 7, "maximum": 1203}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "boolean"}, {"const": "k"}], "items": {"type": "null"}, "minItems": 1},
    {"type": "integer", "minimum": -12, "exclusiveMaximum": 57},
    {"type": "string", "enum": ["alpha", "alps", "be", "bet"]},
    {"type": "string", "pattern": "^[a-c]+(-[0-9]{2,3})?$"},
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "ipv4"},
    {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"k": {"const": "one"}}, "required": ["k"],
                                  "additionalProperties": False}]},
    {"type": "object", "properties": {"v": {"type": "null"}, "next": {"$ref": "#"}}, "required": ["v"],
     "additionalProperties": False},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
               {"properties": {"a": {"maximum": 30, "minimum": 2}}}], "additionalProperties": False,
     "properties": {"a": {}}},
]
WALKS, LONGEST = 6, 60


def ranges(allowed):
    """Bytes as pairs of hexadecimal digits, with a hyphen between the first and the last of several."""
    parts, start = [], None
    for c in range(257):
        is_in = c < 256 and c in allowed
        if is_in and start is None:
            start = c
        if not is_in and start is not None:
            parts.append(f"{start:02x}" if start == c - 1 else f"{start:02x}-{c - 1:02x}")
            start = None
    return " ".join(parts)


def main():
    tokenizer = llguidance.LLTokenizer("byte")
    draw = random.Random(1)
    out = []
    for schema in SCHEMAS:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)
        walks = []
        for _ in range(WALKS):
            matcher = llguidance.LLMatcher(tokenizer, grammar)
            if matcher.is_error():
                sys.exit(f"{schema}: {matcher.get_error()}")
            text, seen = bytearray(), []
            while len(text) < LONGEST:
                words = masks.allocate_token_bitmask(1, tokenizer.vocab_size)
                masks.fill_next_token_bitmask(matcher, words, 0)
                bits = {t for t in range(tokenizer.vocab_size) if words[0, t // 32] >> (t % 32) & 1}
                allowed = {t for t in bits if t < 256}
                seen.append(ranges(allowed) + (" end" if matcher.is_accepting() else ""))
                can = [c for c in allowed if c not in b"\\\x7f" and c < 0x80]
                calm = [c for c in can if c not in b" \n\r\t"]
                if calm and draw.random() < 0.9:
                    can = calm
                if not can or matcher.is_accepting() and draw.random() < 0.3:
                    break
                c = draw.choice(sorted(can))
                text.append(c)
                matcher.consume_token(c)
            walks.append({"text": text.decode(), "masks": seen})
        out.append({"schema": schema, "walks": walks})
    json.dump(out, sys.stdout, indent=0, ensure_ascii=True)
    print()


main()
