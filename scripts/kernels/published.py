"""Runs the tests that come with tpu-inference's kernels on a CPU: the kernels are interpreted, with our changes.

    python published.py [PATTERN ...]

Names of tests have to match one of the patterns, as in 'sliding_window*'; all run if none is given. A line for each
tells what became of it, and the exit code is 1 if any failed. The package has the tests' files; they need absl-py.
"""
import fnmatch
import pathlib
import sys
import time
import types
import unittest

from jax._src import test_util
from jax.experimental.pallas import tpu as pltpu

import tpu_inference_rpa as rpa
from interpret import interpreted

CHIP, VMEM = 5, 128 << 20  # of a v5e, for which kernels have the arithmetic of the payloads
PREFIX = "test_ragged_paged_attention_"
FILES = {128: "ragged_paged_attention_kernel_v3_test.py", 64: "ragged_paged_attention_kernel_v3_hd64_test.py"}


def tests(head_dim):
    """The tests of a kernel, by name."""
    kernel = rpa.kernel({"head_dim": head_dim})
    for name in (kernel.__name__, f"{rpa.FOLDER}.tuned_block_sizes_hd64"):  # which choose blocks by the chip
        sys.modules[name].get_tpu_version = lambda: CHIP
    site = next(path for path in pathlib.Path(kernel.__spec__.origin).parents if (path / "tests" / "kernels").is_dir())
    file = site / "tests" / "kernels" / FILES[head_dim]
    module = types.ModuleType(file.stem)
    sys.modules[file.stem] = module
    exec(compile(file.read_text(), file, "exec"), module.__dict__)
    for test in unittest.defaultTestLoader.loadTestsFromModule(module):
        for one in test:
            yield f"{head_dim}: {one._testMethodName.removeprefix(PREFIX)}", one


def main():
    patterns = sys.argv[1:] or ["*"]
    test_util.is_device_tpu_at_least = lambda version: True
    pltpu.get_tpu_info = lambda: types.SimpleNamespace(vmem_capacity_bytes=VMEM)
    failed = 0
    for head_dim in FILES:
        for name, test in tests(head_dim):
            if not any(fnmatch.fnmatch(name.split(": ")[1], pattern) for pattern in patterns):
                continue
            began, result = time.monotonic(), unittest.TestResult()
            with interpreted():
                test.run(result)
            bad = result.failures + result.errors
            failed += bool(bad)
            why = bad[0][1].strip().splitlines()[-1] if bad else "; ".join(reason for _, reason in result.skipped)
            print(f"{name}: {'failed' if bad else 'skipped' if result.skipped else 'passed'}", why,
                  f"{time.monotonic() - began:.0f} s", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
