"""A plugin of pytest for the stages of `.ci/run`: what has passed in one need not be run again in the next.

    pytest -p passed --note-passed=FILE     the tests that pass are written to FILE
    pytest -p passed --leave-out=FILE       those in it are left out, but for those of plugins

With a blank instead of the `=`, pytest takes FILE for a place of tests, too, and names tests from another
root.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--note-passed", type=Path)
    parser.addoption("--leave-out", type=Path)


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--note-passed")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Notes(path))


class _Notes:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._path.write_text("\n".join(self._passed), encoding="utf-8")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path = config.getoption("--leave-out")
    if path is None:
        return
    # An integration does more with its peer than without, also within one test.
    lines = path.read_text(encoding="utf-8").splitlines()
    passed = {line for line in lines if not line.startswith("plugins/")}
    left = [item for item in items if item.nodeid in passed]
    items[:] = [item for item in items if item.nodeid not in passed]
    config.hook.pytest_deselected(items=left)
