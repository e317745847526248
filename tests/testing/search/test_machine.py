"""Random sequences of events are shown by what they need to fail."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from engine_sampler.registry import CORE_PARAMS, Registry
from engine_sampler.testing import SamplerContract, failing_laws
from engine_sampler.testing.plugins import SEARCHES, Search, check_plugin
from engine_sampler.testing.search.machine import RandomMachine, search

from ..wrong.right import Near


class Counting(RandomMachine):
    """Fails at the third "add" in the same run; with `only_once`, not again in a later run."""

    events = ("add", "other", "another")
    failed = False

    def __init__(self, only_once: bool = False) -> None:
        super().__init__()
        self.only_once, self.count = only_once, 0

    def begin(self) -> None:
        pass

    def add(self) -> None:
        self.count += 1
        if self.count == 3 and not (self.only_once and Counting.failed):
            Counting.failed = True
            raise AssertionError(f"three times, after {self.recent()}")

    def other(self) -> None: ...

    another = other


def test_a_failure_is_shown_by_the_events_that_it_needs() -> None:
    with pytest.raises(AssertionError, match=r"^three times, after begin, add, add, add\n"):
        search(Counting, 1, 60)


def test_a_failure_that_does_not_come_again_is_raised_all_the_same() -> None:
    Counting.failed = False
    with pytest.raises(AssertionError, match=r"^three times, after begin, .*add, .*other"):
        search(lambda: Counting(only_once=True), 1, 60)


def test_a_sequence_follows_from_its_number() -> None:
    def drawn(number: int) -> list[Any]:
        seen: list[Any] = []

        class Drawing(Counting):
            def add(self) -> None:
                seen.append(self.random.integers(2**32))

        search(Drawing, number, 20)
        return seen

    assert drawn(5) == drawn(5) != drawn(6)
    assert len(set(np.unique(drawn(5)))) > 3


def test_without_hypothesis_its_laws_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    for name in [name for name in sys.modules if name.startswith("engine_sampler.testing.search.")]:
        monkeypatch.delitem(sys.modules, name)
    kit = type("Kit", (SamplerContract,), {"sampler": Near(), "vocab_sizes": (17,), "largest": 64})
    assert set(broken := failing_laws(kit)) == {SEARCHES[0]}
    assert "Hypothesis is missing, with which the kits search: pip install" in broken[SEARCHES[0]]
    only = [law.removeprefix("test_") for law in SEARCHES[:1]]
    [checked] = check_plugin("infill", Registry(CORE_PARAMS), Search(only))
    [result] = checked.results
    assert (result.outcome, result.detail.split(":")[0]) == ("not promised", "it needs Hypothesis")
