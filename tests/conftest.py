"""Settings and helpers for all tests."""

from __future__ import annotations

import faulthandler
import gc
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

# Byte code is kept, whatever the environment says: else each worker, and each of the many processes that
# tests start, compiles everything anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import pytest  # noqa: E402
from hypothesis import HealthCheck, Phase, settings  # noqa: E402

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))


def example_count(count: int) -> int:
    """How many examples Hypothesis tries of a property: `count` with ENGINE_SAMPLER_TEST_ROUNDS=2, as in
    `.ci/run`; a quarter in a quick run, which tries others each time unless the property is derandomized."""
    return max(1, count * ROUNDS // 2 if ROUNDS > 1 else count // 4)


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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`pytest` alone tries one in n cases of a test marked `quick_share(n)`. All are tried where files, words
    or marks are named, and with ENGINE_SAMPLER_TEST_ROUNDS=2."""
    named = config.args != config.getini("testpaths") or config.option.keyword or config.option.markexpr
    if named or ROUNDS > 1:
        return
    groups: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if marker := item.get_closest_marker("quick_share"):
            # The laws of contract kits are one group for all classes of a file.
            group = item.nodeid.partition("[" if item.cls is None else "::")[0]  # type: ignore[attr-defined]
            groups[group, marker.args[0]].append(item)
    left = {item for (_, n), group in groups.items() for item in set(group) - quick_share(group, n)}
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


def quick_share(items: Sequence[pytest.Item], n: int) -> set[pytest.Item]:
    """One in `n`, the same in every run, with each value of the parameters that have few values."""
    count, tried = -(-len(items) // n), set()
    # Another prefix gives another share; of some, this one took the least time.
    ordered = sorted(items, key=lambda item: crc32(b"a part" + item.nodeid.encode()))
    occurring = Counter(name for name, _ in {value for item in items for value in _values(item)})
    chosen = []
    for item in ordered:
        values = {value for value in _values(item) if occurring[value[0]] <= count}
        if not values <= tried:
            chosen.append(item)
            tried |= values
    rest = [item for item in ordered if item not in chosen]
    return {*chosen, *rest[: max(0, count - len(chosen))]}


def _values(item: pytest.Item) -> set[tuple[str, object]]:
    """The class, the function and the parameters of a test."""
    indices = item.callspec.indices if hasattr(item, "callspec") else {}
    return {("class", item.cls), ("function", item.originalname), *indices.items()}  # type: ignore[attr-defined]


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
