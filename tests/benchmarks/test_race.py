"""`race` and the tables of its speeds, with sides that only count."""

from __future__ import annotations

import pytest

from benchmarks.generation.cases import Case
from benchmarks.generation.race import ModelClock, Side, Speed, race
from benchmarks.generation.report import headline, report


def test_sides_take_turns_with_the_same_seeds() -> None:
    turns: list[tuple[str, int]] = []

    def side(name: str) -> Side:
        def generate(seed: int) -> list[list[int]]:
            turns.append((name, seed))
            return [[1, 2, 3]] * 2

        return Side(name, generate)

    speeds = race([side("own"), side("ours")], ModelClock(), seconds=0)
    assert [speed.name for speed in speeds] == ["own", "ours"]
    rounds = len(turns) // 2
    assert turns == [(name, seed) for seed in range(rounds) for name in ("own", "ours")]


def test_sides_with_different_numbers_of_tokens_are_refused() -> None:
    sides = [Side("own", lambda seed: [[1, 2]]), Side("ours", lambda seed: [[1]])]
    with pytest.raises(ValueError, match=r"\['own', 'ours'\] gave \[2, 1\] tokens"):
        race(sides, ModelClock(), seconds=0)


def test_a_clock_counts_the_calls_of_its_function() -> None:
    clock = ModelClock()
    assert clock.timed(lambda a, b: sum(range(a)) + b)(10_000, b=1) == 49_995_001
    assert clock.seconds > 0


def test_tables_list_our_sides_beside_the_engines_own() -> None:
    own = Speed("llama.cpp", 100.0, 0.004, 0.006, 0.01)
    ours = [Speed("`Scheduler`", 160.0, 0.004, 0.00225, 0.02), Speed("`Session`", 150.0, 0.004, 0.0026, 0.02)]
    speeds = {"llama.cpp": {Case(32, 16): [own, *ours]}}
    lines = report(speeds).splitlines()
    first = "| 32 | the chain | 100 | 6.00 ms, 60% | `Scheduler` | 160 | 2.25 ms, 36% | 1.60× |"
    assert first in lines
    assert lines[lines.index(first) + 1].endswith("| `Session` | 150 | 2.60 ms, 39% | 1.50× |")
    assert headline(speeds) == "llama.cpp, 32 rows, the chain: `Scheduler` 1.60×"
