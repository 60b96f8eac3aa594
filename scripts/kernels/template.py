"""Turns a Pallas kernel lowered for a TPU into a payload whose sizes are left open.

The body of a Mosaic kernel is MLIR bytecode. It holds the sizes of its operands (pages, sequences, pages a sequence,
blocks of tokens) in a few places, as integers of the bytecode. `make` finds these places: it lowers the kernel for
large distinctive sizes, then for others, and looks where the bytes differ. A payload is then the body, and a list of
places with what belongs there. It is checked before it is written: for small sizes, which also occur elsewhere in the
body, the filled-in body must parse to the very text of a body that was lowered for them.

File: one line of JSON (see `make`), a newline, and the body. Files may be put one behind another.
"""
import base64
import contextlib
import hashlib
import json
import os
import re

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jaxlib
from jax._src.interpreters import mlir
from jax._src.lib import tpu
from jax._src.mesh import AbstractDevice
from jaxlib.mlir import ir

# A body names its source files by their packages, so that it does not depend on where these are installed.
jax.config.update("jax_hlo_source_file_canonicalization_regex", r".*/(?=(jax|tpu_inference)/)")

FORMAT = 1

VARINT_BYTES = 3
LARGEST = (1 << (7 * VARINT_BYTES - 1)) - 1

@contextlib.contextmanager
def tpu_target():
    """Lowers for a TPU on a machine that has none. The body is the same for v4, v5e, v5p, v6e and 7x."""
    device = AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), (), abstract_device=device)):
        yield


def lower(fn, operands, count):
    """Returns the custom calls of fn's count kernels, in the order of its program: for each the backend config without
    the body, body, operand and result types."""
    with tpu_target():
        jax.clear_caches()
        text = jax.jit(fn).trace(*operands).lower(lowering_platforms=("tpu",)).as_text()
    calls = [line for line in text.splitlines() if "@tpu_custom_call" in line]
    if len(calls) != count:
        raise SystemExit(f"{count} kernels were expected and {len(calls)} were lowered")
    lowered = []
    for call in calls:
        quoted = re.search(r'backend_config = "((?:[^"\\]|\\.)*)"', call).group(1)
        config = json.loads(re.sub(r"\\([0-9A-Fa-f]{2})", lambda m: chr(int(m.group(1), 16)), quoted))
        body = base64.b64decode(config["custom_call_config"].pop("body"))
        lowered.append({"config": config, "body": body, "call": call})
    return lowered


def text_of(body):
    ctx = mlir.make_ir_context()
    tpu.register_dialect(ctx)
    ctx.allow_unregistered_dialects = True
    with ctx:
        return str(ir.Module.parse(body))


def varint(value, width=VARINT_BYTES):
    """MLIR bytecode's signed integer, always in width bytes: readers take the long form of a small one too."""
    zigzag = value << 1
    if zigzag >> (7 * width):
        raise ValueError(f"{value} is too large for {width} bytes")
    return ((zigzag << width) | (1 << (width - 1))).to_bytes(width, "little")


def fixed(value):
    return value.to_bytes(8, "little")


ENCODINGS = {"varint": varint, "varint2": lambda v: varint(v, 2), "varint4": lambda v: varint(v, 4), "int64": fixed}


def value_of(expression, sizes):
    """expression is how a body contains a size: (symbol, times, plus). N is S * PP, for a page table in one axis."""
    symbol, times, plus = expression
    return (sizes["S"] * sizes["PP"] if symbol == "N" else sizes[symbol]) * times + plus


def places(expressions, base, other, base_sizes, other_sizes):
    """Lists where sizes stand, and fails if bytes differ elsewhere."""
    if len(base) != len(other):
        raise SystemExit("the body's length depends on the sizes")
    found, explained = {}, set()
    for encoding, encode in ENCODINGS.items():
        for expression in expressions:
            try:
                was, now = encode(value_of(expression, base_sizes)), encode(value_of(expression, other_sizes))
            except ValueError:
                continue
            at = base.find(was)
            while at >= 0:
                if other[at:at + len(now)] == now:
                    patch = {"at": at, "encoding": encoding, "symbol": expression[0], "plus": expression[2]}
                    if expression[1] != 1:
                        patch["times"] = expression[1]
                    if found.setdefault(at, patch) != patch:
                        raise SystemExit(f"the place {at} may hold {found[at]} or {patch}")
                    explained.update(range(at, at + len(now)))
                at = base.find(was, at + 1)
    unexplained = [i for i in range(len(base)) if base[i] != other[i] and i not in explained]
    if unexplained or {patch["symbol"] for patch in found.values()} < {symbol for symbol, _, _ in expressions}:
        raise SystemExit(f"the body depends on sizes in a way that is not understood, at bytes {unexplained[:10]}")
    return list(found.values())


def fill(body, patches, sizes):
    out = bytearray(body)
    for p in patches:
        value = ENCODINGS[p["encoding"]](value_of((p["symbol"], p.get("times", 1), p["plus"]), sizes))
        out[p["at"]:p["at"] + len(value)] = value
    return bytes(out)


def make(header, lower_for, samples, base_sizes, other_sizes, expressions):
    """Makes a payload. lower_for(sizes) lowers the kernel. base_sizes are sizes that occur nowhere else in a body,
    other_sizes a second value for each; samples are sizes that the payload is checked with.

    header: kernel, source, config (what the payload is for), blocks, operands, results (all sizes symbolic).
    """
    base = lower_for(base_sizes)
    patches = places(expressions, base["body"], lower_for(other_sizes)["body"], base_sizes, other_sizes)
    checks = []
    for sizes in samples:
        real = lower_for(sizes)
        filled = fill(base["body"], patches, sizes)
        if text_of(filled) != text_of(real["body"]) or base["config"] != real["config"]:
            raise SystemExit(f"the payload filled in for {sizes} is not what the kernel lowers to")
        checks.append({"sizes": sizes, "sha256": hashlib.sha256(filled).hexdigest()})
    version = re.search(r"stable_mosaic.version = (\d+)", text_of(base["body"])).group(1)
    return {
        "format": FORMAT, **header, "largest": LARGEST,
        "versions": {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "mosaic": version},
        "backend_config": base["config"], "patches": patches, "checks": checks, "body_bytes": len(base["body"]),
        "body_sha256": hashlib.sha256(base["body"]).hexdigest(),
    }, base["body"]


def encode(header, body):
    line = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    return line + b"\n" + body


def name_of(header):
    c, b = header["config"], header["blocks"]
    parts = [header["kernel"], f"h{c['heads']}x{c['kv_heads']}x{c['head_dim']}", f"p{c['page_size']}", c["dtype"]]
    if c["kv_dtype"] != c["dtype"]:
        parts.append(c["kv_dtype"])
    if c["window"]:
        parts.append(f"w{c['window']}")
    if c["soft_cap"]:
        parts.append(f"c{c['soft_cap']:g}")
    if c.get("sinks"):
        parts.append("sinks")
    parts += [f"q{b['queries']}", f"k{b['pages']}"]
    key = hashlib.sha256(json.dumps([c, b], sort_keys=True).encode()).hexdigest()[:8]
    return "-".join(parts + [key]) + ".payload"
