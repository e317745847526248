"""Tells observers how requests get their grammars, if one of them wants to know."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ...base.errors import INTERRUPTIONS
from ...contract import GrammarMeasures
from ...registry import default_registry

EVENT = "grammar_compiled"


def measured(compile_grammar: Callable[[], Any], scheduler: str) -> Any:
    """The result of `compile_grammar`, of which observers are told, with the name of the scheduler."""
    if not default_registry().observes(EVENT):
        return compile_grammar()
    started = time.monotonic()
    try:
        compiled = compile_grammar()
    except INTERRUPTIONS:
        raise
    except BaseException as error:
        _tell(scheduler, started, error=error)
        raise
    _tell(scheduler, started, compiled)
    return compiled


def watched(future: Future[Any], scheduler: str) -> Future[Any]:
    """`future`, of whose end observers are told, with the name of the scheduler; its result is a compiled
    grammar."""
    if default_registry().observes(EVENT):
        started = time.monotonic()
        future.add_done_callback(lambda done: _tell_done(scheduler, started, done))
    return future


def _tell_done(scheduler: str, started: float, done: Future[Any]) -> None:
    if done.cancelled():
        return
    error = done.exception()
    _tell(scheduler, started, None if error else done.result(), error)


def _tell(scheduler: str, started: float, compiled: Any = None, error: BaseException | None = None) -> None:
    cached = getattr(compiled, "compiled_at", started) < started
    seconds = time.monotonic() - started
    measures = GrammarMeasures(seconds, cached, None if error is None else str(error))
    default_registry().notify(EVENT, measures, scheduler=scheduler)
