"""Finds the command ``sample`` and runs it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Callable, Sequence

EXIT_USAGE, EXIT_PARTIAL, EXIT_INTERRUPTED = 2, 3, 4  # as in "sample help"


class QuireError(RuntimeError):
    """``sample`` failed. The text is its message."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        """The exit code of ``sample``, None where it was not run."""


class UsageError(QuireError, ValueError):
    """A flag or a file is wrong (exit code 2)."""


class Interrupted(QuireError):
    """A signal ended ``sample`` (exit code 4). With ``output`` the same call continues with the finished work."""


class QuireWarning(UserWarning):
    """A warning of ``sample``."""


class RowErrors(QuireWarning):
    """Some rows could not be run (exit code 3): their column ``error`` says why."""


def find_sample() -> str:
    """Returns the path of ``sample``: ``$QUIRE_SAMPLE``, this package's, or the first on ``PATH``."""
    given = os.environ.get("QUIRE_SAMPLE")
    if given:
        if not os.path.isfile(given):
            raise QuireError(f"QUIRE_SAMPLE is {given}, but there is no such file")
        return given
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user")),
        os.path.join(here, "bin"),  # pip install --target
        os.path.join(os.path.dirname(sys.executable)),
    ]
    for folder in folders:
        path = os.path.join(folder, "sample")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which("sample")
    if found is None:
        raise QuireError(
            f"the command sample is not in {', '.join(folders)}, nor on PATH: install quire again, "
            "or set QUIRE_SAMPLE to its path"
        )
    return found


def run(args: Sequence[str], say: Callable[[str], object]) -> None:
    """Runs ``sample`` with args, and calls ``say`` with each line of its standard error. A failure is an exception."""
    command = [find_sample(), *args]
    said: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                line = line.rstrip("\n")
                said = [*said[-99:], line]
                if line.startswith("warning: "):
                    warnings.warn(line.removeprefix("warning: "), QuireWarning, stacklevel=3)
                else:
                    say(line)
            code = process.wait()
        except BaseException:  # such as KeyboardInterrupt: finished work is kept, and no process is left behind
            stop(process)
            raise
    check(code, said)


def stop(process: subprocess.Popen[str]) -> None:
    """Ends a process as Ctrl-C does, and one that does not end by SIGKILL."""
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def check(code: int, said: Sequence[str]) -> None:
    """Raises what an exit code stands for."""
    if code == 0:
        return
    if code == EXIT_PARTIAL:
        warnings.warn('some rows have errors: see the column "error"', RowErrors, stacklevel=4)
        return
    message = message_of(said)
    if code < 0:
        name = signal.Signals(-code).name
        raise QuireError(f"sample was ended by {name}" + (f": {message}" if message else ""), code)
    kind = {EXIT_USAGE: UsageError, EXIT_INTERRUPTED: Interrupted}.get(code, QuireError)
    raise kind(message or f"sample ended with code {code}", code)


def message_of(said: Sequence[str]) -> str:
    """Returns the message of a failure: from the last line that begins with "sample: " on, without advice on usage."""
    begin = max((i for i, line in enumerate(said) if line.startswith("sample: ")), default=None)
    if begin is None:
        return "\n".join(said[-5:])
    lines = [line for line in said[begin:] if not line.startswith('Run "sample help')]
    return "\n".join(lines).removeprefix("sample: ").strip()
