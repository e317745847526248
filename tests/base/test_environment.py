"""The environment variables: all that the package reads are listed, here and in the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine_sampler.base.environment import PREFIX, VARIABLES, variables_set

ROOT = Path(__file__).resolve().parents[2]
OF_THE_TESTS = {"ENGINE_SAMPLER_TEST_ROUNDS", "ENGINE_SAMPLER_TEST_SECONDS"}
AT_INSTALL = {"ENGINE_SAMPLER_REQUIRE_NATIVE"}


def test_every_variable_that_the_package_reads_is_listed() -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "engine_sampler").rglob("*.py")]
    read = {name for text in sources for name in re.findall(rf"{PREFIX}[A-Z_]*[A-Z]", text)}
    assert read - OF_THE_TESTS - AT_INSTALL == set(VARIABLES)


def test_the_docs_list_the_same_variables() -> None:
    page = (ROOT / "docs" / "backends.md").read_text("utf-8")
    listed = set(re.findall(rf"^\| `({PREFIX}\w+)", page, re.MULTILINE))
    assert listed - AT_INSTALL == set(VARIABLES)


def test_those_that_are_set_are_told_with_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ENGINE_SAMPLER_PLUGINS", "")
    monkeypatch.setenv("ENGINE_SAMPLER_ISA", "avx2")
    assert variables_set() == {"ENGINE_SAMPLER_PLUGINS": "", "ENGINE_SAMPLER_ISA": "avx2"}
