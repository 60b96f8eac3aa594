"""Outputs as what docs/guide.md says that they become: tables of Iceberg, datasets of Lance, tables with partitions.

They run with the real command and a model, QUIRE_TEST_MODEL=smollm2, and the packages that are installed."""

import pathlib
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quire

FLAGS: dict[str, Any] = {"n": 2, "max_tokens": 4, "seed": 1, "part_rows": 2, "progress": False}
TOPICS = ["x", None, "z"]
ROWS = pa.table({"id": ["a", "b", "c"], "prompt": ["The sky is", "The sea is", "The sun is"], "topic": TOPICS})


def test_iceberg(model: str, tmp_path: pathlib.Path) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql", reason="the package pyiceberg is not installed")
    drawn = quire.generate(ROWS, model=model, output=tmp_path / "out", **FLAGS)
    files = sorted(str(file) for file in (tmp_path / "out").glob("part-*.parquet"))
    assert len(files) == 2
    url = f"sqlite:///{tmp_path}/catalog.db"
    catalog = sql.SqlCatalog("test", uri=url, warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    table = catalog.create_table("db.completions", schema=pq.read_schema(files[0]))
    table.add_files(files)
    assert table.scan().to_arrow().sort_by([("id", "ascending"), ("generation", "ascending")]).to_pylist() == (
        drawn.to_pylist()
    )


def test_lance(model: str, tmp_path: pathlib.Path) -> None:
    lance = pytest.importorskip("lance", reason="the package pylance is not installed")
    import pyarrow.dataset

    drawn = quire.generate(ROWS, model=model, output=tmp_path / "out", **FLAGS)
    lance.write_dataset(
        pyarrow.dataset.dataset(tmp_path / "out", format="parquet"), str(tmp_path / "out.lance")
    )
    assert lance.dataset(str(tmp_path / "out.lance")).to_table().to_pylist() == drawn.to_pylist()


def test_partitions(model: str, tmp_path: pathlib.Path) -> None:
    """``--keep-partitions``, as DuckDB and ``read`` see it."""
    for lang in ("de", "en"):
        (tmp_path / "data" / f"lang={lang}").mkdir(parents=True)
        pq.write_table(ROWS, tmp_path / "data" / f"lang={lang}" / "a.parquet")
    out = tmp_path / "out"
    drawn = quire.generate(tmp_path / "data", model=model, output=out, keep_partitions=True, **FLAGS)
    assert drawn["lang"].to_pylist() == ["de"] * 6 + ["en"] * 6
    duckdb = pytest.importorskip("duckdb", reason="the package duckdb is not installed")
    found = duckdb.sql(
        f"SELECT lang, sum(completion_tokens) FROM read_parquet('{out}/*/*.parquet', hive_partitioning = true) "
        "GROUP BY lang ORDER BY lang"
    )
    tokens = drawn["completion_tokens"].to_pylist()
    assert found.fetchall() == [("de", sum(tokens[:6])), ("en", sum(tokens[6:]))]


def test_object_store(model: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes to S3, and ``read`` reads it there: moto is a server of S3 on this machine."""
    moto = pytest.importorskip("moto.server", reason="the package moto is not installed")
    boto3 = pytest.importorskip("boto3", reason="the package boto3 is not installed")
    server = moto.ThreadedMotoServer(port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="bucket")
        prompts = tmp_path / "prompts.parquet"
        pq.write_table(ROWS, prompts)
        # The journal of a remote output is in the user's cache, by its address: another one in each run.
        output = f"s3://bucket/{uuid.uuid4()}"
        drawn = quire.generate(prompts, model=model, output=output, **FLAGS)
        assert quire.read(output).equals(drawn)
        assert drawn.equals(quire.generate(prompts, model=model, output=tmp_path / "out", **FLAGS))
    finally:
        server.stop()
