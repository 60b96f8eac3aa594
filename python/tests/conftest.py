import os
import pathlib
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Iterator[None]:
    """Puts fake_sample.py in the place of the command."""
    script = tmp_path / "sample"
    script.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{pathlib.Path(__file__).with_name("fake_sample.py")}" "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("QUIRE_SAMPLE", str(script))
    yield


@pytest.fixture(scope="session")
def encoder() -> str:
    """The encoder of tests with the real command, which run where QUIRE_TEST_ENCODER names one."""
    name = os.environ.get("QUIRE_TEST_ENCODER")
    if not name:
        pytest.skip("QUIRE_TEST_ENCODER names no model, such as minilm")
    return name


@pytest.fixture(scope="session")
def model() -> str:
    """The model of tests with the real command, which run where QUIRE_TEST_MODEL names one."""
    name = os.environ.get("QUIRE_TEST_MODEL")
    if not name:
        pytest.skip("QUIRE_TEST_MODEL names no model, such as smollm2")
    return name
