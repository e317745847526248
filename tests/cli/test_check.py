"""`engine-sampler check` of plugins and of libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine_sampler.cli.check import is_path
from engine_sampler.cli.main import main
from engine_sampler.registry import default_registry

from ..registry.test_loading import Plugin
from ..testing.wrong.right import Near
from ..testing.wrong.truncations import Resurrects


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that registers samplers in this process, for one test."""
    registry = default_registry()
    before = registry.catalogue, registry.plugins.copy()
    yield lambda *samplers: registry.register(Plugin(*samplers), "mine")
    registry.catalogue, registry.plugins = before


def test_every_law_is_printed_with_its_result(registered: Any, capsys: pytest.CaptureFixture[str]) -> None:
    registered(Near())
    assert main(["check", "near", "--only", "examples_hold", "--only", "a_token_is_left"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["", "sampler near (this process)"]
    assert [line.split() for line in lines[2:]] == [
        ["passed", "a_token_is_left"],
        ["passed", "examples_hold"],
    ]


def test_a_law_that_is_broken_ends_with_status_1_and_the_reason(
    registered: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    registered(Resurrects())
    assert main(["check", "mine", "--only", "removed_tokens_stay_removed"]) == 1
    assert "failed       removed_tokens_stay_removed token 0 was removed" in capsys.readouterr().out


CRASHES = """
import numpy as np
from engine_sampler.cli.main import main
from engine_sampler.registry import default_registry
from tests.registry.test_loading import Plugin
from tests.testing.wrong.right import Near

class Crashes(Near):
    'Has a C function at the address 1.'
    row_function = 1

default_registry().register(Plugin(Crashes()), "mine")
main(["check", "near", "--only", "the_row_function_equals_apply"])
"""


def test_a_plugin_that_crashes_leaves_the_name_of_the_law() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", CRASHES], cwd=root, capture_output=True, encoding="utf-8")
    assert done.returncode != 0
    assert "test_the_row_function_equals_apply" in done.stderr


def test_a_name_that_nothing_has_ends_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "top_q"]) == 2
    assert "did you mean 'top_p'" in capsys.readouterr().err


def test_names_and_paths_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some-library").touch()
    (tmp_path / "top_k").touch()
    assert [t for t in ("top_k", "some-plugin", "nosuch") if is_path(t)] == []
    assert all(map(is_path, ("some-library", "./top_k", "lib/x", "none.so", "vendor.dll")))
