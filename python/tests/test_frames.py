"""Tables of other packages, those that are installed."""

import pathlib

import pytest

import quire

pytestmark = pytest.mark.usefixtures("fake")

COLUMNS = {"prompt": ["a", "b", "c"], "k": [1, 2, 3], "tags": [["x"], [], ["y", "z"]]}


def check(given: quire.Prompts) -> None:
    table = quire.generate(given, model="m", n=2, progress=False)
    assert table["text"].to_pylist() == ["a 0", "a 1", "b 0", "b 1", "c 0", "c 1"]
    assert table["k"].to_pylist() == [1, 1, 2, 2, 3, 3]
    assert table["tags"].to_pylist()[::2] == COLUMNS["tags"]
    assert not [name for name in table.column_names if name.startswith("__")]


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(COLUMNS)
    check(frame)
    check(frame.set_index(pandas.Index([7, 8, 9], name="row")))
    for series in (frame["prompt"], frame["prompt"].astype("category"), pandas.Index(["a", "b", "c"])):
        texts = quire.generate(series, model="m", progress=False)["text"]
        assert texts.to_pylist() == ["a 0", "b 0", "c 0"]
    categories = frame.assign(prompt=frame["prompt"].astype("category"))
    check(categories)
    assert quire.generate(frame, model="m", progress=False).to_pandas()["k"].sum() == 6


def test_objects_without_members() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"prompt": ["a"], "tools": [[{"parameters": {}}]]})
    with pytest.raises(TypeError, match="column 'tools' has objects without members"):
        quire.generate(frame, model="m", progress=False)


def test_polars(tmp_path: pathlib.Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(COLUMNS)
    check(frame)
    check(frame.lazy())
    assert quire.generate(frame["prompt"], model="m", progress=False)["text"].to_pylist() == ["a 0", "b 0", "c 0"]
    back = polars.from_arrow(quire.generate(frame, model="m", output=tmp_path / "out", progress=False))
    assert back["k"].to_list() == [1, 2, 3]
    assert polars.read_parquet(tmp_path / "out" / "*.parquet").height == 3


def test_duckdb(tmp_path: pathlib.Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = pytest.importorskip("pyarrow").table(COLUMNS)
    connection = duckdb.connect()
    connection.register("prompts", frame)
    check(connection.sql("select * from prompts order by k"))
    drawn = quire.generate(frame, model="m", n=2, output=tmp_path / "out", progress=False)
    connection.register("drawn", drawn)
    assert connection.sql("select count(*), sum(k) from drawn").fetchall() == [(6, 12)]
    assert connection.sql(f"select count(*) from '{tmp_path}/out/*.parquet'").fetchall() == [(6,)]


def test_datasets() -> None:
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict(COLUMNS)
    check(dataset)
    check(dataset.select([2, 1, 0]).select([2, 1, 0]))  # by indices
    check(dataset.to_iterable_dataset())


def test_pyarrow_dataset(tmp_path: pathlib.Path) -> None:
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table(COLUMNS), tmp_path / "p.parquet")
    check(pyarrow.dataset.dataset(tmp_path / "p.parquet"))
