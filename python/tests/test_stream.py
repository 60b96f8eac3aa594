"""Tests of stream without the engine."""

import gc
import itertools
import os
import pathlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import quire
import quire._stream

pytestmark = pytest.mark.usefixtures("fake")


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exit codes of processes that were told to end."""
    codes: list[int] = []
    really: Callable[[subprocess.Popen[str]], None] = quire._stream.stop

    def stop(process: subprocess.Popen[str]) -> None:
        really(process)
        codes.append(process.returncode)

    monkeypatch.setattr(quire._stream, "stop", stop)
    return codes


def test_rows() -> None:
    rows = list(quire.stream([{"id": "x", "prompt": "a"}, {"id": "y", "prompt": "b"}], model="m", n=2, max_tokens=3))
    assert [(r["id"], r["prompt"], r["generation"], r["text"]) for r in rows] == [
        ("x", "a", 0, "a 0"),
        ("x", "a", 1, "a 1"),
        ("y", "b", 0, "b 0"),
        ("y", "b", 1, "b 1"),
    ]
    args = rows[0]["args"]
    assert "--max-tokens=3" in args and args[args.index("--output") + 1] == "-"


def test_lazy() -> None:
    got: list[str] = []

    def prompts() -> Iterator[quire.Row]:
        yield "a"
        while len(got) < 2:  # a prompt that depends on completions of the one before
            time.sleep(0.01)
        yield {"prompt": got[-1]}

    for row in quire.stream(prompts(), lazy=True, model="m", n=2):
        got.append(row["text"])
    assert got == ["a 0", "a 1", "a 1 0", "a 1 1"]


def test_lazy_prompts_that_fail(ended: list[int]) -> None:
    def prompts() -> Iterator[quire.Row]:
        yield "a"
        raise ZeroDivisionError

    rows = quire.stream(prompts(), lazy=True, model="m")
    assert next(rows)["text"] == "a 0"
    with pytest.raises(ZeroDivisionError):
        next(rows)
    with pytest.raises(TypeError, match=r"prompts\[0\] is a int"):
        list(quire.stream([1], lazy=True, model="m"))  # type: ignore[list-item]
    with pytest.raises(TypeError, match="prompts is a str"):
        quire.stream("a", lazy=True, model="m")
    for row in quire.stream(itertools.repeat("a"), lazy=True, model="m"):
        break
    del row
    gc.collect()
    assert len(ended) == 1


def test_break_ends_the_command(ended: list[int]) -> None:
    for at, row in enumerate(quire.stream(["a", "b"], model="endless")):
        if at == 5:
            break
    del row
    gc.collect()
    assert ended == [4]  # by itself, not killed


def test_exception_ends_the_command(ended: list[int]) -> None:
    before = threading.active_count()  # other libraries have threads too
    rows = quire.stream(["a", "b"], model="endless")
    with pytest.raises(ZeroDivisionError):
        for row in rows:
            row["text"] = 1 / 0
    rows.close()  # type: ignore[attr-defined]
    assert ended == [4]
    with pytest.raises(ZeroDivisionError):
        for _ in quire.stream("a", model="m", progress=lambda line: 1 / 0):
            pass
    assert len(ended) == 2
    deadline = threading.Event()
    for _ in range(100):
        if threading.active_count() <= before:
            break
        deadline.wait(0.1)
    assert threading.active_count() <= before


def test_not_started_before_it_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("QUIRE_SAMPLE", os.fspath(tmp_path / "none"))
    rows = quire.stream("a", model="m")
    with pytest.raises(quire.QuireError, match="there is no such file"):
        next(rows)


def test_errors() -> None:
    with pytest.raises(quire.UsageError, match="did you mean --max-tokens"):
        next(quire.stream("a", model="unknown-flag"))
    with pytest.raises(TypeError, match="output is no flag of stream"):
        quire.stream("a", model="m", output="out")
    with pytest.raises(TypeError, match="shard is no flag"):
        quire.stream("a", model="m", shard="0/2")
    got = []
    with pytest.raises(quire.QuireError, match="^the device is gone$"):
        for row in quire.stream(["a", "b"], model="fails-later"):
            got.append(row["text"])
    assert got == ["a 0"]


def test_warnings() -> None:
    with pytest.warns(quire.QuireWarning, match="temprature"):
        list(quire.stream("a", model="warns"))
    with pytest.warns(quire.RowErrors):
        assert len(list(quire.stream("a", model="partial"))) == 1


def test_progress(capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    list(quire.stream("a", model="m", progress=lines.append))
    assert lines == ["opening m"]
    list(quire.stream("a", model="m"))
    assert capfd.readouterr().err == ""
