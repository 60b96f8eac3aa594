"""Tests of the package without the engine: what it gives the command, and what it makes of its output and errors."""

import json
import os
import pathlib
import signal
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quire
import quire._command

pytestmark = pytest.mark.usefixtures("fake")


def prompts_of(table: pa.Table) -> list[object]:
    return list(table["prompt"].to_pylist())


def test_texts() -> None:
    table = quire.generate(["a", "b", "c"], model="m", n=2, progress=False)
    assert table["text"].to_pylist() == ["a 0", "a 1", "b 0", "b 1", "c 0", "c 1"]
    assert quire.generate("a", model="m", progress=False)["text"].to_pylist() == ["a 0"]
    assert quire.generate((t for t in "ab"), model="m", progress=False).num_rows == 2


def test_rows() -> None:
    rows: list[quire.Row] = [{"id": "x", "prompt": "a", "answer": 42}, {"prompt": "b", "stop": ["\n", "."]}, "c"]
    table = quire.generate(rows, model="m", progress=False)
    assert prompts_of(table) == ["a", "b", "c"]
    assert table["id"].to_pylist() == ["x", None, None]
    assert table["answer"].to_pylist() == [42, None, None]
    assert table["stop"].to_pylist() == [None, ["\n", "."], None]
    assert ".parquet" in table["args"].to_pylist()[0][-1]


