"""Exceptions raised at any line or bytecode of a call, as a signal handler or scarce memory raises them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import engine_sampler
from engine_sampler.base import forking

PACKAGE = str(Path(engine_sampler.__file__).parent)
TESTS = str(Path(__file__).parents[1])


class Injection:
    """Raises `error` at event number `at` of a call: before a line or, with `opcodes`, before a bytecode of
    the package or of a plugin of the tests.

    within  the only file of the package that counts.
    where   file, line and function of the event; None if the call came to its end before it.
    passed  whether the error left the call.
    """

    def __init__(
        self, error: type[BaseException], at: int, *, opcodes: bool = False, within: str | None = None
    ) -> None:
        self.error, self.left, self.opcodes, self.within = error, at, opcodes, within
        self.where: str | None = None
        self.passed = False
        self._traced: dict[CodeType, bool] = {}

    def during(self, call: Callable[[], Any]) -> Any:
        """`call()`; None if it was interrupted."""
        before = sys.gettrace()
        # An error in what frees garbage is lost, and raised there by a trace function it leaves CPython 3.11
        # with a trace function that has been freed.
        gc.disable()
        sys.settrace(self._enter)
        try:
            return call()
        except BaseException as error:
            self.passed = isinstance(error, self.error) or self.error.__name__ in str(error)
            if self.where is None or not self.passed:
                raise
            return None
        finally:
            sys.settrace(before)
            gc.enable()
            _release_locks()

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        traced = self._traced.get(code)
        if traced is None:
            name = code.co_filename
            traced = name.startswith(PACKAGE) or (name.startswith(TESTS) and "interruptions" not in name)
            traced = traced if self.within is None else name == f"{PACKAGE}/{self.within}"
            self._traced[code] = traced
        if not traced:
            return None
        frame.f_trace_opcodes = self.opcodes
        return self._at_event

    def _at_event(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == ("opcode" if self.opcodes else "line"):
            if not self.left:
                code = frame.f_code
                self.where = f"{code.co_filename}:{frame.f_lineno} {code.co_name}"
                raise self.error
            self.left -= 1
        return self._at_event


def _release_locks() -> None:
    """Release locks that this thread still holds. A trace function can raise between the last bytecode of a
    `with` and the call that releases, where CPython looks for no signals: other threads would wait for ever,
    in a test that comes later."""
    for lock in list(forking._LOCKS):
        while hasattr(lock, "_is_owned") and lock._is_owned():
            lock.release()


def count_of(call: Callable[[], Any], *, opcodes: bool = False, within: str | None = None) -> int:
    """How many events `call` has."""
    injection = Injection(KeyboardInterrupt, 1 << 60, opcodes=opcodes, within=within)
    injection.during(call)
    return (1 << 60) - injection.left
