"""Writes prompts of any kind to a file that ``sample run`` reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_OF_A_BATCH = 8192


@runtime_checkable
class ArrowStream(Protocol):
    """What has a table for Arrow: of pyarrow, polars, DuckDB, and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@runtime_checkable
class HuggingFaceDataset(Protocol):
    """``datasets.Dataset`` and ``datasets.IterableDataset``."""

    def with_format(self, type: str) -> Any: ...

    def iter(self, batch_size: int) -> Iterator[Any]: ...


class Scannable(Protocol):
    """``pyarrow.dataset.Dataset``."""

    def scanner(self) -> Any: ...


Row: TypeAlias = "str | Mapping[str, Any]"
Prompts: TypeAlias = "Row | Iterable[Row] | ArrowStream | HuggingFaceDataset | Scannable | os.PathLike[str]"
"""What ``generate`` takes for prompts."""


def write(prompts: Prompts, folder: str) -> str:
    """Writes prompts to a file in folder and returns its path. The path of a file is returned as it is."""
    if isinstance(prompts, os.PathLike):
        return os.fspath(prompts)
    if isinstance(prompts, Mapping):
        raise TypeError("prompts is a dict: give [row] for one row, pyarrow.table(columns) for columns")
    prompts = listed(prompts)
    batches = arrow_batches(prompts)
    if batches is not None:
        return write_parquet(batches, folder)
    if isinstance(prompts, str) and os.path.isfile(prompts):
        raise ValueError(
            f"prompts is {prompts!r}, the name of a file: give pathlib.Path({prompts!r}) for its rows, "
            f"[{prompts!r}] for this text"
        )
    if not isinstance(prompts, Iterable):
        raise TypeError(f"prompts is a {type(prompts).__name__}, but must be texts, rows, a table or a path")
    rows = [prompts] if isinstance(prompts, str) else list(prompts)
    return write_rows([as_row(row, i) for i, row in enumerate(rows)], folder)


def listed(prompts: Any) -> Any:
    """Returns a column of texts, such as a Series of pandas or polars, as a list, and anything else as it is."""
    module = type(prompts).__module__.partition(".")[0]
    if isinstance(prompts, (pa.Array, pa.ChunkedArray)):
        return prompts if pa.types.is_struct(prompts.type) else prompts.to_pylist()
    if module in ("pandas", "polars") and hasattr(prompts, "to_list") and not hasattr(prompts, "columns"):
        return prompts.to_list()
    return prompts


def arrow_batches(prompts: Any) -> Iterator[pa.RecordBatch] | None:
    """Returns a table in batches, or None if it is not a table."""
    module = type(prompts).__module__.partition(".")[0]
    if module == "pandas" and hasattr(prompts, "columns"):  # its stream would include the index as a column
        return batches_of(pa.Table.from_pandas(prompts, preserve_index=False))
    if module == "polars" and hasattr(prompts, "collect"):
        prompts = prompts.collect()
    if isinstance(prompts, pa.RecordBatch):
        return iter([prompts])
    if hasattr(prompts, "scanner"):
        reader: Iterator[pa.RecordBatch] = iter(prompts.scanner().to_reader())
        return reader
    if hasattr(prompts, "with_format") and hasattr(prompts, "iter"):
        tables = prompts.with_format("arrow").iter(batch_size=ROWS_OF_A_BATCH)
        return (batch for table in tables for batch in table.to_batches())
    if hasattr(prompts, "__arrow_c_stream__"):
        stream: Iterator[pa.RecordBatch] = iter(pa.RecordBatchReader.from_stream(prompts))
        return stream
    return None


def batches_of(table: pa.Table) -> Iterator[pa.RecordBatch]:
    return iter(
        table.to_batches(max_chunksize=ROWS_OF_A_BATCH) or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    )


