"""The model class of scripts/lm_eval_quire, without lm_eval and transformers."""

import importlib
import json
import pathlib
import sys
import types

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def quire_lm(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    def module(name: str, **members: object) -> None:
        stand_in = types.ModuleType(name)
        for key, value in members.items():
            setattr(stand_in, key, value)
        monkeypatch.setitem(sys.modules, name, stand_in)

    module("lm_eval")
    module("lm_eval.api")
    module("lm_eval.api.model", TemplateLM=type("TemplateLM", (), {}))
    module("lm_eval.api.registry", register_model=lambda _: lambda of: of)
    module("lm_eval.utils", get_rolling_token_windows=None, make_disjoint_window=None)
    module("transformers", AutoTokenizer=None)
    folder = pathlib.Path(__file__).parents[2] / "scripts" / "lm_eval_quire"
    if not folder.is_dir():
        pytest.skip("the tests are not in a checkout, which has the scripts")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "quire_lm", raising=False)
    loaded = importlib.import_module("quire_lm")
    monkeypatch.delitem(sys.modules, "quire_lm")
    return loaded


@pytest.mark.parametrize(
    ("gen_kwargs", "body"),
    [
        ({}, {"stop": [], "max_tokens": 256, "temperature": 0.0}),
        ({"until": "\n", "max_gen_toks": 7}, {"stop": ["\n"], "max_tokens": 7, "temperature": 0.0}),
        ({"do_sample": True, "top_k": 1}, {"stop": [], "max_tokens": 256, "temperature": 1.0, "top_k": 1}),
        ({"temperature": 0.5}, {"stop": [], "max_tokens": 256, "temperature": 0.5}),
        ({"do_sample": False, "temperature": 0.5}, {"stop": [], "max_tokens": 256, "temperature": 0.0}),
        (
            {"repetition_penalty": 1.9, "no_repeat_ngram_size": 3},
            {"stop": [], "max_tokens": 256, "temperature": 0.0, "repetition_penalty": 1.9, "no_repeat_ngram_size": 3},
        ),
    ],
)
def test_gen_kwargs(quire_lm: types.ModuleType, gen_kwargs: dict[str, object], body: dict[str, object]) -> None:
    assert quire_lm.parameters(gen_kwargs) == body


def test_rows(quire_lm: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is a line of a batch file, and its text comes back at its place."""
    seen = []

    def run(command: list[str], **_: object) -> types.SimpleNamespace:
        rows, out = (pathlib.Path(command[command.index(flag) + 1]) for flag in ("-i", "-o"))
        lines = [json.loads(line) for line in rows.read_text().splitlines()]
        seen.extend(lines)
        out.mkdir()
        texts = [f"text {line['custom_id']}" for line in lines]
        pq.write_table(pa.table({"text": texts, "error": [None] * len(lines)}), out / "part-00000.parquet")
        return types.SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(quire_lm.subprocess, "run", run)
    model = quire_lm.QuireLM.__new__(quire_lm.QuireLM)
    model.model, model.sample, model.dtype, model.options, model.max_length = "m", "sample", "float32", "", 64
    model.tok_encode = lambda text: [len(text)]
    model.cache_hook = types.SimpleNamespace(add_partial=lambda *_: None)
    requests = [types.SimpleNamespace(args=(text, {"top_k": 3})) for text in ("a", "bcd")]
    assert model.generate_until(requests) == ["text 0", "text 1"]
    assert [line["body"] for line in seen] == [
        {"top_k": 3, "stop": [], "max_tokens": 256, "temperature": 0.0, "prompt": [n]} for n in (1, 3)
    ]
    assert {(line["method"], line["url"]) for line in seen} == {("POST", "/v1/completions")}
