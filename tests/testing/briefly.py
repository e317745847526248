"""A search that goes on after its first pass, in little time."""

from __future__ import annotations

import pytest

from engine_sampler.testing import plugins
from engine_sampler.testing.laws import Contract
from engine_sampler.testing.plugins import Search, check_plugin
from engine_sampler.testing.search.searching import Searching


def searched_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a first pass have one trial at most, and go on for one more whatever it has, as after `--seconds`;
    with few tokens."""
    trials = lambda kit, first: iter(range(kit.seed, kit.seed + min(first, 1) + 1))  # noqa: E731
    monkeypatch.setattr(Searching, "numbers", trials)
    monkeypatch.setattr(Searching, "sequences", 1)
    monkeypatch.setattr(plugins, "VOCAB_SIZES", (2, 17))
    monkeypatch.setattr(Contract, "largest", 64)


def broken_by(name: str, registry: plugins.Registry) -> dict[str, str]:
    """The laws that `engine-sampler check NAME` finds broken, with the reasons."""
    results = (result for checked in check_plugin(name, registry, Search()) for result in checked.results)
    return {result.name: result.detail for result in results if result.outcome == "failed"}
