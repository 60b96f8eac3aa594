"""Generates completions of a Parquet table with Spark. Each task runs the command on a partition.

    spark-submit --conf spark.task.cpus=32 spark.py s3a://bucket/prompts/ s3a://bucket/out/ --model hf://org/name

A completion depends on the id of its row and the seed alone. So partitions may be any, and a task that runs a
second time, because its executor was lost, gives the same rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import quire

SCHEMA = "id string, generation int, text string, token_ids array<int>, finish_reason string, error string"
"""Columns of the result, with the types that ``quire.generate`` gives them."""

COLUMNS = [column.split()[0] for column in SCHEMA.split(", ")]


def completions(prompts: DataFrame, **flags: Any) -> DataFrame:
    """Returns a frame with a row for each completion.

    Spark computes a frame again for each action: write the result, or ``persist`` it.

    Args:
        prompts: columns ``id``, ``prompt`` and others, as in ``quire.generate``. The model is loaded for each
            partition: take some thousands of rows.
        flags: arguments of ``quire.generate``, such as ``model="smollm2", n=4, max_tokens=64, seed=1``.
    """
    if "id" not in prompts.columns:
        raise ValueError("the frame has no column id, which tells rows of different partitions apart")

    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [batch for batch in batches if batch.num_rows]
        if rows:  # a partition may be empty
            drawn = quire.generate(pa.Table.from_batches(rows), progress=False, **flags)
            yield from drawn.select(COLUMNS).to_batches()

    return prompts.mapInArrow(draw, SCHEMA)


def main() -> None:
    args = argparse.ArgumentParser(description="Generates completions of a Parquet table with Spark.")
    args.add_argument("input", help="Parquet files with columns id and prompt")
    args.add_argument("output", help="folder of the completions")
    args.add_argument("--model", default="smollm2")
    args.add_argument("--partitions", type=int, help="partitions, each a task (default: Spark's)")
    args.add_argument("--max-tokens", type=int, default=128)
    args.add_argument("--seed", type=int, default=0)
    o = args.parse_args()
    prompts = SparkSession.builder.appName("quire").getOrCreate().read.parquet(o.input)
    if o.partitions:
        prompts = prompts.repartition(o.partitions)
    completions(prompts, model=o.model, max_tokens=o.max_tokens, seed=o.seed).write.parquet(o.output)


if __name__ == "__main__":
    main()
