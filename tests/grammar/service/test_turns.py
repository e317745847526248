"""Whose turn is next."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pytest

from engine_sampler.grammar.service.turns import ClientTurns, Turn


@pytest.fixture
def turns() -> ClientTurns[str]:
    return ClientTurns()


def put(turns: ClientTurns[str], jobs: str, client: Any = None) -> None:
    for job in jobs.split():
        assert turns.put(job, job if client is None else client)


def take(turns: ClientTurns[str]) -> Turn[str]:
    turn = turns.take()
    assert turn is not None
    return turn


def order(turns: ClientTurns[str], count: int, seconds: float = 1.0) -> str:
    """The next jobs, of which each runs before the next one begins."""
    found = []
    for _ in range(count):
        turn = take(turns)
        found.append(turn.job)
        turns.end(turn, seconds)
    return " ".join(found)


def test_jobs_without_clients_run_in_order_of_arrival(turns: ClientTurns[str]) -> None:
    put(turns, "a b c")
    assert order(turns, 2) == "a b"
    put(turns, "d")
    assert order(turns, 2) == "c d"


def test_clients_take_turns(turns: ClientTurns[str]) -> None:
    put(turns, "a1 a2 a3 a4", "a")
    put(turns, "b1 b2", "b")
    put(turns, "c1")
    assert order(turns, 7) == "a1 b1 c1 a2 b2 a3 a4"


def test_a_client_whose_jobs_take_little_has_several_turns_for_one_that_takes_long(
    turns: ClientTurns[str],
) -> None:
    put(turns, "slow1 slow2", "slow")
    put(turns, "b1 b2 b3", "quick")
    assert order(turns, 1, 1.0) == "slow1"
    assert order(turns, 3, 0.1) == "b1 b2 b3"


def test_a_client_whose_job_runs_comes_after_those_that_have_none(turns: ClientTurns[str]) -> None:
    put(turns, "a1 a2 a3", "a")
    put(turns, "b1", "b")
    running = [take(turns), take(turns), take(turns)]
    assert [turn.job for turn in running] == ["a1", "b1", "a2"]
    put(turns, "c1", "c")
    assert order(turns, 2) == "c1 a3"


def test_nobody_saves_up_turns(turns: ClientTurns[str]) -> None:
    put(turns, "a1 a2 a3", "a")
    assert order(turns, 2, 100.0) == "a1 a2"
    put(turns, "b1 b2 b3", "b")
    assert order(turns, 4, 100.0) == "b1 a3 b2 b3"


def test_a_job_that_several_want_has_the_first_turn_of_any_of_them(turns: ClientTurns[str]) -> None:
    put(turns, "a1 a2 popular", "a")
    turns.join("popular", "b")
    turns.join("popular", "b")
    assert order(turns, 3) == "a1 popular a2"
    turns.join("popular", "c")  # it waits no more
    put(turns, "last")
    assert order(turns, 1) == "last"


def test_whether_others_wait(turns: ClientTurns[str]) -> None:
    put(turns, "a1 a2", "a")
    turn = take(turns)
    assert not turns.others_wait("a")
    put(turns, "b1")
    assert turns.others_wait("a")
    turns.end(turn, 1.0)


def test_closing_ends_the_turns_of_those_who_wait_for_them(turns: ClientTurns[str]) -> None:
    taken: list[Any] = []
    threads = [threading.Thread(target=lambda: taken.append(turns.take())) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert turns.close() == []
    for thread in threads:
        thread.join(60)
    assert taken == [None, None]
    assert not turns.put("late", "a")


def test_closing_returns_the_jobs_that_have_waited(turns: ClientTurns[str]) -> None:
    put(turns, "a1 a2", "a")
    put(turns, "b1")
    running = take(turns)
    assert turns.close() == ["a2", "b1"]
    turns.end(running, 1.0)
    assert turns.take() is None


@pytest.mark.parametrize("seed", range(5))
def test_every_job_has_one_turn_and_no_client_has_much_more_time_than_another(seed: int) -> None:
    draw = random.Random(seed)
    turns: ClientTurns[tuple[int, int]] = ClientTurns()
    seconds = [draw.choice([0.1, 1.0, 7.0]) for _ in range(4)]
    for client in range(4):
        for number in range(300):
            turns.put((client, number), client)
    used: Counter[int] = Counter()
    had = []
    while len(had) < 100:
        turn = turns.take()
        assert turn is not None
        had.append(turn.job)
        used[turn.job[0]] += seconds[turn.job[0]]  # type: ignore[assignment]
        turns.end(turn, seconds[turn.job[0]])
    assert len(set(had)) == 100
    assert max(used.values()) - min(used.values()) <= max(seconds)
    assert not turns._clients.keys() - set(range(4))
