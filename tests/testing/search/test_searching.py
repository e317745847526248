"""How long a kit searches."""

from __future__ import annotations

import time

import pytest

from engine_sampler.testing.search.searching import Searching, seconds_to_search


class TwoLaws(Searching):
    """Two laws share what the kit may take."""

    def test_one(self) -> None: ...

    def test_other(self) -> None: ...


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Processor time, of which each look at it takes a second."""
    now = [0.0]

    def look() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.delenv("ENGINE_SAMPLER_TEST_SECONDS", raising=False)
    monkeypatch.setattr(time, "process_time", look)
    return now


@pytest.mark.parametrize(("seconds", "count"), [(0.0, 3), (1.0, 3), (20.0, 12)])
def test_a_law_draws_its_first_pass_and_then_for_its_part_of_the_time(
    seconds: float, count: int, clock: list[float]
) -> None:
    kit = TwoLaws()
    vars(kit)["seconds"] = seconds
    assert list(kit.numbers(3)) == list(range(count))


def test_the_environment_replaces_the_seconds_of_every_kit(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_TEST_SECONDS", "8")
    assert len(list(TwoLaws().numbers(1))) == 4


def test_another_seed_draws_other_numbers(clock: list[float]) -> None:
    kit = TwoLaws()
    vars(kit)["seed"] = 5
    assert list(kit.numbers(2)) == [5, 6]
    one, other = ([random.integers(2**62) for random in drawing.draws(2)] for drawing in (kit, TwoLaws()))
    assert one != other


@pytest.mark.parametrize("text", ["", "long", "-1", "nan", "inf"])
def test_seconds_that_are_no_time_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_TEST_SECONDS", text)
    with pytest.raises(
        ValueError, match=f"ENGINE_SAMPLER_TEST_SECONDS='{text}' is not allowed: a finite number"
    ):
        seconds_to_search(1.0)
