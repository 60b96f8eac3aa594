"""Tests of quire.classify and quire.rerank with a stand-in for the command, and with the real one."""

import os
import pathlib

import pyarrow as pa
import pytest

import quire

CLASSIFIERS = pathlib.Path(__file__).parents[2] / "testdata" / "classifiers"


@pytest.mark.usefixtures("fake")
def test_arguments() -> None:
    table = quire.classify(["a", "bcd"], model="m", progress=False, score_function="none")
    args = table["args"].to_pylist()[0]
    assert args[:3] == ["classify", "--model", "m"] and "--score-function=none" in args
    assert table.schema.field("scores").type.list_size == 2
    table = quire.rerank([{"query": "q", "documents": ["a", "b"]}], model="m", progress=False, top_n=1)
    args = table["args"].to_pylist()[0]
    assert args[:3] == ["rerank", "--model", "m"] and "--top-n=1" in args
    assert table["documents"].to_pylist() == [["a", "b"]]


@pytest.mark.skipif(not os.environ.get("QUIRE_SAMPLE"), reason="QUIRE_SAMPLE names no command")
def test_real_scores() -> None:
    table = quire.classify(["the movie is good", "bad"], model=CLASSIFIERS / "bert", progress=False)
    assert table["label"].to_pylist() == ["positive", "positive"]
    assert pa.types.is_fixed_size_list(table.schema.field("scores").type)
    table = quire.classify(["the movie is good"], model=CLASSIFIERS / "bert-tokens", progress=False)
    assert [table[c].to_pylist() for c in ("labels", "starts", "ends")] == [[["LOC"]], [[4]], [[12]]]
    rows = [{"query": "is the sky good", "documents": ["the sky is not bad", "the movie is good"]}]
    table = quire.rerank(rows, model=CLASSIFIERS / "bert-reranker", progress=False, top_n=1)
    assert table["ranking"].to_pylist() == [[0]]
    assert [round(x, 1) for x in table["scores"].to_pylist()[0]] == [0.2, 0.1]
