"""Other surroundings, in which a plugin must give the same results: nothing of them is an input."""

from __future__ import annotations

import contextlib
import decimal
import gc
import io
import itertools
import logging
import os
import random as random_module
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ..library.surroundings import PROCESS, open_files
from .elsewhere import ELSEWHERE, NotThere

T = TypeVar("T")


def in_all_surroundings(call: Callable[[], T], task: Any = None) -> Iterator[tuple[str, T]]:
    """The results of `call` in other surroundings, each with a description of them.

    task  an object without arguments to call, which gives the same result, if it can be pickled: it is also
          called in another process.
    """
    for where, surroundings in _SURROUNDINGS.items():
        with surroundings():
            yield where, _called(call, where)
    where = "in another thread"
    yield where, _called(partial(_in_thread, call), where)
    if task is not None:
        with contextlib.suppress(NotThere):
            yield ELSEWHERE.description, ELSEWHERE.call(task)


def _called(call: Callable[[], T], where: str) -> T:
    try:
        return call()
    except Exception as error:
        raise AssertionError(f"fails {where}: {error!r}") from error


def anywhere(random: np.random.Generator, call: Callable[[], T]) -> T:
    """The result of `call`, which is made in this thread or, at times, in another one."""
    return _in_thread(call) if random.random() < 0.1 else call()


def _in_thread(call: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="another thread")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


@contextlib.contextmanager
def _other_seeds(seed: int = 4711) -> Iterator[None]:
    kept, kept_of_numpy = random_module.getstate(), np.random.get_state()  # noqa: NPY002
    random_module.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        random_module.setstate(kept)
        np.random.set_state(kept_of_numpy)  # noqa: NPY002


_errstate: dict[str, Any] = {"all": "ignore"}


def quiet() -> contextlib.AbstractContextManager[Any]:
    """The `np.errstate` under which backends call plugins."""
    return np.errstate(**_errstate)


@contextlib.contextmanager
def _other_errstate() -> Iterator[None]:
    kept = _errstate.copy()
    _errstate.update(all="call", call=lambda kind, flag: None)
    try:
        with quiet():
            yield
    finally:
        _errstate.clear()
        _errstate.update(kept)


@contextlib.contextmanager
def leaving_them_alone(name: str, may_change: Collection[str] = ()) -> Iterator[None]:
    """Raise AssertionError if what is called changes what other code shares with it, unless it `may`."""
    printed = io.StringIO()
    with _other_seeds(815), redirect_stdout(printed), redirect_stderr(printed):
        before = _shared()
        yield
        after = _shared()
    assert not printed.getvalue(), f"{name} prints {printed.getvalue()[:40]!r}"
    for what, (now, then) in zip(before, zip(after.values(), before.values(), strict=True), strict=True):
        assert now == then or what in may_change, f"{name} changes {what}"


_CALLS = 24
"""Calls after which what a process holds is counted again."""


def expect_nothing_kept(name: str, call: Callable[[], Any]) -> None:
    """Raise AssertionError if each call leaves an object, a thread or an open file behind."""
    kept = _kept(call, generation=1)
    if max(kept) >= _CALLS:  # or they are in cycles, which only the slow collection of all objects finds
        kept = _kept(call, generation=2)
    for what, count in zip(_HELD, kept, strict=True):
        assert count < _CALLS, f"{name} has {count} {what} more after {_CALLS} equal calls"


def _kept(call: Callable[[], Any], generation: int) -> list[int]:
    """What some equal calls leave behind in any case."""
    counts = []
    for _ in range(4):  # caches fill at first, and the interpreter keeps a few objects now and then
        for _ in range(_CALLS):
            call()
        gc.collect(generation)
        counts.append(_held())
    return [
        min(now - before for before, now in itertools.pairwise(held)) for held in zip(*counts, strict=True)
    ]


_HELD = "objects", "threads", "open files"


def _held() -> tuple[int, int, int]:
    return sys.getallocatedblocks(), threading.active_count(), open_files()


def _shared() -> dict[str, Any]:
    numbers = np.random.get_state(legacy=False)  # noqa: NPY002
    return {
        "the state of random": hash(random_module.getstate()),
        "the state of np.random": repr(numbers),
        "np.errstate": np.geterr(),
        "the environment": dict(os.environ),
        "the recursion limit": sys.getrecursionlimit(),
        "the active warnings": [str(one) for one in warnings.filters],
        "the garbage collector": (gc.isenabled(), gc.get_threshold()),
        "the context of decimals": repr(decimal.getcontext()),
        "the print options of NumPy": np.get_printoptions(),
        "the log level": logging.getLogger().level,
        "the interval between threads": sys.getswitchinterval(),
        "sys.path": sys.path.copy(),
        "sys.excepthook": sys.excepthook,
        **{what: read() for what, read in PROCESS.items()},
    }


_SURROUNDINGS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "after another seed of random and np.random": _other_seeds,
    "under another np.errstate": _other_errstate,
}
