"""A plugin of pytest for the stages of `.ci/run`: of tests that take long, each commit tries others.

pytest -p share --share=6     a sixth of the tests, by a digest of their names and the commit
"""

from __future__ import annotations

import hashlib
import subprocess

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", type=int, default=1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=config.rootpath)

    def is_left(item: pytest.Item) -> bool:
        digest = hashlib.sha256(commit + item.nodeid.encode()).digest()
        return int.from_bytes(digest[:8], "big") % config.getoption("--share") != 0

    config.hook.pytest_deselected(items=[item for item in items if is_left(item)])
    items[:] = [item for item in items if not is_left(item)]
