"""Progress of long work, on stderr and only if that is a terminal; without rich there is none."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

T = TypeVar("T")

_END: Any = object()


def tracked(items: Iterable[T], total: int, text: str) -> Iterator[T]:
    """`items` as they come, `total` in all, with a bar."""
    try:
        from rich.progress import track
    except ImportError:
        yield from items
        return
    yield from track(items, text, total, console=_console(), transient=True)


def awaited(items: Iterable[T], text: str) -> Iterator[T]:
    """`items` as they come, with a sign of life while the next one is awaited."""
    iterator = iter(items)
    while True:
        with working(text):
            item = next(iterator, _END)
        if item is _END:
            return
        yield item


def working(text: str) -> AbstractContextManager[Any]:
    """A sign of life while something runs whose end is not known."""
    try:
        return _console().status(text)
    except ImportError:
        return contextlib.nullcontext()


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True, quiet=not sys.stderr.isatty())