@pytest.mark.parametrize(
    "rows",
    [
        [{"prompt": "a", "stop": "."}, {"prompt": "b", "stop": ["."]}],
        [{"prompt": "a", "messages": [{"role": "user"}, {"role": "tool", "name": "f"}]}],
        [{"prompt": "a", "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}],
    ],
)
def test_rows_that_columns_cannot_hold(rows: list[dict[str, object]], tmp_path: pathlib.Path) -> None:
    from quire._inputs import write

    path = write(rows, str(tmp_path))
    assert path.endswith(".jsonl")
    assert [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()] == rows


def test_surrogates(tmp_path: pathlib.Path) -> None:
    from quire._inputs import write

    path = write(["a", "b\ud800", "é"], str(tmp_path))
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    assert lines == ['{"prompt": "a"}', r'{"prompt": "b\ud800"}', '{"prompt": "é"}']
    with pytest.raises(ValueError, match="system has half a surrogate pair"):
        quire.generate(["a"], model="m", system="\ud800", progress=False)


def test_json_schema() -> None:
    schema = {"type": "object", "properties": {"z": {"type": "string"}, "a": {}}}
    args = quire.generate(["a"], model="m", json_schema=schema, choice=["x", "y"], progress=False)["args"][0].as_py()
    assert "--structured-outputs=" + json.dumps({"json": schema}) in args
    assert [a for a in args if a.startswith("--choice")] == ["--choice=x", "--choice=y"]
    args = quire.generate(["a"], model="m", json_schema="schema.json", progress=False)["args"][0].as_py()
    assert "--json-schema=schema.json" in args


def test_columns_of_texts() -> None:
    for column in (pa.array(["a", "b"]), pa.chunked_array([["a"], ["b"]])):
        assert quire.generate(column, model="m", progress=False)["text"].to_pylist() == ["a 0", "b 0"]


def test_arrow() -> None:
    table = pa.table({"prompt": pa.array(["a", "b", "c"], pa.string_view()), "k": pa.array([1, 2, 3], pa.int16())})
    want = ["a 0", "b 0", "c 0"]
    for given in (table, table.to_reader(), table.to_batches()[0], pa.chunked_array(table.to_struct_array())):
        got = quire.generate(given, model="m", progress=False)
        assert got["text"].to_pylist() == want
        assert got["k"].to_pylist() == [1, 2, 3]


def test_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt":"a"}\n')
    assert prompts_of(quire.generate(file, model="m", progress=False)) == ["a"]


def test_name_of_a_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("p.jsonl").write_text('{"prompt":"a"}\n')
    with pytest.raises(ValueError, match=r"the name of a file: give pathlib.Path\('p.jsonl'\)"):
        quire.generate("p.jsonl", model="m", progress=False)
    assert prompts_of(quire.generate(["p.jsonl"], model="m", progress=False)) == ["p.jsonl"]


def test_flags() -> None:
    table = quire.generate(
        "a",
        model="m",
        max_tokens=8,
        temperature=0.5,
        stop=["x", "y z"],
        ignore_eos=True,
        prefix_cache=None,
        tools=[{"a": 1}],
        seed=2**64 - 1,
        chat_template_kwargs={"b": False},
        progress=False,
        prompt_as="user",
        json_schema={"enum": ["yes"]},
    )
    args = table["args"].to_pylist()[0]
    for flag in (
        "--max-tokens=8",
        "--prompt-as=user",
        '--structured-outputs={"json": {"enum": ["yes"]}}',
        "--temperature=0.5",
        "--stop=x",
        "--stop=y z",
        "--ignore-eos=true",
        '--tools=[{"a": 1}]',
    ):
        assert flag in args
    assert f"--seed={2**64 - 1}" in args
    assert '--chat-template-kwargs={"b": false}' in args
    assert not any(arg.startswith("--prefix-cache") for arg in args)


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="prompts is a dict"):
        quire.generate({"prompt": "a"}, model="m")
    with pytest.raises(TypeError, match=r"prompts\[1\] is a int"):
        quire.generate(["a", 1], model="m")  # type: ignore[list-item]
    with pytest.raises(TypeError, match="prompts is a int"):
        quire.generate(1, model="m")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no rows"):
        quire.generate([], model="m")
    with pytest.raises(TypeError, match="shard is no flag"):
        quire.generate("a", model="m", shard="0/2")
    with pytest.raises(TypeError, match="seed is a object"):
        quire.generate("a", model="m", seed=object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"prompts\[0\] is no row of JSON"):
        quire.generate([{"prompt": object()}], model="m")


def test_errors() -> None:
    with pytest.raises(
        quire.UsageError, match=r"^run: unknown flag: --max-token; did you mean --max-tokens\?$"
    ) as usage:
        quire.generate("a", model="unknown-flag", progress=False)
    assert usage.value.exit_code == 2
    with pytest.raises(
        quire.QuireError, match=r"^model\.gguf: the file ends before its tensors:\nfetch it again$"
    ) as broken:
        quire.generate("a", model="broken", progress=False)
    assert broken.value.exit_code == 1
    with pytest.raises(quire.QuireError, match="ended by SIGKILL"):
        quire.generate("a", model="killed", progress=False)


def test_warnings() -> None:
    with pytest.warns(quire.QuireWarning, match="temprature") as warned:
        quire.generate("a", model="warns", progress=False)
    assert warned[0].filename == __file__
    with pytest.warns(quire.RowErrors) as warned:
        assert quire.generate("a", model="partial", progress=False).num_rows == 1
    assert warned[0].filename == __file__


def test_progress(capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    quire.generate("a", model="m", progress=lines.append)
    assert lines == ["opening m"]
    assert capfd.readouterr().err == ""
    quire.generate("a", model="m")
    assert capfd.readouterr().err == "opening m\n"
    quire.generate("a", model="m", progress=False)
    assert capfd.readouterr().err == ""


def test_ctrl_c_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    def stop(process: subprocess.Popen[str]) -> None:
        _command_stop(process)
        ended.append(process.returncode)

    _command_stop = quire._command.stop
    monkeypatch.setattr(quire._command, "stop", stop)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupt = lambda line: os.kill(os.getpid(), signal.SIGINT) if "waiting" in line else None
            quire.generate("a", model="interrupted", progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [4]  # by itself, not killed


def test_read(tmp_path: pathlib.Path) -> None:
    output = tmp_path / "out"
    table = quire.generate(["a", "b", "c"], model="m", output=output, progress=False)
    assert quire.read(output).equals(table)
    assert quire.read(str(output) + "/").equals(table)
    (output / "part-00001.parquet").unlink()
    with pytest.raises(quire.QuireError, match="has 1 of 2 parts"):
        quire.read(output)
    assert quire.read(output, partial=True)["prompt"].to_pylist() == ["a", "b"]
    with pytest.raises(quire.QuireError, match="nothing has no parts"):
        quire.read(tmp_path / "nothing")
    with pytest.raises(quire.QuireError, match="nothing: there is no such file or folder"):
        quire.read(tmp_path / "nothing", partial=True)


def test_read_partial(tmp_path: pathlib.Path) -> None:
    """Parts that are not there are taken from the journal, and those that it has more rows of."""
    output = tmp_path / "out"
    table = quire.generate(["a", "b", "c"], model="m", output=output, progress=False)
    journal = output / "_job" / "journal"
    journal.mkdir()
    (output / "part-00001.parquet").rename(journal / "part-00001.parquet")
    part, mine = output / "part-00000.parquet", journal / "part-00000.parquet"
    pq.write_table(pq.read_table(part).slice(0, 1), mine)  # the part was published since
    assert quire.read(output, partial=True).equals(table)
    part.rename(mine)
    pq.write_table(pq.read_table(mine).slice(0, 1), part)  # the job is extended
    assert quire.read(output, partial=True).equals(table)
    mine.rename(part)
    (output / "part-00000.parquet").rename(journal / "part-00000.parquet")
    assert quire.read(output, partial=True).equals(table)
    (journal / "broken").touch()
    with pytest.raises(quire.QuireError, match="the input is not what it was"):
        quire.read(output, partial=True)
    (journal / "part-00000.parquet").rename(output / "part-00000.parquet")
    with pytest.warns(quire.QuireWarning, match="no part yet was not read: the input is not what it was"):
        assert quire.read(output, partial=True).num_rows == 2


def test_output_has_the_prompts(tmp_path: pathlib.Path) -> None:
    names = set()
    for _ in range(2):
        table = quire.generate(["a"], model="m", output=tmp_path / "out", progress=False)
        names.add(table["args"].to_pylist()[0][-1])
    assert names == {str(tmp_path / "out" / "_prompts" / "prompts.parquet")}
    assert [file.name for file in (tmp_path / "out" / "_prompts").iterdir()] == ["prompts.parquet"]
    kept = tmp_path / "out" / "_prompts" / "prompts.parquet"
    before = kept.stat()
    quire.generate(["a"], model="m", output=tmp_path / "out", progress=False)
    assert kept.stat().st_ino == before.st_ino  # a process that reads it finds it unchanged
    quire.generate(["b"], model="m", output=tmp_path / "out", progress=False)
    assert kept.stat().st_ino != before.st_ino
    with pytest.raises(ValueError, match="output is s3://bucket/out: give the prompts as a pathlib.Path"):
        quire.generate(["a"], model="m", output="s3://bucket/out", progress=False)


def test_read_jsonl(tmp_path: pathlib.Path) -> None:
    for part, text in enumerate(["null", '"x"']):
        (tmp_path / f"part-0000{part}.jsonl").write_text(f'{{"id":"{part}","error":{text}}}\n')
    assert quire.read(tmp_path).to_pylist() == [{"id": "0", "error": None}, {"id": "1", "error": "x"}]


def test_read_jsonl_as_it_is(tmp_path: pathlib.Path) -> None:
    """Long lines, parts without rows, texts that look like times, and types that differ between parts."""
    long = {"id": "0", "generation": 0, "text": "x" * 3_000_000, "token_ids": [7] * 400_000, "note": None, "n": 1}
    rows = [long, {"id": "1", "generation": 0, "text": "2024-01-01", "token_ids": None, "note": "a", "n": 1.5}]
    for part, row in enumerate([rows[0], None, rows[1]]):
        text = json.dumps(row) + "\n" if row else ""
        (tmp_path / f"part-0000{part}.jsonl").write_text(text)
    table = quire.read(tmp_path)
    assert table.to_pylist() == [{**rows[0], "n": 1.0}, rows[1]]
    assert table.schema.field("token_ids").type == pa.list_(pa.int32())
    assert table.schema.field("generation").type == pa.int32()
    (tmp_path / "part-00001.jsonl").write_text('{"id":"2","note":{"k":1}}\n')
    with pytest.raises(quire.QuireError, match="the values of a column have no common type"):
        quire.read(tmp_path)
    (tmp_path / "part-00001.jsonl").write_text('{"id":"2","note":1}\n{"id":"3","note":"a"}\n')
    with pytest.raises(quire.QuireError, match="part-00001.jsonl: the values of note have no common type"):
        quire.read(tmp_path)


def test_read_answers(tmp_path: pathlib.Path) -> None:
    (tmp_path / "part-00000.openai.jsonl").write_text('{"id":"a","custom_id":"b","response":{},"error":{"k":1}}\n')
    assert quire.read(tmp_path)["custom_id"].to_pylist() == ["b"]


def test_read_by_url(tmp_path: pathlib.Path) -> None:
    table = quire.generate(["a", "b", "c"], model="m", output=tmp_path / "out", progress=False)
    assert quire.read((tmp_path / "out").as_uri()).equals(table)
    (tmp_path / "out" / "part-00001.parquet").unlink()
    with pytest.raises(quire.QuireError, match="has 1 of 2 parts"):
        quire.read((tmp_path / "out").as_uri() + "/")


def test_read_partitions(tmp_path: pathlib.Path) -> None:
    (tmp_path / "_job").mkdir()
    inputs = [
        {"rows": 2, "columns": "lang=de"},
        {"rows": 0, "columns": "lang=fr"},
        {"rows": 1, "columns": "lang=de"},
        {"rows": 5, "columns": "lang=a%2Fb"},
    ]
    settings = {"rows": 4, "part_rows": 2, "keep_partitions": True}
    (tmp_path / "_job" / "job.json").write_text(json.dumps({"settings": settings, "inputs": inputs}))
    for part, folder in enumerate(["lang=de", "lang=de", "lang=a%2Fb"]):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"part-0000{part}.jsonl").write_text(f'{{"id":"{part}"}}\n')
    assert quire.read(tmp_path).to_pylist() == [
        {"lang": "de", "id": "0"},
        {"lang": "de", "id": "1"},
        {"lang": "a/b", "id": "2"},
    ]
    other = tmp_path / "try=1"  # an output of its own
    (other / "_job").mkdir(parents=True)
    (other / "part-00000.jsonl").write_text('{"id":"other"}\n')
    assert quire.read(tmp_path).num_rows == 3
    (tmp_path / "lang=de" / "part-00001.jsonl").unlink()
    with pytest.raises(quire.QuireError, match="has 2 of 3 parts"):
        quire.read(tmp_path)


def test_find_sample(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    assert quire.find_sample().endswith("/sample")
    monkeypatch.setenv("QUIRE_SAMPLE", str(tmp_path / "none"))
    with pytest.raises(quire.QuireError, match="there is no such file"):
        quire.find_sample()


def test_numbers_of_numpy() -> None:
    np = pytest.importorskip("numpy")
    bias = {np.int64(5): np.float32(-1.5), "6": np.int32(2)}
    assert quire._generate.text("logit_bias", bias) == '{"5": -1.5, "6": 2}'
    assert quire._generate.text("structured_outputs", {"choice": [{np.int8(1): np.bool_(True)}]}) == \
        '{"choice": [{"1": true}]}'
    assert quire._inputs.line_of({"prompt": "a", "logit_bias": bias}, 0) == \
        '{"prompt": "a", "logit_bias": {"5": -1.5, "6": 2}}\n'
