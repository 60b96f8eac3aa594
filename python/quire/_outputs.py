"""Reads outputs of ``sample run``."""

from __future__ import annotations

import json
import os
import re

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
    found = files.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True))
    parts = {int(match[1]): info.path for info in found if (match := PART.search(info.path))}
    wanted = parts_of_job(files, folder)
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
                tables.append(pq.ParquetFile(file).read())
        else:
            with files.open_input_stream(path) as stream:
                tables.append(pyarrow.json.read_json(stream))
    # The footers of parts differ in nothing, but a column of JSONL may be all null in one of them.
    return pa.concat_tables(tables, promote_options="default")


def parts_of_job(files: pyarrow.fs.FileSystem, folder: str) -> int | None:
    """Returns how many parts the job of a folder makes, None if that is not known."""
    try:
        with files.open_input_stream(folder.rstrip("/") + "/_job/job.json") as stream:
            settings = json.loads(stream.read())["settings"]
        rows, of_part = int(settings["rows"]), int(settings["part_rows"])
    except (OSError, KeyError, ValueError):
        return None
    return -(-rows // of_part) if of_part > 0 else None
