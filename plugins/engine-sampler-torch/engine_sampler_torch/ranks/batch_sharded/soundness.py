"""`Soundness`: whether a rank can still take part in steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..exchange import described


class Soundness:
    """Remembers a failure outside of the messages: the next message tells the other ranks."""

    def __init__(self) -> None:
        self._failure: str | None = None

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Around what must not fail."""
        try:
            yield
        except BaseException as error:
            self._failure = described(error)
            raise

    def check(self) -> None:
        """Raise RuntimeError if something has failed."""
        if self._failure is not None:
            raise RuntimeError(f"this rank has failed before: {self._failure}")
