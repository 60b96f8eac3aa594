"""Reads outputs of ``sample run``."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from ._command import QuireError, QuireWarning, run

PART = re.compile(r"(?:^|/)part-(\d+)\.(parquet|jsonl|openai\.jsonl)$")

LINES_OF_A_BATCH = 1024

# Columns of JSONL with the types of Parquet's. The types of other columns follow from their values.
TYPES = {
    "id": pa.string(),
    "generation": pa.int32(),
    "text": pa.string(),
    "token_ids": pa.list_(pa.int32()),
    "logprobs": pa.list_(pa.float32()),
    "finish_reason": pa.string(),
    "prompt_tokens": pa.int32(),
    "completion_tokens": pa.int32(),
    "error": pa.string(),
}


def read(output: str | os.PathLike[str], *, partial: bool = False) -> pa.Table:
    """Reads the output of a job as an Arrow table, a row for each completion, in the order of the input.

    Args:
        output: the folder that was given to ``sample run --output``, here or at ``s3://`` or ``gs://``.
        partial: read what exists of a running or interrupted job: its parts, and the completions that are in
            no part yet, which the command reads from the job's journal, including the ones that ``--extend`` adds.
            Otherwise a missing part is an error.

    Raises:
        QuireError: there is no output, or it lacks parts.
    """
    where = os.fspath(output)
    if not partial:
        return read_parts(where, None)
    with tempfile.TemporaryDirectory(prefix="quire-") as folder:
        # Before the parts are listed: completions that leave the journal meanwhile are then in a part.
        snapshot = os.path.join(folder, "snapshot")
        return read_parts(where, snapshot, take_snapshot(where, snapshot))


def take_snapshot(output: str, folder: str) -> QuireError | None:
    """Writes what is in no part of an output yet to part files in a folder. Returns why it can't."""
    try:
        run(["show", output, "--snapshot", folder], lambda line: None)
    except QuireError as error:
        return error
    return None


def read_parts(where: str, snapshot: str | None, why_not: QuireError | None = None) -> pa.Table:
    """Reads the parts of an output, and those that a snapshot has more of. Without a snapshot all must be there."""
    files, folder = place_of(where)
    partial = snapshot is not None
    job = job_of(files, folder)
    kept = bool(job and job["settings"].get("keep_partitions"))
    parts = {int(match[1]): name for name in names_in(files, folder, kept) if (match := PART.search(name))}
    wanted = parts_of(job) if job else None
    if wanted is not None and not partial and len(parts) < wanted:
        raise QuireError(
            f"{where} has {len(parts)} of {wanted} parts: run its job to the end, or read it with partial=True"
        )
    complete = wanted is not None and len(parts) >= wanted
    places = {number: [(files, f"{folder}/{name}", name)] for number, name in parts.items()}
    if snapshot is not None:
        if why_not is not None and parts and job and not complete:
            warnings.warn(f"what is in no part yet was not read: {why_not}", QuireWarning, stacklevel=3)
        elif why_not is not None and not parts:
            raise why_not
        local = pyarrow.fs.LocalFileSystem()
        for name in names_in(local, snapshot, kept):
            if match := PART.search(name):
                places.setdefault(int(match[1]), []).append((local, f"{snapshot}/{name}", name))
    if not places:
        raise QuireError(f"{where} has no parts: it is no output of sample run, or its job has just begun")
    # A part that was extended since has fewer rows than the snapshot, one that was published since has more.
    tables = [max((read_part(*place) for place in of), key=len) for _, of in sorted(places.items())]
    return joined(tables, where)


def read_part(files: pyarrow.fs.FileSystem, path: str, name: str) -> pa.Table:
    """Reads a part, with the columns that its folders give."""
    if name.endswith(".parquet"):
        with files.open_input_file(path) as file:
            table = pq.ParquetFile(file).read()
    else:
        with files.open_input_stream(path) as stream:
            table = read_lines(io.TextIOWrapper(stream, encoding="utf-8", newline="\n"), name)
    for column, value in reversed(folder_columns(name)):
        table = table.add_column(0, pa.field(column, pa.string()), pa.array([value] * len(table), pa.string()))
    return table


def place_of(where: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Returns the file system of an output and its folder there."""
    if "://" in where:
        files, folder = pyarrow.fs.FileSystem.from_uri(where)
    else:
        files, folder = pyarrow.fs.LocalFileSystem(), where
    return files, folder.rstrip("/") or "/"


def names_in(files: pyarrow.fs.FileSystem, folder: str, kept: bool, below: str = "") -> Iterator[str]:
    """Returns the names of files in a folder, and in those below that parts may be in: see ``--keep-partitions``."""
    selector = pyarrow.fs.FileSelector(f"{folder}/{below}".rstrip("/") or "/", allow_not_found=True)
    found = files.get_file_info(selector)
    if below and any(info.base_name == "_job" for info in found):
        return  # a different output
    for info in found:
        name = info.base_name
        if info.type != pyarrow.fs.FileType.Directory:
            yield below + name
        elif kept and name.find("=") > 0 and name[0] not in "._":
            yield from names_in(files, folder, kept, f"{below}{name}/")


def read_lines(lines: io.TextIOWrapper, name: str) -> pa.Table:
    """Reads a part of JSONL. Texts stay texts, also those that look like times."""
    tables = []
    while batch := list(itertools.islice(lines, LINES_OF_A_BATCH)):
        rows = [json.loads(line) for line in batch]
        columns = {}
        for column in dict.fromkeys(key for row in rows for key in row):
            values = [row.get(column) for row in rows]
            of = None if name.endswith(".openai.jsonl") else TYPES.get(column)
            try:
                columns[column] = pa.array(values, of)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise QuireError(f"{name}: the values of {column} have no common type: {error}") from error
        tables.append(pa.table(columns))
    return joined(tables, name) if tables else pa.table({})


def joined(tables: list[pa.Table], name: str) -> pa.Table:
    """Concatenates tables. Tables from JSONL may differ: a column is all null in one, and of integers in another."""
    try:
        return pa.concat_tables([t for t in tables if t.num_columns] or tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise QuireError(f"{name}: the values of a column have no common type: {error}") from error


def folder_columns(name: str) -> list[tuple[str, str | None]]:
    """Returns the columns that the folders of a part give, such as lang=en/split=test, in their order."""
    columns: list[tuple[str, str | None]] = []
    for folder in name.split("/")[:-1]:
        column, _, value = folder.partition("=")
        columns.append((unquote(column), None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)))
    return columns


def job_of(files: pyarrow.fs.FileSystem, folder: str) -> dict[str, Any] | None:
    """Returns what the folder records about its job, None if it records nothing."""
    try:
        with files.open_input_stream(folder + "/_job/job.json") as stream:
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
