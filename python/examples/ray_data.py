"""Generates completions of a Parquet table with Ray Data. Each task runs the command on a block of rows.

    python ray_data.py s3://bucket/prompts/ s3://bucket/out/ --model hf://org/name --cpus 32

A completion depends on the id of its row and the seed alone. So blocks may have any size, and a task that runs a
second time, because its node was lost, gives the same rows.
"""

from __future__ import annotations

import argparse
from typing import Any

import pyarrow as pa
import ray.data

import quire


def draw(prompts: pa.Table, flags: dict[str, Any]) -> pa.Table:
    """Generates completions of a block. Without ids the rows of each block would be numbered from 0."""
    if "id" not in prompts.column_names:
        raise ValueError("the table has no column id, which tells rows of different blocks apart")
    return quire.generate(prompts, progress=False, **flags)


def completions(prompts: ray.data.Dataset, *, rows: int, cpus: float, **flags: Any) -> ray.data.Dataset:
    """Returns a dataset with a row for each completion.

    Args:
        prompts: columns ``id``, ``prompt`` and others, as in ``quire.generate``.
        rows: rows of a block. The model is loaded for each block: take some thousands.
        cpus: processors of a task. Give those of a whole node: a task uses all of them.
        flags: arguments of ``quire.generate``, such as ``model="smollm2", n=4, max_tokens=64, seed=1``.
    """
    return prompts.map_batches(
        draw, batch_format="pyarrow", batch_size=rows, num_cpus=cpus, fn_kwargs={"flags": flags}
    )


def main() -> None:
    args = argparse.ArgumentParser(description="Generates completions of a Parquet table with Ray Data.")
    args.add_argument("input", help="Parquet files with columns id and prompt")
    args.add_argument("output", help="folder of the completions")
    args.add_argument("--model", default="smollm2")
    args.add_argument("--rows", type=int, default=8192, help="rows of a block")
    args.add_argument("--cpus", type=float, default=1, help="processors of a task")
    args.add_argument("--max-tokens", type=int, default=128)
    args.add_argument("--seed", type=int, default=0)
    o = args.parse_args()
    prompts = ray.data.read_parquet(o.input)
    flags = {"model": o.model, "max_tokens": o.max_tokens, "seed": o.seed}
    completions(prompts, rows=o.rows, cpus=o.cpus, **flags).write_parquet(o.output)


if __name__ == "__main__":
    main()
