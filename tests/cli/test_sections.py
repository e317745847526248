"""What `engine-sampler plugins` prints: what is in effect, then bridges, plugins and names."""

from __future__ import annotations

import io
from typing import Any

import pytest

from engine_sampler.cli.listing import inventory
from engine_sampler.cli.plain import section_lines
from engine_sampler.cli.sections import Section, sections
from engine_sampler.registry import CORE_PARAMS, Registry

from .test_listing import Plugin

VLLM = {
    "name": "vLLM",
    "bridge": "engine-sampler-vllm 0.1.0",
    "state": "off",
    "installed": "0.28.0",
    "tested": "0.33.0",
    "why": "ENGINE_SAMPLER_VLLM=1 switches it on",
}


@pytest.fixture
def registry() -> Registry:
    return Registry(CORE_PARAMS)


def shown(registry: Registry, details: bool = False, **changed: Any) -> dict[str, Section]:
    listed = sections({**inventory(registry), **changed}, details)
    return {section.title: section for section in listed}


def printed(registry: Registry, lines: str, details: bool = False) -> str:
    """The words of the listing, which fits in 80 columns."""
    listed = [*shown(registry, details, bridges=[VLLM]).values()]
    if lines == "plain":
        text = "\n".join(line for section in listed for line in section_lines(section))
    else:
        console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=80)
        from engine_sampler.cli.tables import section_table

        console.print(*map(section_table, listed))
        text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    return " ".join(text.replace("│", " ").split())


def test_what_is_in_effect_comes_first(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_BACKEND", "numpy")
    listed = shown(registry)
    assert next(iter(listed)) == "in effect"
    rows = listed["in effect"].rows
    assert rows[0] == ("backend", "numpy", "named by ENGINE_SAMPLER_BACKEND=numpy")
    assert ("variable", "ENGINE_SAMPLER_BACKEND=numpy") in [row[:2] for row in rows]


def test_a_backend_that_cannot_be_used_is_said_with_the_reason(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_BACKEND", "abakus")
    rows = shown(registry)["in effect"].rows
    assert rows[0][:2] == ("backend", "none")
    assert any("backend='abakus' is not allowed" in row[2] for row in rows)


def test_names_alone_are_listed_unless_details_are_asked_for(registry: Registry) -> None:
    assert "names" in shown(registry)
    assert "top_k" in dict(shown(registry)["names"].rows)["samplers"]
    assert {"samplers", "grammars", "backends"} <= shown(registry, details=True).keys()


def test_what_cannot_be_used_has_a_row_of_its_own(registry: Registry) -> None:
    registry.register(Plugin(OSError("no beads")))
    assert shown(registry)["cannot be used"].rows == [
        ("abacus (inexact)", "this process", "failed", "OSError: no beads")
    ]


def test_no_bridges_no_section(registry: Registry) -> None:
    assert "bridges" not in shown(registry, bridges=[])


@pytest.mark.parametrize("lines", ["tables", "plain"])
def test_a_bridge_is_printed_with_both_releases(registry: Registry, lines: str) -> None:
    assert "vLLM 0.28.0 0.33.0 off ENGINE_SAMPLER_VLLM=1 switches it on" in printed(registry, lines)


@pytest.mark.parametrize("lines", ["tables", "plain"])
def test_what_fails_is_printed_with_the_reason_beside_its_state(registry: Registry, lines: str) -> None:
    registry.register(Plugin(OSError("no beads " * 20)))
    for details in (False, True):
        assert "this process failed OSError: no beads no beads" in printed(registry, lines, details)


@pytest.mark.parametrize("lines", ["tables", "plain"])
def test_inexact_backends_and_what_plugins_provide_are_printed(registry: Registry, lines: str) -> None:
    registry.register(Plugin())
    words = printed(registry, lines)
    assert "abacus (inexact)" in words
    assert "toys this process loaded robust_z, abacus" in words
    assert "38 samplers, 6 selectors" in words


def test_a_variable_of_a_bridge_is_its(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine_sampler.cli import listing
    from engine_sampler.for_bridges.peers import BridgeState

    monkeypatch.setattr(listing, "bridges", lambda: [BridgeState(**VLLM)])
    monkeypatch.setenv("ENGINE_SAMPLER_VLLM", "1")
    assert {"name": "ENGINE_SAMPLER_VLLM", "value": "1", "effect": "of engine-sampler-vllm 0.1.0"} in (
        inventory(registry)["environment"]
    )
