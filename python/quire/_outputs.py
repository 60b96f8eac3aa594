"""Reads outputs of ``sample run``."""

from __future__ import annotations

import itertools
import json
import os
import re
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.json
import pyarrow.parquet as pq

from ._command import QuireError

PART = re.compile(r"part-(\d+)\.(parquet|jsonl)$")


def read(output: str | os.PathLike[str], *, partial: bool = False) -> pa.Table:
    """Reads the output of a job as an Arrow table, a row for each completion, in the order of the input.

    Args:
        output: the folder that was given to ``sample run --output``, here or at ``s3://`` or ``gs://``.
        partial: take the parts that are there, of a job that is not finished. Otherwise a missing part is an error.

    Raises:
        QuireError: there is no output, or it lacks parts.
    """
    where = os.fspath(output)
    if "://" in where:
        files, folder = pyarrow.fs.FileSystem.from_uri(where)
    else:
        files, folder = pyarrow.fs.LocalFileSystem(), where
    job = job_of(files, folder)
    kept = bool(job and job["settings"].get("keep_partitions"))
    found = files.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True, recursive=kept))
    parts = {int(match[1]): info.path for info in found if (match := PART.search(info.path))}
    wanted = parts_of(job) if job else None
    if wanted is not None and not partial and len(parts) < wanted:
        raise QuireError(
            f"{where} has {len(parts)} of {wanted} parts: run its job to the end, or read it with partial=True"
        )
    if not parts:
        raise QuireError(f"{where} has no parts: it is no output of sample run, or its job has just begun")
    tables = []
    for _, path in sorted(parts.items()):
        if path.endswith(".parquet"):
            with files.open_input_file(path) as file:
                table = pq.ParquetFile(file).read()
        else:
            with files.open_input_stream(path) as stream:
                table = pyarrow.json.read_json(stream)
        for name, value in reversed(folder_columns(path) if kept else []):
            table = table.add_column(0, pa.field(name, pa.string()), pa.array([value] * len(table), pa.string()))
        tables.append(table)
    # The footers of parts differ in nothing, but a column of JSONL may be all null in one of them.
    return pa.concat_tables(tables, promote_options="default")


def folder_columns(path: str) -> list[tuple[str, str | None]]:
    """Returns the columns that the folders of a part give, such as lang=en/split=test, in their order."""
    columns: list[tuple[str, str | None]] = []
    for folder in reversed(path.split("/")[:-1]):
        name, is_column, value = folder.partition("=")
        if not is_column:
            break  # the output itself
        columns.insert(0, (unquote(name), None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)))
    return columns


def job_of(files: pyarrow.fs.FileSystem, folder: str) -> dict[str, Any] | None:
    """Returns what the folder says of its job, None if that is not known."""
    try:
        with files.open_input_stream(folder.rstrip("/") + "/_job/job.json") as stream:
            job = json.loads(stream.read())
        return job if isinstance(job["settings"], dict) else None
    except (OSError, KeyError, TypeError, ValueError):
        return None


def parts_of(job: dict[str, Any]) -> int | None:
    """Returns how many parts a job makes, None if that is not known."""
    try:
        rows, of_part = int(job["settings"]["rows"]), int(job["settings"]["part_rows"])
        if of_part < 1:
            return None
        if not job["settings"].get("keep_partitions"):
            return -(-rows // of_part)
        parts, left = 0, rows
        for _, same in itertools.groupby((i for i in job["inputs"] if i["rows"]), lambda i: i.get("columns", "")):
            here = min(sum(int(i["rows"]) for i in same), left)
            parts, left = parts + -(-here // of_part), left - here
    except (KeyError, TypeError, ValueError):
        return None
    return parts