def write_parquet(batches: Iterable[pa.RecordBatch], folder: str) -> str:
    path = os.path.join(folder, "prompts.parquet")
    writer: pq.ParquetWriter | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if writer is None:
            for field in table.schema:
                if memberless(field.type):
                    raise TypeError(
                        f"column {field.name!r} has objects without members, for which Parquet has no form: "
                        "give it as texts of JSON (json.dumps), or give a list of dicts"
                    )
            schema = pa.schema([field.with_type(storable(field.type)) for field in table.schema])
            writer = pq.ParquetWriter(path, schema, compression="zstd")
        writer.write_table(table.cast(writer.schema), row_group_size=ROWS_OF_A_BATCH)
    if writer is None:
        raise ValueError("prompts has no rows")
    writer.close()
    return path


def memberless(of: pa.DataType) -> bool:
    """Reports whether a type has a struct without members."""
    parts = [of.field(i) for i in range(of.num_fields)]
    return (pa.types.is_struct(of) and not parts) or any(memberless(part.type) for part in parts)


def storable(of: pa.DataType) -> pa.DataType:
    """Returns the type as which a column is written: texts and bytes as views have no form of their own in Parquet."""
    if pa.types.is_string_view(of):
        return pa.large_string()
    if pa.types.is_binary_view(of):
        return pa.large_binary()
    if pa.types.is_struct(of):
        return pa.struct([field.with_type(storable(field.type)) for field in of.fields])
    if (
        pa.types.is_list(of)
        or pa.types.is_large_list(of)
        or pa.types.is_list_view(of)
        or pa.types.is_large_list_view(of)
    ):
        return pa.large_list(of.value_field.with_type(storable(of.value_type)))
    return of


def as_row(row: Row, at: int) -> Mapping[str, Any]:
    if isinstance(row, str):
        return {"prompt": row}
    if isinstance(row, Mapping):
        return row
    raise TypeError(f"prompts[{at}] is a {type(row).__name__}, but must be a text or a dict")


def write_rows(rows: list[Mapping[str, Any]], folder: str) -> str:
    """Writes rows: as Parquet if Arrow's columns give the same rows back, else as JSONL, where each row is as it is."""
    if not rows:
        raise ValueError("prompts has no rows")
    table = columns_of(rows)
    if table is not None:
        return write_parquet(batches_of(table), folder)
    path = os.path.join(folder, "prompts.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line_of(row, at) for at, row in enumerate(rows))
    return path


def line_of(row: Row, at: int) -> str:
    """Returns a row as a line. Half a surrogate pair has no UTF-8: it stays an escape, for the row's own error."""
    row = as_row(row, at)
    try:
        row = keyed(row)
        line = json.dumps(row, ensure_ascii=False, allow_nan=False, default=plain)
        try:
            line.encode()
        except UnicodeEncodeError:
            line = json.dumps(row, allow_nan=False, default=plain)
    except (TypeError, ValueError) as error:
        raise TypeError(f"prompts[{at}] is no row of JSON: {error}") from error
    return line + "\n"


def columns_of(rows: list[Mapping[str, Any]]) -> pa.Table | None:
    """Returns rows as a table, None if their values have no common type that holds each as it is."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = []
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            column = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeEncodeError):
            return None
        if pa.types.is_nested(column.type) and (memberless(column.type) or column.to_pylist() != values):
            return None  # structs have members that some values lack, or none
        columns.append(column)
    return pa.table(dict(zip(names, columns)))


def json_of(value: Any) -> str:
    """Returns the JSON of a flag."""
    return json.dumps(keyed(value), ensure_ascii=False, default=plain)


def keyed(value: Any) -> Any:
    """Returns a value whose dicts have no numbers of numpy as keys, which JSON refuses."""
    if isinstance(value, Mapping):
        return {plain(k) if hasattr(k, "tolist") else k: keyed(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [keyed(v) for v in value]
    return value


def plain(value: Any) -> Any:
    """Returns numbers and arrays of numpy as Python's own, for JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")
