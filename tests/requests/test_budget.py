from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.requests import budget as budget_module
from engine_sampler.requests.budget import SHORT_TURNS, Budget, Share

VOCAB = 300


class Participant:
    """A request, as far as its turns are concerned."""

    def __init__(self) -> None:
        self.share = Share()


def budget_of(steps: int, monkeypatch: pytest.MonkeyPatch, turn: int = 1) -> Budget:
    """The budget of steps that may do `steps` of work, `turn` of it in one turn."""
    monkeypatch.setattr(budget_module, "STEP_WORK", steps)
    monkeypatch.setattr(budget_module, "REQUEST_WORK", turn)
    budget = Budget(VOCAB)
    budget.start()
    return budget


def test_a_fifth_of_a_step_is_kept_for_accepts_and_what_masks_leave_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget = budget_of(1000, monkeypatch)
    work = budget.parts(4)
    assert work is not None
    assert (work.each, work.left) == (100, 800)
    work.spend(300)
    budget.start_accepts()
    assert work.left == 700
    budget.start_accepts()
    assert budget.parts(7) is work
    assert (work.each, work.left) == (50, 700)


def test_masks_that_do_slightly_more_take_nothing_from_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = budget_of(1000, monkeypatch)
    work = budget.parts(1)
    assert work is not None
    work.spend(950)
    budget.start_accepts()
    assert work.left == 200


def test_tokens_chosen_elsewhere_have_a_fifth_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, share = budget_of(1000, monkeypatch, turn=50), Share()
    work = budget.turn_elsewhere(share)
    assert work is not None
    assert work is not budget.turn(share)
    assert (work.each, work.left) == (50, 200)
    work.spend(150)
    budget.start()
    assert budget.turn_elsewhere(share) is work
    assert work.left == 50
    budget.start_elsewhere(3)
    budget.turn_elsewhere(share)
    assert work.left == 200


def test_whoever_had_the_last_turn_longest_ago_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, requests, served = budget_of(1000, monkeypatch), [Participant() for _ in range(7)], []
    for _ in range(14):
        budget.start()
        work = budget.parts(7)
        assert work is not None
        for turns, i in enumerate(budget.turns(range(7), requests)):
            served.append(i)
            if turns == 1:  # this step's work lasts for two
                work.spend(800)
    assert served == [*range(7)] * 4


def test_a_turn_counts_wherever_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, requests = budget_of(1000, monkeypatch), [Participant(), Participant()]
    budget.turn(requests[0].share)
    budget.turn_elsewhere(requests[1].share)
    assert list(budget.turns([1, 0], requests)) == [0, 1]


def test_work_that_cannot_be_divided_gets_a_long_turn_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, requests, sizes = budget_of(125, monkeypatch, turn=5000), [Participant()], []
    for _ in range(2 * (SHORT_TURNS + 1)):
        budget.start()
        work = budget.parts(1)
        assert work is not None
        for _ in budget.turns([0], requests):
            sizes.append(work.left)
    assert sizes == 2 * [*[100] * SHORT_TURNS, 5000]


def test_a_turn_ends_a_postponement(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, share = budget_of(1000, monkeypatch), Share()
    share.postponed = True
    budget.turn(share)
    assert not share.postponed


def test_nothing_is_bounded_if_nothing_is_postponed() -> None:
    budget, requests = Budget(VOCAB, postpone=False), [Participant()]
    budget.start(1)
    budget.start_accepts()
    budget.start_elsewhere(1)
    given: list[Any] = [
        budget.parts(1),
        budget.turn(requests[0].share),
        budget.turn_elsewhere(requests[0].share),
    ]
    assert given == [None] * 3
    assert list(budget.turns([0], requests)) == []
