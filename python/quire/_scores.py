"""Runs ``sample classify`` and ``sample rerank``."""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa

from . import _embed, _generate, _inputs


def classify(
    prompts: _inputs.Prompts,
    *,
    model: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = True,
    **flags: _generate.Flag,
) -> pa.Table:
    """Scores classes of each prompt by a model with a head, and returns labels and scores as an Arrow table.

    The table has a row for each prompt, in their order: the columns of the prompts, then ``id``, ``generation``,
    ``label``, ``scores``, ``prompt_tokens``, ``truncated`` and ``error``. ``scores`` is a fixed-size list. A model that
    scores tokens has ``labels``, ``starts``, ``ends`` and ``scores`` of the labeled parts of each prompt instead.

    Args:
        prompts: as for ``generate``. Rows may have a ``text_pair``.
        model: a folder of Hugging Face or ``hf://org/name``, whose class ends in ForSequenceClassification.
        output: as for ``generate``.
        progress: as for ``generate``.
        flags: further flags of ``sample classify``, as in ``score_function="none"``.

    Raises:
        UsageError: a flag or an input is wrong; the text is the command's message.
        QuireError: the run failed.

    Warns:
        RowErrors: rows that have no scores. The column ``error`` says why.
    """
    table = _embed.run("classify", prompts, model, output, progress, flags)
    of_tokens = {"labels", "starts", "ends"} <= set(table.column_names)
    return table if of_tokens else _embed.fixed(table, "scores")


def rerank(
    rows: _inputs.Prompts,
    *,
    model: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = True,
    **flags: _generate.Flag,
) -> pa.Table:
    """Scores the documents of each query by a cross-encoder, and returns scores and rankings as an Arrow table.

    The table has a row for each query, in their order: the columns of the rows, then ``id``, ``generation``,
    ``scores``, ``ranking``, ``prompt_tokens``, ``truncated`` and ``error``. ``scores`` are in the order of the
    documents, ``ranking`` has their numbers from 0, the best first.

    Args:
        rows: rows with ``query`` and ``documents`` (a list of texts) or ``document``, as dicts or a table.
        model: a folder of Hugging Face or ``hf://org/name``, whose class ends in ForSequenceClassification.
        output: as for ``generate``.
        progress: as for ``generate``.
        flags: further flags of ``sample rerank``, as in ``top_n=10``.

    Raises:
        UsageError: a flag or an input is wrong; the text is the command's message.
        QuireError: the run failed.

    Warns:
        RowErrors: rows that have no scores. The column ``error`` says why.
    """
    return _embed.run("rerank", rows, model, output, progress, flags)
