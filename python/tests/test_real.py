"""Tests with the real command and a model: QUIRE_TEST_MODEL=smollm2."""

import pathlib
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import quire


def test_real(model: str, tmp_path: pathlib.Path) -> None:
    rows = pa.table({"id": ["sky", "sea"], "prompt": ["The sky is", "The sea is"], "topic": ["air", "water"]})
    lines: list[str] = []
    flags: dict[str, Any] = {"n": 2, "max_tokens": 8, "seed": 1}
    table = quire.generate(rows, model=model, output=tmp_path / "out", progress=lines.append, **flags)
    assert table["id"].to_pylist() == ["sky", "sky", "sea", "sea"]
    assert table["topic"].to_pylist() == ["air", "air", "water", "water"]
    assert all(1 <= n <= 8 for n in table["completion_tokens"].to_pylist())
    assert any(line.startswith("progress: 2/2 rows") for line in lines)
    # The same call goes on with the job, which is finished.
    again = quire.generate(rows, model=model, output=tmp_path / "out", progress=False, **flags)
    assert again.equals(table)
    # A row of another call has the same completions: they depend on its id and the seed.
    alone = quire.generate(rows.slice(1), model=model, progress=False, **flags)
    assert alone["text"].to_pylist() == table["text"].to_pylist()[2:]
    with pytest.raises(quire.QuireError, match=r"another job:\n  seed"):
        quire.generate(rows, model=model, output=tmp_path / "out", progress=False, n=2, max_tokens=8, seed=2)


def test_real_stream(model: str, tmp_path: pathlib.Path) -> None:
    rows = [{"id": "sky", "prompt": "The sky is"}, {"id": "sea", "prompt": "The sea is", "topic": "water"}]
    flags: dict[str, Any] = {"n": 2, "max_tokens": 8, "seed": 1}
    table = quire.generate(rows, model=model, output=tmp_path / "out", progress=False, **flags)
    got = list(quire.stream(rows, model=model, in_order=True, **flags))
    assert [list(row) for row in got] == [table.column_names] * 4
    for name in ("id", "topic", "generation", "text", "token_ids", "finish_reason"):
        assert [row[name] for row in got] == table[name].to_pylist()
    assert next(quire.stream(rows, model=model, **flags))["id"] in ("sky", "sea")
    assert quire.read(tmp_path / "out", partial=True).equals(table)


def test_real_errors(model: str) -> None:
    with pytest.raises(quire.UsageError, match="did you mean --max-tokens"):
        quire.generate("a", model=model, max_token=8, progress=False)
    with pytest.warns(quire.RowErrors):
        table = quire.generate([{"prompt": "a", "temperature": -1.0}], model=model, max_tokens=1, progress=False)
    assert "temperature" in table["error"].to_pylist()[0]


def test_module_is_the_command() -> None:
    try:
        quire.find_sample()
    except quire.QuireError:
        pytest.skip("no sample")
    out = subprocess.run(
        [sys.executable, "-m", "quire", "version", "--short"], capture_output=True, text=True, check=True
    )
    assert out.stdout.startswith("sample ")
