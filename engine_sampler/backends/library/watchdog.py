"""A time limit for calls to a library: what can be done about one that does not return.

The call runs on a thread of its own, and the caller waits for it no longer than the limit. A thread cannot be
ended from outside, so a call that is late is left behind: its thread, its context and all memory that it may
still read or write are kept until the process ends, and the library is never called again, not even to close
its contexts.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from .binding import Library
from .header import number

_left_behind: list[Any] = []
"""What calls that have not returned may still use: never freed."""


def leave_behind(*objects: Any) -> None:
    """Keep `objects` until the process ends."""
    _left_behind.extend(objects)


class WatchedStep:
    """`step`, (context, batch) → code, with at most `timeout` seconds for each call.

    A call that is late, or whose caller is interrupted, makes the library quarantined, and returns ES_DEVICE.
    It costs a change of threads in each call.
    """

    def __init__(self, library: Library, step: Callable[[Any, Any], int], timeout: float) -> None:
        self._library = library
        self._step = step
        self._timeout = timeout
        self._thread: threading.Thread | None = None

    def __call__(self, context: Any, batch: Any) -> int:
        if self._library.quarantined:
            return number("ES_DEVICE")
        if self._thread is None or not self._thread.is_alive():  # the first call, or the first after a fork
            self._start()
        self._calls.put((context, batch))
        try:
            result = self._codes.get(timeout=self._timeout)
        except queue.Empty:
            self._library.quarantine(f"a call has not returned within {self._timeout:g} s")
            return number("ES_DEVICE")
        except BaseException:
            self._library.quarantine("the caller did not wait for a call to return")
            raise
        if isinstance(result, BaseException):
            raise result
        return result

    def __del__(self) -> None:
        if self._thread is not None:
            self._calls.put(None)

    def _start(self) -> None:
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._codes: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()
        arguments = self._step, self._calls, self._codes
        self._thread = threading.Thread(target=_serve, args=arguments, daemon=True, name="library")
        self._thread.start()


def _serve(
    step: Callable[[Any, Any], int],
    calls: queue.SimpleQueue[Any],
    codes: queue.SimpleQueue[int | BaseException],
) -> None:
    while (call := calls.get()) is not None:
        try:
            codes.put(step(*call))
        except BaseException as error:
            codes.put(error)
