"""Tests of scripts/rl with the real command, where torch and transformers are installed and QUIRE_SAMPLE names it.

scripts/nightly.sh runs them.
"""

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

import quire

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts" / "rl"
MODEL = ROOT / "testdata" / "models" / "qwen2"
SIZES: dict[str, Any] = {"max_seqs": 64, "max_model_len": 64, "kv_memory": "4MiB"}


@pytest.fixture(scope="module", autouse=True)
def ready() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    if not os.environ.get("QUIRE_SAMPLE"):
        pytest.skip("QUIRE_SAMPLE does not name the command sample")
    sys.path.insert(0, str(SCRIPTS))


@pytest.mark.parametrize("within, more", [("1e-5", []), ("2e-5", ["--temperature", "0.7"])])
def test_logprobs(within: str, more: list[str], tmp_path: pathlib.Path) -> None:
    rows = [{"id": str(i), "prompt_token_ids": list(range(3 + i, 20 + 2 * i))} for i in range(12)]
    columns = ["prompt_token_ids", "processed_logprobs"]
    quire.generate(rows, model=MODEL, output=tmp_path / "out", n=4, max_tokens=24, temperature=0.7, ignore_eos=True,
                   dtype="f32", columns=columns, progress=False, **SIZES)
    script = [sys.executable, str(SCRIPTS / "logprobs.py"), str(tmp_path / "out"), str(MODEL), "--within", within]
    script += more
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)


def test_grpo(tmp_path: pathlib.Path) -> None:
    grpo = pytest.importorskip("grpo")
    steps = list(grpo.train(MODEL, tmp_path, steps=12, seed=1, dtype="f32", **SIZES))
    rewards = [mean for mean, _, _ in steps]
    versions = [version for _, _, versions in steps for version in versions]
    print(steps)
    assert len(steps) == 12 and steps[0][1] < 1e-4, "the trainer's first log-probabilities are Quire's"
    assert len(set(versions)) > 2, "Quire took the trainer's weights"
    assert rewards[-1] > rewards[0] + 0.1
