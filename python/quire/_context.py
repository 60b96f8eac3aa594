"""Contexts of a model: sequences that a program owns, over one process of ``sample context``."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from . import _command
from ._generate import Flag, arguments, ignore, print_line
from ._stream import PATIENCE, stop

try:
    import numpy as np
except ImportError:  # numbers are lists then
    np = None  # type: ignore[assignment]


class ContextError(_command.QuireError):
    """An operation on a context failed, and changed nothing but which tokens wait. Others can still be done."""

    def __init__(self, message: str, code: str | None) -> None:
        super().__init__(message)
        self.code = code
        """What kind of error it is, such as ``"out_of_pages"``: docs/contexts.md lists them. None for others."""


class Contexts:
    """A model whose contexts this program uses, in one process. Closing it ends the process and all contexts.

    Calls may come from several threads, and are done one after the other.
    """

    def __init__(
        self,
        *,
        model: str | os.PathLike[str],
        contexts: int = 16,
        progress: bool | Callable[[str], object] = False,
        **flags: Flag,
    ) -> None:
        """Starts the process, and waits until the model is open.

        Args:
            model, progress: as for ``generate``.
            contexts: how many contexts may be open at once.
            flags: further flags of ``sample context``. Those for sampling are the defaults of ``Context.generate``.

        Raises:
            UsageError: a flag is wrong; the text is the command's message.
            QuireError: the model cannot be opened.
        """
        self._say = progress if callable(progress) else print_line if progress else ignore
        args = ["context", "--model", os.fspath(model), "--contexts", str(contexts)]
        args += ["--progress", "plain" if progress else "none", *arguments(flags)]
        self._lock = threading.Lock()
        self._said: list[str] = []
        self._unsaid: list[str] = []  # lines of standard error that no caller was told
        self._process: subprocess.Popen[str] | None = subprocess.Popen(
            [_command.find_sample(), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._reader = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._reader.start()
        info = self.info()
        self.page_size: int = info["page_size"]
        """How many tokens a page has."""
        self.max_model_len: int = info["max_model_len"]
        """How many tokens a context may have."""

    def new(self, prompt: str | Iterable[int] | None = None) -> Context:
        """Opens a context, which is empty or has a text or tokens."""
        context = Context(self, self.ask("new")["context"])
        if prompt is not None:
            context.append(prompt)
        return context

    def load(self, name: str) -> Context:
        """Opens a context with what was saved under a name."""
        return Context(self, self.ask("load", name=name)["context"])

    def delete(self, name: str) -> None:
        """Forgets what was saved under a name."""
        self.ask("delete", name=name)

    def snapshots(self) -> list[str]:
        """Returns the names of what was saved."""
        names: list[str] = self.ask("snapshots")["names"]
        return names

    def flush(self, contexts: Sequence[Context] | None = None) -> None:
        """Runs the tokens that wait in contexts, of all in the same steps; None stands for all open contexts."""
        if contexts is None:
            self.ask("flush")
        elif contexts:
            self.ask("flush", contexts=[c.number for c in contexts])

    def info(self) -> dict[str, Any]:
        """Returns sizes of the engine, and how many of its pages are free."""
        return self.ask("info")

    def ask(self, op: str, **members: Any) -> dict[str, Any]:
        """Sends an operation, and returns its answer: see docs/contexts.md. Members that are None are left out."""
        line = json.dumps({"op": op, **{k: v for k, v in members.items() if v is not None}})
        with self._lock:
            process = self._process
            if process is None:
                raise ContextError("the contexts are closed", "closed")
            assert process.stdin is not None and process.stdout is not None
            try:
                try:
                    process.stdin.write(line + "\n")
                    process.stdin.flush()
                except BrokenPipeError:  # the process has ended: its output says why
                    pass
                text = process.stdout.readline()
            except BaseException:  # such as KeyboardInterrupt: later answers would not be those of later lines
                self._process = None
                stop(process)
                raise
            if not text.endswith("\n"):
                self._process = None
                self._end(process)
                raise _command.QuireError("sample has ended without an answer", process.returncode)
            self._tell()
        answer: dict[str, Any] = json.loads(text)
        if "error" in answer:
            raise ContextError(answer["error"], answer.get("code"))
        return answer

    def close(self) -> None:
        """Closes all contexts, and ends the process."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                self._end(process)

    def _end(self, process: subprocess.Popen[str]) -> None:
        """Ends the process, and raises what its exit code stands for."""
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            stop(process)
        self._reader.join()
        process.stdout.close()
        self._tell()
        _command.check(process.returncode, self._said)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Reads standard error."""
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                line = line.rstrip("\n")
                self._said = [*self._said[-99:], line]
                self._unsaid.append(line)

    def _tell(self) -> None:
        """Tells the caller what the process has said."""
        while self._unsaid:
            line = self._unsaid.pop(0)
            if line.startswith("warning: "):
                warnings.warn(line.removeprefix("warning: "), _command.QuireWarning, stacklevel=4)
            else:
                self._say(line)

    def __enter__(self) -> Contexts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Context:
    """A sequence of tokens whose keys and values stay on the device: tokens that were run are never run again.

    ``Contexts.new``, ``Contexts.load`` and ``fork`` make contexts. Closing one frees its pages.
    """

    def __init__(self, contexts: Contexts, number: int) -> None:
        self.contexts = contexts
        self.number = number
        self._closed = False

    def append(
        self,
        prompt: str | Iterable[int] | None = None,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[int]:
        """Adds a text, tokens, or messages by the model's chat template, and returns the tokens that were added.

        They wait, and take no pages, until ``flush`` or an operation that needs their keys and values.
        """
        tokens: list[int] = self._ask("append", messages=messages, **prompt_of(prompt))["tokens"]
        return tokens

    def flush(self) -> None:
        """Runs the tokens that wait."""
        self._ask("flush")

    def generate(
        self,
        prompt: str | Iterable[int] | None = None,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        **parameters: Any,
    ) -> list[dict[str, Any]]:
        """Generates completions of the context, followed by a prompt if one is given. The context stays as it is.

        Args:
            prompt, messages: as for ``append``.
            parameters: those of a row, such as ``max_tokens=64, temperature=0.7, seed=1, n=4``.

        Returns:
            the completions, with the columns of ``quire.generate``.
        """
        answer = self._ask("generate", messages=messages, **prompt_of(prompt), **parameters)
        completions: list[dict[str, Any]] = answer["completions"]
        return completions

    def score(self, prompt: str | Iterable[int]) -> Any:
        """Returns how likely each token of a text, or each of these tokens, is to come next: natural logarithms."""
        return numbers_of(self._ask("score", **prompt_of(prompt))["logprobs"])

    def forward(
        self,
        tokens: str | Iterable[int],
        *,
        positions: Any = None,
        mask: Any = None,
        logits: Iterable[int] | None = None,
    ) -> Any:
        """Runs tokens in one pass, appends them, and returns logits: a row of the vocabulary for each wanted token.

        Args:
            positions: the position of each token; its place in the context if None.
            mask: for each token whether it sees each place of the context, from the first on: a matrix of bools, at
                least as wide as the places before the token. None: each token sees all that is before it.
            logits: the numbers of the tokens, in order, after which logits are wanted; the last one if None.
        """
        if mask is not None:
            mask = [[int(bool(flag)) for flag in row] for row in mask]
        if positions is not None:
            positions = [int(p) for p in positions]
        if logits is not None:
            logits = [int(i) for i in logits]
        answer = self._ask("forward", positions=positions, mask=mask, logits=logits, **prompt_of(tokens))
        return numbers_of(answer["logits"])

    def fork(self) -> Context:
        """Runs the tokens that wait, and opens a second context with the same tokens. The two share all pages."""
        return Context(self.contexts, self._ask("fork")["context"])

    def truncate(self, tokens: int) -> None:
        """Drops the last tokens, no further than to the last full page."""
        self._ask("truncate", tokens=tokens)

    def truncate_committed(self, tokens: int) -> None:
        """Drops the last tokens, in whichever pages they are."""
        self._ask("truncate_committed", tokens=tokens)

    def commit_working_pages(self, pages: int) -> None:
        """Runs the waiting tokens that the next pages take, and no others, so that these pages are full."""
        self._ask("commit_working_pages", pages=pages)

    def reserve_working_pages(self, pages: int) -> None:
        """Reserves more pages for this context."""
        self._ask("reserve_working_pages", pages=pages)

    def release_working_pages(self, pages: int) -> None:
        """Gives up the last pages: reserved ones that are not used yet, then those with tokens."""
        self._ask("release_working_pages", pages=pages)

    @property
    def tokens(self) -> list[int]:
        """All tokens, including those that wait."""
        tokens: list[int] = self._ask("tokens")["tokens"]
        return tokens

    def __len__(self) -> int:
        length: int = self._ask("pages")["length"]
        return length

    def __bool__(self) -> bool:
        return True  # also while it is empty

    def pages(self) -> dict[str, int]:
        """Returns the counts of pages by their kind, of tokens in the working page, and of tokens that wait."""
        return self._ask("pages")

    def page_hash(self, page: int) -> str:
        """Returns the name of a full page, which is equal for equal tokens up to its end."""
        name: str = self._ask("page_hash", page=page)["hash"]
        return name

    def materialize(self, layer: int) -> tuple[Any, Any]:
        """Returns keys and values of a layer, of the tokens that were run: [tokens, KV heads, head dim] each."""
        answer = self._ask("materialize", layer=layer)
        return numbers_of(answer["keys"]), numbers_of(answer["values"])

    def save(self, name: str) -> None:
        """Keeps the context under a name in the memory of the process: ``Contexts.load`` opens it."""
        self._ask("save", name=name)

    def close(self) -> None:
        """Frees what the context holds. Closing again does nothing, as does closing after the process has ended."""
        if self._closed:
            return
        self._closed = True
        if self.contexts._process is not None:
            self._ask("close")

    def _ask(self, op: str, **members: Any) -> dict[str, Any]:
        return self.contexts.ask(op, context=self.number, **members)

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def prompt_of(prompt: str | Iterable[int] | None) -> dict[str, Any]:
    """Returns the members of an operation for a text or tokens."""
    if prompt is None:
        return {}
    if isinstance(prompt, str):
        return {"prompt": prompt}
    return {"prompt_token_ids": [int(token) for token in prompt]}


def numbers_of(values: list[Any]) -> Any:
    """Returns lists of numbers as an array of NumPy if there is one. None stands for minus infinity."""
    if np is not None:
        array = np.array(values, dtype=np.float32)
        array[np.isnan(array)] = -np.inf
        return array
    if values and isinstance(values[0], list):
        return [numbers_of(row) for row in values]
    return [float("-inf") if v is None else v for v in values]
