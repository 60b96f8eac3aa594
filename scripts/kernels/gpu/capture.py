"""Lowers the Triton kernels of this folder to the IR that Quire hands to XLA:GPU, for every size of block that it
takes.

    python capture.py --ptxas PATH | zstd --ultra -22 --long=23 -o ../../../backend/xla/triton/kernels.zst

Neither a GPU nor CUDA is needed, but for the assembler, with which each kernel is assembled for A100 and H100: one that
spills more than a few registers, or takes more shared memory than a GPU has, ends the script. A kernel is a line of
JSON, then its lines of IR. What is not the shape of a block is an argument of the kernel there; Quire puts constants in
the arguments' place.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import paged_attention

POINTERS = {"q", "cache", "table", "seqs", "positions", "sinks", "out", "maxima", "totals", "parts"}
FLOATS = {"scale", "soft_cap"}
HEAD_DIMS = [16, 32, 64, 128, 256, 512]
# bytes of registers that a kernel may spill: kernels for prompts with a head_dim of 256 spill 436 on A100, most none
SPILLED = 512
SHARED = 99 << 10  # bytes that a block may have on the smallest of the GPUs


def variants():
    for dtype in ["bf16", "fp16", "fp32"]:
        for d in HEAD_DIMS:
            n = max(min(64, 8192 // d) // (2 if dtype == "fp32" else 1), 16)
            m = 16 if dtype == "fp32" else {256: 64, 512: 32}.get(d, 128)
            decode = dict(M=16, N=n, D=d, FORM="decode")
            prefill = dict(M=m, N=2 * n if m == 32 else n, D=d, FORM="prefill", SPLIT=False)
            warps = 8 if m in [32, 128] else 4
            yield "combine", dict(D=d), dtype, 1, 4
            for cap in [False, True]:
                for split in [False, True]:
                    yield "attend", decode | dict(SPLIT=split, CAP=cap), dtype, 3, 4
                yield "attend", prefill | dict(CAP=cap), dtype, 3, warps
            # No model has sinks and a soft cap. If a context is split, combine has the sinks.
            yield "combine", dict(D=d, SINK=True), dtype, 1, 4
            yield "attend", decode | dict(SPLIT=False, CAP=False, SINK=True), dtype, 3, 4
            yield "attend", prefill | dict(CAP=False, SINK=True), dtype, 3, warps
    # Latents of 512 numbers and rotated keys of 64, for decode tokens and prompts; 576 numbers to combine.
    for dtype in ["bf16", "fp16", "fp32"]:
        yield "combine", dict(D=1024), dtype, 1, 4
        for split in [False, True]:
            m, warps = (16, 4) if dtype == "fp32" else (32, 8)
            yield "attend", dict(M=m, N=m, D=512, REST=64, SPLIT=split, CAP=False, FORM="latent"), dtype, 3, warps


def lower(kernel, constants, dtype, stages, warps, target):
    fn = getattr(paged_attention, kernel)
    sink = constants.get("SINK", False)
    constants = {k: v for k, v in constants.items() if k in fn.arg_names}
    if not sink:
        constants["sinks"] = None
    if kernel == "attend":
        constants.setdefault("REST", 0)
        constants["PRECISION"] = "ieee" if dtype == "fp32" else "tf32"
    kinds = {
        "q": dtype, "cache": dtype, "table": "i32", "seqs": "i32", "positions": "i32",
        "out": "fp32" if constants.get("SPLIT") else dtype}
    signature, attributes = {}, {}
    for i, name in enumerate(fn.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name in POINTERS:
            signature[name] = "*" + kinds.get(name, "fp32")
            attributes[(i,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "fp32" if name in FLOATS else "i32"
    return triton.compile(
        ASTSource(fn, signature, constants, attributes), target=GPUTarget("cuda", target, 32),
        options={"num_stages": stages, "num_warps": warps})


def text_of(ir):
    """The function alone, without places in the source."""
    ir = re.sub(r"^#loc.*\n", "", ir, flags=re.M)
    return re.sub(r' loc\((?:#loc\d*|unknown|"[^"]*")\)', "", ir)


def without_unused(text, kernel):
    """Leaves out pointers that are not used: a call's operands and results are all the kernel's pointers."""
    for name in POINTERS:
        if re.search(rf"%{name}\b", text) and len(re.findall(rf"%{name}\b", text)) == 1:
            text = re.sub(rf",? ?%{name}: !tt\.ptr<\w+> {{[^}}]*}}", "", text, count=1)
    return text


def filled(text, values):
    """As triton.Call does it in Go."""
    for name in values:
        text = re.sub(rf", %{name}: [if]32", "", text, count=1)
    lines = "".join(
        f"    %{n} = arith.constant {v} : i32\n" if isinstance(v, int) else f"    %{n} = arith.constant {v:.9e} : f32\n"
        for n, v in values.items())
    return text.replace("{noinline = false} {\n", "{noinline = false} {\n" + lines, 1)


def assemble(text, stages, warps, ptxas, target):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ttir")
        with open(path, "w") as f:
            f.write(text)
        done = triton.compile(
            path, target=GPUTarget("cuda", target, 32), options={"num_stages": stages, "num_warps": warps})
        ptx = os.path.join(folder, "kernel.ptx")
        with open(ptx, "w") as f:
            f.write(done.asm["ptx"])
        said = subprocess.run(
            [ptxas, "-v", f"-arch=sm_{target}" + ("a" if target >= 90 else ""), ptx, "-o", "/dev/null"],
            capture_output=True, text=True, check=True).stderr
        registers = int(re.search(r"Used (\d+) registers", said).group(1))
        spilled = sum(map(int, re.findall(r"(\d+) bytes spill", said)))
        return dict(
            registers=registers, spilled=spilled, shared=done.metadata.shared, copies="cp.async" in done.asm["ptx"])


def sample_values(kernel, head_dim, rows, form):
    group = min(rows, 4)
    v = dict(heads=8 * group, head_dim=head_dim, window=2**30, chunk=1024, splits=8)
    if kernel == "attend":
        queries = rows // group if form == "prefill" else 1
        if form == "latent":
            v.update(head_dim=576)
        v.update(
            tokens=256, kv_heads=8, group=group, group_rows=group, queries=queries, page_size=16, pages_per_seq=512,
            scale=0.125, soft_cap=30.0)
    return v


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ptxas", required=True)
    p.add_argument("--only", default="", help="a part of a kernel's header")
    a = p.parse_args()
    bad = 0
    for kernel, constants, dtype, stages, warps in variants():
        header = dict(kernel=kernel, form=constants.pop("FORM", ""), dtype=dtype, d=constants["D"],
                      m=constants.get("M", 0), n=constants.get("N", 0), split=constants.get("SPLIT", False),
                      cap=constants.get("CAP", False), warps=warps, stages=stages, triton=triton.__version__)
        if constants.get("SINK"):
            header["sink"] = True
        if constants.get("REST"):
            header["rest"] = constants["REST"]
        if a.only not in json.dumps(header, separators=(",", ":")):
            continue
        text = without_unused(text_of(lower(kernel, constants, dtype, stages, warps, 90).asm["ttir"]), kernel)
        for target in [80, 90]:
            cost = assemble(
                filled(text, sample_values(kernel, header["d"], header["m"], header["form"])), stages, warps, a.ptxas,
                target)
            print(f"sm_{target}", {k: v for k, v in header.items() if k != "triton"}, cost, file=sys.stderr, flush=True)
            bad += cost["spilled"] > SPILLED or cost["shared"] > SHARED
        print(json.dumps(header, separators=(",", ":")))
        print(text.rstrip() + "\n")
    if bad:
        raise SystemExit(f"{bad} kernels spill registers or take more shared memory than a GPU has")


if __name__ == "__main__":
    main()
