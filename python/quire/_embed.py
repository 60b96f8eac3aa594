"""Runs ``sample embed`` on prompts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from . import _command, _generate, _inputs, _outputs


def embed(
    prompts: _inputs.Prompts,
    *,
    model: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = True,
    **flags: _generate.Flag,
) -> pa.Table:
    """Makes a vector of each prompt, and returns the vectors as an Arrow table.

    The table has a row for each prompt, in their order: the columns of the prompts, then ``id``, ``generation``,
    ``embedding``, ``prompt_tokens``, ``truncated`` and ``error``. ``embedding`` is a fixed-size list; with
    ``multi_vector=True`` there is ``embeddings`` in its place, a list of vectors. NumPy has vectors without a copy, if
    no row has an error:

        vectors = table["embedding"].combine_chunks()
        matrix = vectors.flatten().to_numpy().reshape(len(vectors), -1)

    Args:
        prompts: as for ``generate``.
        model: a folder of Hugging Face or sentence-transformers, a GGUF file, or ``hf://org/name``.
        output: as for ``generate``.
        progress: as for ``generate``.
        flags: further flags of ``sample embed``, as in ``prompt_name="query", dimensions=256``.

    Raises:
        UsageError: a flag or an input is wrong; the text is the command's message.
        QuireError: the run failed.

    Warns:
        RowErrors: rows that have no vector. The column ``error`` says why.
    """
    table = run("embed", prompts, model, output, progress, flags)
    return table if "embeddings" in table.column_names else fixed(table)


def run(
    task: str,
    prompts: _inputs.Prompts,
    model: str | os.PathLike[str],
    output: str | os.PathLike[str] | None,
    progress: bool | Callable[[str], object],
    flags: dict[str, _generate.Flag],
) -> pa.Table:
    """Runs the command of a task, and returns its output."""
    flag = [task, "--model", os.fspath(model), *_generate.arguments(flags)]
    with tempfile.TemporaryDirectory(prefix="quire-") as folder:
        args, say, into = _generate.prepare(flag, prompts, output, progress, folder)
        _command.run(args, say)
        return _outputs.read(into)


def fixed(table: pa.Table, column: str = "embedding") -> pa.Table:
    """Gives the vectors of a table a fixed length, which the files of some inputs do not state."""
    index = len(table.column_names) - 1 - table.column_names[::-1].index(column)
    kind = table.schema.field(index).type
    if not pa.types.is_list(kind) or not len(table):
        return table
    length = pc.max(pc.list_value_length(table.column(index))).as_py()
    if length is None:  # no row has a vector
        return table
    kind = pa.list_(kind.value_field, length)
    return table.set_column(index, pa.field(column, kind), table.column(index).cast(kind))
