"""Yields completions of ``sample run`` as they come."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any

from . import _command, _inputs
from ._generate import Flag, arguments, ignore, print_line

LINES_AHEAD = 256  # lines of the command's output that are read ahead
PATIENCE = 10.0  # seconds that the command has to stop


def stream(
    prompts: _inputs.Prompts,
    *,
    model: str | os.PathLike[str],
    n: int = 1,
    lazy: bool = False,
    progress: bool | Callable[[str], object] = False,
    **flags: Flag,
) -> Iterator[dict[str, Any]]:
    """Generates n completions of each prompt, and yields each as a dict as soon as its prompt has all n.

    The dicts have the columns of ``generate``, with the values that JSON has. Prompts come as they are finished, with
    ``in_order=True`` in their order. Nothing is kept: to resume after an interruption, use ``generate`` and ``output``.
    The first ``next`` starts the command, and closing the iterator ends it: by ``break``, an exception, or
    ``close()``.

    Args:
        prompts, model, n, progress, flags: as in ``generate``. An ``output`` is rejected.
        lazy: prompts is an iterable of texts or dicts from which each prompt is taken when the command has room for it,
            in a thread of its own. So a prompt may depend on completions that were yielded before.

    Raises:
        UsageError: a flag or an input is wrong; the text is the command's message.
        QuireError: the run failed, after the completions that were yielded before.

    Warns:
        RowErrors: rows that could not be run. Their ``error`` says why.
    """
    if "output" in flags:
        raise TypeError("output is no flag of stream: generate keeps a job")
    say = progress if callable(progress) else print_line if progress else ignore
    flag = ["run", "--model", os.fspath(model), "--n-generations", str(n), "--format", "jsonl", "--output", "-"]
    flag += ["--progress", "plain" if progress else "none", *arguments(flags)]
    if not lazy:
        return rows_of(flag, prompts, say)
    if isinstance(prompts, (str, Mapping)) or not isinstance(prompts, Iterable):
        raise TypeError(f"prompts is a {type(prompts).__name__}, but must be an iterable of texts or rows to be lazy")
    return rows_of(flag, [], say, lazily=prompts)


def rows_of(
    flag: list[str],
    prompts: _inputs.Prompts,
    say: Callable[[str], object],
    lazily: Iterable[_inputs.Row] | None = None,
) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="quire-") as folder:
        place = "-" if lazily is not None else _inputs.write(prompts, folder)
        command = [_command.find_sample(), *flag, "--input", place]
        said: list[str] = []
        wrong: list[BaseException] = []
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if lazily is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process:
            lines: queue.Queue[tuple[bool, str | None]] = queue.Queue(LINES_AHEAD)
            over = threading.Event()
            for pipe, is_row in ((process.stdout, True), (process.stderr, False)):
                threading.Thread(target=pump, args=(pipe, is_row, lines, over), daemon=True).start()
            if lazily is not None:
                threading.Thread(target=feed, args=(lazily, process.stdin, wrong), daemon=True).start()
            try:
                opened = 2
                while opened:
                    is_row, line = lines.get()
                    if line is None:
                        opened -= 1
                    elif is_row:
                        yield json.loads(line)
                    else:
                        line = line.rstrip("\n")
                        said = [*said[-99:], line]
                        if line.startswith("warning: "):
                            warnings.warn(line.removeprefix("warning: "), _command.QuireWarning, stacklevel=2)
                        else:
                            say(line)
                code = process.wait()
            except BaseException:  # such as GeneratorExit, when a loop is left: no process is left running
                over.set()
                stop(process)
                raise
        if wrong:
            raise wrong[0]
        _command.check(code, said)


def feed(prompts: Iterable[_inputs.Row], pipe: IO[str], wrong: list[BaseException]) -> None:
    """Writes prompts to a pipe as they come, and then closes it. What goes wrong with them is appended to wrong."""
    try:
        with pipe:
            for i, row in enumerate(prompts):
                pipe.write(_inputs.line_of(row, i))
                pipe.flush()
    except BrokenPipeError:  # the command has ended
        pass
    except BaseException as e:
        wrong.append(e)


def pump(pipe: IO[str], is_row: bool, lines: queue.Queue[tuple[bool, str | None]], over: threading.Event) -> None:
    """Puts the lines of a pipe, and None at its end. Once it is over, they are dropped, so that nobody waits."""

    def put(line: str | None) -> None:
        while not over.is_set():
            try:
                return lines.put((is_row, line), timeout=0.1)
            except queue.Full:
                pass

    for line in pipe:
        put(line)
    put(None)


def stop(process: subprocess.Popen[str]) -> None:
    """Ends a process as Ctrl-C does, and one that does not end by SIGKILL. Others read its pipes."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
