"""Quire from Python: generate completions of prompts with the command ``sample``, get them as an Arrow table.

    import quire

    table = quire.generate(["Why is the sky blue?"], model="smollm2", prompt_as="user", temperature=0, max_tokens=64)
    print(table["text"].to_pylist())

``generate`` writes the prompts to a file, runs ``sample run`` on it, and reads the output. ``embed`` makes vectors of
prompts in the same way, ``classify`` scores of classes, and ``rerank`` scores of documents. ``stream`` yields
completions as they come. ``read`` reads any output of ``sample run``. ``Contexts`` and ``Context`` are sequences that a
program forks, truncates and continues. Nothing of the engine is in Python: the command is an executable that this
package brings along.
"""

from ._command import Interrupted, QuireError, QuireWarning, RowErrors, UsageError, find_sample
from ._context import Context, ContextError, Contexts
from ._embed import embed
from ._generate import generate
from ._inputs import Prompts, Row
from ._outputs import read
from ._scores import classify, rerank
from ._stream import stream

__all__ = [
    "Context",
    "ContextError",
    "Contexts",
    "Interrupted",
    "Prompts",
    "QuireError",
    "QuireWarning",
    "Row",
    "RowErrors",
    "UsageError",
    "classify",
    "embed",
    "find_sample",
    "generate",
    "read",
    "rerank",
    "stream",
]
