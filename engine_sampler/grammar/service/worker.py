"""The process that reads grammars for an engine: one `GrammarSource` after the other, from standard input.

It imports this package only, neither the caller's `__main__` nor any plugin or device library.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from typing import Any, NamedTuple

from ..grammar import Grammar, clear_grammar_cache
from . import wire
from .lifetime import at_most, end_with
from .source import GrammarSource

NICENESS = 10
"""By how much workers yield to the engine's own threads."""

_GRACE_SECONDS = 2.0
"""How much later than the engine's process this one ends itself."""

_WARM_UP = (("json_schema", "{}"), ("lark", 'start: "a"'))
"""Grammars that are read first, which imports the front ends."""


class Failure(NamedTuple):
    """Why a grammar could not be read: the name of the exception's class, and its message."""

    kind: str
    message: str


def main(answers: int, engine: int, timeout: float) -> None:
    """Serve until the engine's process ends.

    answers  the descriptor that the grammars are written to, after None as a sign that all is ready
    engine   the id of the engine's process
    timeout  seconds for one grammar; the engine's process ends this one then, or else it ends by itself
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the engine decides when its workers end
    end_with(engine)
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    sources: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sources,), daemon=True).start()
    for source in _WARM_UP:
        with contextlib.suppress(Exception):  # the requests that need it report it
            _read(source)
    wire.send(answers, wire.encode(None))
    while True:
        source = sources.get()
        with at_most(timeout + _GRACE_SECONDS):
            answer = _answer(source)
        wire.send(answers, answer)
        clear_grammar_cache()  # the engine's process has it


def _listen(sources: queue.SimpleQueue[Any]) -> None:
    """Take requests while a grammar is being read, and end the process as soon as standard input does."""
    try:
        while True:
            sources.put(wire.receive(0))
    finally:
        os._exit(0)


def _answer(source: Any) -> list[bytes | memoryview]:
    try:
        return wire.encode(_read(source))
    except Exception as error:
        return wire.encode(Failure(type(error).__name__, str(error)))


def _read(source: Any) -> Grammar:
    return GrammarSource(*source).read()
