"""Runs ``sample run`` on prompts."""

from __future__ import annotations

import filecmp
import json
import numbers
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from . import _command, _inputs, _outputs

Flag: TypeAlias = "None | bool | int | float | str | os.PathLike[str] | Mapping[Any, Any] | Iterable[Any]"

# Flags that generate sets itself, and flags with which this process's output is not the whole job's.
OWN = {"input", "progress", "shard", "num_processes", "process_id", "format", "task"}


def generate(
    prompts: _inputs.Prompts,
    *,
    model: str | os.PathLike[str],
    n: int = 1,
    prompt_as: str | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[str], object] = True,
    **flags: Flag,
) -> pa.Table:
    """Generates n completions of each prompt, and returns them as an Arrow table.

    The table has a row for each completion, in the order of the prompts: the columns of the prompts, then ``id``,
    ``generation``, ``text``, ``token_ids``, ``logprobs``, ``finish_reason``, ``prompt_tokens``, ``completion_tokens``
    and ``error``.

    Args:
        prompts: one of

            - texts: a ``str``, or a list of them;
            - rows: a list of dicts with a ``prompt``, ``messages`` or ``prompt_token_ids``, an ``id``, parameters of
              the row, and columns to copy to the result;
            - a table with such columns: of pyarrow, pandas, polars, DuckDB or Hugging Face ``datasets``;
            - a ``pathlib.Path`` of a file that ``sample run --input`` reads.

            A completion depends on the model, its row and the seed. Rows without an ``id`` are numbered.
        model: a folder of Hugging Face, a GGUF file, ``hf://org/name``, or ``smollm2``.
        n: completions of each prompt.
        prompt_as: ``"user"`` sends each ``prompt`` as the user's message, through the model's chat template; ``"raw"``
            sends raw text, which the model continues. Without it a prompt is raw text, unless ``system`` is given, and
            a ``QuireWarning`` is issued if the model has a chat template.
        output: a folder that keeps the job, and the prompts in ``_prompts``. The same call continues it after an
            interruption. Without it the job is in a temporary folder, and removed after the call.
        progress: False prints nothing; a function is called with each line.
        flags: further flags of ``sample run``, as in ``max_tokens=64, temperature=0.7, stop=["\\n"]``: a list gives a
            flag several times, a dict is JSON, None leaves a flag out.

    Raises:
        UsageError: a flag or an input is wrong; the text is the command's message.
        QuireError: the run failed.

    Warns:
        RowErrors: rows that could not be run. The column ``error`` says why.
    """
    flag = ["run", "--model", os.fspath(model), "--n-generations", str(n)]
    flag += arguments({"prompt_as": prompt_as, **flags})
    with tempfile.TemporaryDirectory(prefix="quire-") as folder:
        args, say, into = prepare(flag, prompts, output, progress, folder)
        _command.run(args, say)
        return _outputs.read(into)


def prepare(
    flag: list[str],
    prompts: _inputs.Prompts,
    output: str | os.PathLike[str] | None,
    progress: bool | Callable[[str], object],
    folder: str,
) -> tuple[list[str], Callable[[str], object], str]:
    """Writes prompts, and returns the arguments of a command for them, what takes its lines, and its output folder."""
    say = progress if callable(progress) else print_line if progress else ignore
    into = os.path.join(folder, "out") if output is None else os.fspath(output)
    path = _inputs.write(prompts, folder)
    if output is not None and path.startswith(folder):
        path = keep(path, into)
    mode = "plain" if progress else "none"
    return [*flag, "--progress", mode, "--output", into, "--input", path], say, into


def keep(path: str, output: str) -> str:
    """Moves a file of prompts to the job's folder, where the next call finds it by the same name."""
    if "://" in output:
        raise ValueError(
            f"output is {output}: give the prompts as a pathlib.Path, so that a later call finds them again"
        )
    kept = os.path.join(output, "_prompts")
    os.makedirs(kept, exist_ok=True)
    # Replace the file atomically, and leave it alone if it is unchanged: another process may be reading it.
    there = os.path.join(kept, os.path.basename(path))
    if os.path.exists(there) and filecmp.cmp(path, there, shallow=False):
        return there
    fd, beside = tempfile.mkstemp(dir=kept)
    os.close(fd)
    shutil.move(path, beside)
    os.replace(beside, there)
    return there


def print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def ignore(line: str) -> None:
    pass


def arguments(flags: Mapping[str, Flag]) -> list[str]:
    """Returns flags as the command line has them."""
    args: list[str] = []
    for name, value in flags.items():
        if name in OWN:
            raise TypeError(f"{name} is no flag of generate")
        if name == "json_schema" and isinstance(value, Mapping):  # the flag takes a file
            name, value = "structured_outputs", {"json": value}
        flag = "--" + name.replace("_", "-")
        if isinstance(value, (str, bytes, Mapping, os.PathLike)) or not isinstance(value, Iterable):
            values: list[Any] = [value]
        else:
            values = list(value)
            if any(isinstance(v, (Mapping, list, tuple)) for v in values):  # JSON, such as tools
                values = [_inputs.json_of(values)]
        args += [f"{flag}={text(name, v)}" for v in values if v is not None]
    return args


def text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name} has half a surrogate pair, which is no character: {error}") from None
        return value
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, Mapping):
        return _inputs.json_of(value)
    if isinstance(value, numbers.Number):  # numpy's
        return str(value)
    raise TypeError(
        f"{name} is a {type(value).__name__}, but must be a number, a text, a truth value, a list or a dict"
    )
