"""Tests of quire.embed with a stand-in for the command, and with the real one."""

import pathlib

import numpy as np
import pyarrow as pa
import pytest

import quire


@pytest.mark.usefixtures("fake")
def test_vectors_have_a_fixed_length() -> None:
    table = quire.embed(["a", "bcd", "e"], model="m", progress=False, prompt_name="query", normalize="on")
    assert table.schema.field("embedding").type.list_size == 2
    args = table["args"].to_pylist()[0]
    assert args[:3] == ["embed", "--model", "m"]
    assert "--prompt-name=query" in args and "--normalize=on" in args
    vectors = table["embedding"].combine_chunks()
    numbers = vectors.flatten()
    matrix = numbers.to_numpy(zero_copy_only=True).reshape(len(vectors), -1)
    assert matrix.shape == (3, 2)
    assert matrix.tolist() == [[3.0, 0.5], [5.0, 0.5], [3.0, 0.5]]


@pytest.mark.usefixtures("fake")
def test_rows_without_a_vector() -> None:
    with pytest.warns(quire.RowErrors):
        table = quire.embed(["a", "b"], model="partial", progress=False)
    assert table.schema.field("embedding").type.list_size == 2
    assert table["embedding"].to_pylist() == [None, [3.0, 0.5]]


@pytest.mark.usefixtures("fake")
def test_flags_that_are_not_its_own() -> None:
    for name in ("task", "format", "input"):
        with pytest.raises(TypeError, match=name):
            quire.embed("a", model="m", progress=False, **{name: "x"})


def test_real_vectors(encoder: str, tmp_path: pathlib.Path) -> None:
    texts = ["The sky is blue.", "", "Ein Satz.", "x " * 1000]
    table = quire.embed(texts, model=encoder, output=tmp_path / "out", progress=False)
    assert pa.types.is_fixed_size_list(table.schema.field("embedding").type)
    assert table["truncated"].to_pylist() == [False, False, False, True]
    vectors = table["embedding"].combine_chunks()
    matrix = vectors.flatten().to_numpy(zero_copy_only=True).reshape(len(texts), -1)
    assert np.allclose(np.linalg.norm(matrix, axis=1), 1, atol=1e-5)
    alone = quire.embed(texts[2:3], model=encoder, progress=False)["embedding"].to_pylist()
    assert alone == table["embedding"].to_pylist()[2:3]
