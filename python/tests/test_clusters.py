"""Tests of examples/ray_data.py and examples/spark.py on clusters of this machine, with the real command.

They run where ray, pyspark and Java are installed and QUIRE_SAMPLE names the command: scripts/nightly.sh installs
them.
"""

import os
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import quire

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "python" / "examples"
# What the tasks of a cluster import.
PATHS = os.pathsep.join([str(ROOT / "python"), str(EXAMPLES)])

COLUMNS = ["id", "generation", "text", "token_ids", "finish_reason", "error"]


@pytest.fixture(scope="module")
def flags() -> dict[str, Any]:
    """A job of a tiny model, whose rows are token ids."""
    model = ROOT / "testdata" / "models" / "llama32-tied"
    if not os.environ.get("QUIRE_SAMPLE"):
        pytest.skip("QUIRE_SAMPLE does not name the command sample")
    small = {"max_seqs": 4, "max_model_len": 16, "kv_memory": "1MiB"}
    return {"model": str(model), "n": 2, "max_tokens": 6, "seed": 3, **small}


@pytest.fixture(scope="module")
def prompts() -> pa.Table:
    rows = [{"id": f"row {i}", "prompt_token_ids": list(range(1, 2 + i % 5)), "topic": str(i)} for i in range(10)]
    return pa.Table.from_pylist(rows)


@pytest.fixture(scope="module")
def wanted(prompts: pa.Table, flags: dict[str, Any]) -> list[dict[str, Any]]:
    """What one process draws."""
    drawn = rows_of(quire.generate(prompts, progress=False, **flags))
    assert len(drawn) == 20 and all(len(row["token_ids"]) == 6 for row in drawn)
    assert len({tuple(row["token_ids"]) for row in drawn}) > 10, "rows draw the same"
    return drawn


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.select(COLUMNS).to_pylist()
    return sorted(rows, key=lambda row: (row["id"], row["generation"]))


@pytest.fixture(scope="module")
def ray_data() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="the package ray is not installed")
    pytest.importorskip("ray.data", reason="the package ray[data] is not installed")
    sys.path.insert(0, str(EXAMPLES))
    environment = {name: os.environ[name] for name in ("QUIRE_SAMPLE", "QUIRE_CACHE") if name in os.environ}
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        runtime_env={"env_vars": {**environment, "PYTHONPATH": PATHS}},
    )
    yield pytest.importorskip("ray_data")
    ray.shutdown()


@pytest.mark.parametrize("blocks, rows", [(1, 100), (3, 4)])
def test_ray(ray_data: Any, blocks: int, rows: int, prompts: pa.Table, flags: Any, wanted: Any) -> None:
    import ray.data

    dataset = ray.data.from_arrow(prompts).repartition(blocks)
    drawn = ray_data.completions(dataset, rows=rows, cpus=1, **flags)
    assert rows_of(pa.concat_tables(ray.get(drawn.to_arrow_refs()))) == wanted


def test_ray_runs_a_task_again(
    ray_data: Any, prompts: pa.Table, flags: Any, wanted: Any, tmp_path: pathlib.Path
) -> None:
    """The first process of each task dies when it has drawn its rows, and another one gives them."""
    import ray.data

    failed = str(tmp_path)

    def die_once(rows: pa.Table) -> pa.Table:
        mark = pathlib.Path(failed, str(rows["id"][0]))
        if not mark.exists():
            mark.touch()
            os._exit(1)
        return rows

    dataset = ray.data.from_arrow(prompts).repartition(2)
    drawn = ray_data.completions(dataset, rows=100, cpus=1, **flags).map_batches(
        die_once, batch_format="pyarrow", batch_size=None, num_cpus=1
    )
    assert rows_of(pa.concat_tables(ray.get(drawn.to_arrow_refs()))) == wanted
    assert any(tmp_path.iterdir()), "no process died"


def test_ray_needs_ids(ray_data: Any, flags: Any) -> None:
    with pytest.raises(ValueError, match="no column id"):
        ray_data.draw(pa.table({"prompt": ["a"]}), flags)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="the package pyspark is not installed")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        pytest.skip("Spark needs Java, which is not installed")
    sys.path.insert(0, str(EXAMPLES))
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable, PYTHONPATH=PATHS)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Two tasks at once, each up to two times.
    builder = sql.SparkSession.builder.master("local[2,2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark")))
    spark = builder.getOrCreate()
    yield spark
    spark.stop()


@pytest.mark.parametrize("partitions", [1, 3])
def test_spark(session: Any, partitions: int, prompts: pa.Table, flags: Any, wanted: Any) -> None:
    spark = pytest.importorskip("spark")
    frame = session.createDataFrame(prompts.to_pylist()).repartition(partitions)
    assert rows_of(spark.completions(frame, **flags).toArrow()) == wanted


def test_spark_runs_a_task_again(
    session: Any, prompts: pa.Table, flags: Any, wanted: Any, tmp_path: pathlib.Path
) -> None:
    """The first attempt at each task ends when it has drawn its rows, and the second gives them."""
    spark = pytest.importorskip("spark")
    failed = str(tmp_path)

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        rows = list(batches)
        if task.attemptNumber() == 0:
            pathlib.Path(failed, str(task.partitionId())).touch()
            raise RuntimeError("the first attempt fails")
        yield from rows

    frame = session.createDataFrame(prompts.to_pylist()).repartition(2)
    drawn = spark.completions(frame, **flags).mapInArrow(fail_once, spark.SCHEMA)
    assert rows_of(drawn.toArrow()) == wanted
    assert len(list(tmp_path.iterdir())) == 2


def test_spark_needs_ids(session: Any, flags: Any) -> None:
    spark = pytest.importorskip("spark")
    with pytest.raises(ValueError, match="no column id"):
        spark.completions(session.createDataFrame([{"prompt": "a"}]), **flags)
