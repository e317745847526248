"""A test that hangs is ended and named, with the stack of each of its threads, and the others go on.

pytest's `faulthandler_timeout` does the same with a thread for each test, which on a busy machine costs ten
milliseconds; here one thread watches for a minute of tests. A `conftest` that imports the hooks is watched.
"""

from __future__ import annotations

import faulthandler
import os
import time
from collections.abc import Iterator

import pytest

LONGEST = 900.0
"""Seconds that a test may take at least; a minute more ends it."""

_STDERR: list[int] = []
_armed_at = float("-inf")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    global _armed_at
    now = time.monotonic()
    if now > _armed_at + 60:
        faulthandler.dump_traceback_later(LONGEST + 60, exit=True, file=_stderr(item.config))
        _armed_at = now
    return (yield)


def pytest_sessionfinish() -> None:
    faulthandler.cancel_dump_traceback_later()


def _stderr(config: pytest.Config) -> int:
    """The standard error of the process, which pytest captures."""
    if not _STDERR:
        with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():  # type: ignore[union-attr]
            _STDERR.append(os.dup(2))
    return _STDERR[0]
