"""Settings and helpers for all tests."""

from __future__ import annotations

import faulthandler
import gc
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

# Byte code is kept, whatever the environment says: else each worker, and each of the many processes that
# tests start, compiles everything anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import pytest  # noqa: E402
from hypothesis import HealthCheck, Phase, settings  # noqa: E402

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))


def example_count(count: int) -> int:
    """How many examples Hypothesis tries of a property: `count` with ENGINE_SAMPLER_TEST_ROUNDS=2, as in
    `.ci/run`; half as many in a quick run, which tries others each time unless the property is
    derandomized."""
    return max(1, count * max(1, ROUNDS) // 2)


# Neither the speed of the machine nor the number of examples that a filter rejects is a fault of the code.
settings.register_profile(
    "suite",
    max_examples=example_count(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.register_profile("without shrinking", settings.get_profile("suite"), phases=[Phase.generate])
settings.load_profile("suite")


@pytest.fixture
def without_shrinking() -> Iterator[None]:
    """What breaks on purpose need not be shown by its smallest example."""
    settings.load_profile("without shrinking")
    yield
    settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """Collected tests stay to the end, so the garbage collector rests while they are made, does not look
    among them later, and looks less often than in a program."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(5_000, 20, 10)
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Counts the skipped tests in one line, by what they miss."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        reason = str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr)
        missing = re.search(r"could not import '(\w+)", reason)
        reasons[missing.group(1) if missing else reason.removeprefix("Skipped: ")] += 1
    if reasons:
        counts = ", ".join(f"{reason} ({n})" for reason, n in reasons.most_common())
        terminalreporter.line(f"skipped: {counts}")


def shared_data(name: str) -> Path:
    """A file of peers' test cases, stored next to the checkout; skips the test if the file is missing."""
    folder = os.environ.get("ENGINE_SAMPLER_TEST_DATA")
    root = Path(folder) if folder else Path(__file__).resolve().parents[2] / "shared" / "data"
    path = root / name
    if not path.exists():
        pytest.skip(f"{name} is missing from {root}; set ENGINE_SAMPLER_TEST_DATA")
    return path


LONGEST = 900.0
"""Seconds that a test may take at least: one that hangs is ended within a minute more, and named, with the
stack of each of its threads. pytest's `faulthandler_timeout` does so with a thread for each test, which costs
ten milliseconds on a busy machine; here one watches the tests of a minute."""

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
